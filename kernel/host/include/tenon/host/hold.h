// Holds of plug-ins as C++ objects that the host counts: an instance is not destroyed while one is open.
#pragma once

#include "tenon/abi/types.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace tenon::host {

/// Counts open holds of one instance. Thread: any.
class HoldCounter {
 public:
  void opened() noexcept { open_.fetch_add(1, std::memory_order_relaxed); }
  void closed() noexcept {
    if (open_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const std::scoped_lock lock(mutex_);
      none_.notify_all();
    }
  }
  std::int64_t open() const noexcept { return open_.load(std::memory_order_acquire); }
  /// True if no hold is open within the time.
  bool wait_none(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return none_.wait_for(lock, timeout, [this] { return open() == 0; });
  }

 private:
  std::atomic<std::int64_t> open_{0};
  std::mutex mutex_;
  std::condition_variable none_;
};

/// Owns one hold and releases it exactly once. Thread: any, one at a time.
class Hold {
 public:
  Hold() noexcept = default;
  /// Takes over what a plug-in returned; release == NULL is "nothing to release" and not counted.
  Hold(HoldCounter& counter, const tenon_hold& raw) noexcept
      : counter_(raw.release != nullptr ? &counter : nullptr),
        raw_(raw) {
    if (counter_ != nullptr) {
      counter_->opened();
    }
  }
  Hold(Hold&& other) noexcept
      : counter_(std::exchange(other.counter_, nullptr)),
        raw_(other.raw_) {}
  Hold& operator=(Hold&& other) noexcept {
    if (this != &other) {
      reset();
      counter_ = std::exchange(other.counter_, nullptr);
      raw_ = other.raw_;
    }
    return *this;
  }
  ~Hold() { reset(); }

  explicit operator bool() const noexcept { return counter_ != nullptr; }
  void reset() noexcept {
    if (HoldCounter* counter = std::exchange(counter_, nullptr)) {
      raw_.release(raw_.owner, raw_.id);
      counter->closed();
    }
  }

 private:
  HoldCounter* counter_ = nullptr;
  tenon_hold raw_{};
};

}  // namespace tenon::host
