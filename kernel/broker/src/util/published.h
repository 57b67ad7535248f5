// Snapshots that are read on every request and replaced rarely: an immutable value behind a
// generation number, and a per-thread copy of the pointer. (std::atomic<std::shared_ptr> of
// libstdc++ 12 is slow and races, see the style rules.)
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace tenon::broker {

/// Thread: any.
template <class T>
class Published {
 public:
  explicit Published(std::shared_ptr<const T> first = std::make_shared<const T>())
      : value_(std::move(first)) {}

  std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }
  std::shared_ptr<const T> get() const {
    const std::scoped_lock lock(mutex_);
    return value_;
  }
  void publish(std::shared_ptr<const T> value) {
    const std::scoped_lock lock(mutex_);
    value_ = std::move(value);
    generation_.fetch_add(1, std::memory_order_acq_rel);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_;
  std::atomic<std::uint64_t> generation_{1};
};

/// One thread's view of a Published: it moves only when told, so that what a batch points to stays.
/// Thread: its owner.
template <class T>
class Cached {
 public:
  explicit Cached(const Published<T>& source)
      : source_(&source) {
    refresh();
  }
  void refresh() {
    const std::uint64_t now = source_->generation();
    if (now != generation_) {
      value_ = source_->get();
      generation_ = now;
    }
  }
  /// Valid until the next refresh().
  const T& current() const noexcept { return *value_; }
  /// Keeps what current() is now.
  std::shared_ptr<const T> hold() const noexcept { return value_; }

 private:
  const Published<T>* source_;
  std::shared_ptr<const T> value_{};
  std::uint64_t generation_ = 0;
};

}  // namespace tenon::broker
