// Counters of messages in and out: written by one thread each, summed by the reader (spec: broker
// §16.2). Times of appends in Java's classes.
#pragma once

#include "stats/stats_items.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker {

/// Upper bounds in ms of the classes of times (broker §16.2, putMessageDistributeTime).
inline constexpr std::array<std::uint32_t, 12> kTimeClasses{
    0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000};
using TimeCounts = std::array<std::uint64_t, kTimeClasses.size() + 1>;

/// Counters of one thread, on cache lines of their own.
struct alignas(64) ThreadStats {
  std::atomic<std::uint64_t> put_count{0};
  std::atomic<std::uint64_t> put_bytes{0};
  std::atomic<std::uint64_t> put_failed{0};
  std::atomic<std::uint64_t> get_count{0};  ///< messages handed out
  std::atomic<std::uint64_t> get_bytes{0};
  std::atomic<std::uint64_t> get_found{0};  ///< reads that found something
  std::atomic<std::uint64_t> get_miss{0};
  std::array<std::atomic<std::uint64_t>, kTimeClasses.size() + 1> put_times{};  ///< messages each
  std::atomic<std::uint64_t> put_max_ms{0};
  std::atomic<std::uint64_t> get_max_ms{0};

  /// For the owning thread: no locked instruction.
  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t n) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  static void raise(std::atomic<std::uint64_t>& counter, std::uint64_t n) noexcept {
    if (n > counter.load(std::memory_order_relaxed)) {
      counter.store(n, std::memory_order_relaxed);
    }
  }
  /// An append of so many messages took this long. For the owning thread.
  void put_took(std::uint64_t ms, std::uint64_t messages) noexcept;
};

/// Thread: any.
class Stats {
 public:
  struct Totals {
    std::uint64_t put_count = 0, put_bytes = 0, put_failed = 0;
    std::uint64_t get_count = 0, get_bytes = 0, get_found = 0, get_miss = 0;
    TimeCounts put_times{};
    std::uint64_t put_max_ms = 0, get_max_ms = 0;
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
  /// Messages of the last minute by how long their append took.
  TimeCounts put_times() const;
  std::int64_t start_ms() const noexcept { return start_ms_; }
  StatsItems& items() const noexcept { return items_; }
  /// Every ten seconds: samples of all named statistics; those of the whole broker have `cluster`
  /// as key.
  void sample_items(std::int64_t now_ms, std::string_view cluster);

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
  mutable StatsItems items_{};
};

/// "[<=0ms]:3 [0~10ms]:0 … [10s~]:0 "
std::string distribution_text(const TimeCounts& counts);
/// Upper bound in ms of the class that this part of all messages does not exceed; "%.2f".
std::string percentile_text(const TimeCounts& counts, double part);

}  // namespace tenon::broker
