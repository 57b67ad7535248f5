// Counters of messages in and out: written by one thread each, summed by the reader (spec: broker
// §16.2).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::broker {

/// Counters of one thread, on cache lines of their own.
struct alignas(64) ThreadStats {
  std::atomic<std::uint64_t> put_count{0};
  std::atomic<std::uint64_t> put_bytes{0};
  std::atomic<std::uint64_t> put_failed{0};
  std::atomic<std::uint64_t> get_count{0};  ///< messages handed out
  std::atomic<std::uint64_t> get_bytes{0};
  std::atomic<std::uint64_t> get_found{0};  ///< reads that found something
  std::atomic<std::uint64_t> get_miss{0};

  /// For the owning thread: no locked instruction.
  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t n) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

/// Thread: any.
class Stats {
 public:
  struct Totals {
    std::uint64_t put_count = 0, put_bytes = 0, put_failed = 0;
    std::uint64_t get_count = 0, get_bytes = 0, get_found = 0, get_miss = 0;
  };
  enum class Rate : std::uint8_t { kPut, kFound, kMiss, kTotal, kTransferred };

  explicit Stats(std::int64_t start_ms)
      : start_ms_(start_ms) {}

  /// Counters for the calling component; valid as long as this.
  ThreadStats& add_thread();
  Totals totals() const;
  /// Once per second.
  void sample(std::int64_t now_ms);
  /// "<10 s> <60 s> <600 s>": averages per second; empty text for a window without enough samples.
  std::string rates(Rate rate) const;
  std::int64_t start_ms() const noexcept { return start_ms_; }

  /// Message totals at the last two midnights.
  struct Daily {
    std::uint64_t put_yesterday = 0, put_today = 0, get_yesterday = 0, get_today = 0;
  };
  void roll_day();
  Daily daily() const;

 private:
  struct Sample {
    std::int64_t at_ms = 0;
    Totals totals{};
  };
  std::int64_t start_ms_;
  mutable std::mutex mutex_;
  std::deque<ThreadStats> threads_{};
  std::deque<Sample> samples_{};
  Daily daily_{};
};

}  // namespace tenon::broker
