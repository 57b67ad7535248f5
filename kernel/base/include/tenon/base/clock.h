// Time as a dependency: code whose behaviour depends on time takes a Clock, tests give it a
// ManualClock.
#pragma once

#include <atomic>
#include <cstdint>

namespace tenon {

/// Source of time. Thread: any.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t wall_ms() const noexcept = 0;   ///< milliseconds since the Unix epoch
  virtual std::uint64_t mono_ns() const noexcept = 0;  ///< monotonic nanoseconds, arbitrary start
};

/// The machine's clock; one object for the process.
const Clock& system_clock() noexcept;

/// A clock that only moves when told. Thread: any.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::int64_t wall_ms = 1'700'000'000'000)
      : wall_ms_(wall_ms) {}
  std::int64_t wall_ms() const noexcept override {
    return wall_ms_.load(std::memory_order_acquire);
  }
  std::uint64_t mono_ns() const noexcept override {
    return mono_ns_.load(std::memory_order_acquire);
  }
  void advance_ms(std::int64_t ms) noexcept {
    wall_ms_.fetch_add(ms, std::memory_order_acq_rel);
    mono_ns_.fetch_add(static_cast<std::uint64_t>(ms) * 1'000'000, std::memory_order_acq_rel);
  }

 private:
  std::atomic<std::int64_t> wall_ms_;
  std::atomic<std::uint64_t> mono_ns_{1};
};

}  // namespace tenon
