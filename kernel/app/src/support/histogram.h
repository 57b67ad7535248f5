// Latencies in buckets whose width grows with the value: every percentile is exact to 1/128.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tenon::app {

/// Counts values from 0 to 2^42 - 1 (73 minutes in nanoseconds); larger ones count as that. Does not
/// allocate. Thread: any may record; read when they have finished.
class Histogram {
 public:
  void record(std::uint64_t value) noexcept {
    counts_[index(value)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
    std::uint64_t seen = max_.load(std::memory_order_relaxed);
    while (value > seen && !max_.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
  }
  void add(const Histogram& other) noexcept;

  std::uint64_t count() const noexcept;
  std::uint64_t max() const noexcept { return max_.load(std::memory_order_relaxed); }
  double mean() const noexcept;
  /// The value that `percent` of all values do not exceed, rounded up to its bucket's end; 0 without
  /// values. percent: 0 to 100
  std::uint64_t percentile(double percent) const noexcept;

 private:
  static constexpr unsigned kPrecisionBits = 7;  ///< 128 buckets for each doubling
  static constexpr unsigned kValueBits = 42;
  static constexpr std::size_t kBuckets = std::size_t{kValueBits - kPrecisionBits + 1}
                                          << kPrecisionBits;

  static std::size_t index(std::uint64_t value) noexcept;
  static std::uint64_t bucket_end(std::size_t index) noexcept;

  std::array<std::atomic<std::uint64_t>, kBuckets> counts_{};
  std::atomic<std::uint64_t> max_{0};
  std::atomic<std::uint64_t> sum_{0};
};

}  // namespace tenon::app
