// Counts running operations; close() waits until all have left. The way every component shuts down.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace tenon {

/// Thread: any. Not for hot paths: one mutex.
class Gate {
 public:
  /// False once close() was called: the operation must not start.
  bool try_enter() {
    const std::scoped_lock lock(mutex_);
    if (closed_) {
      return false;
    }
    ++inside_;
    return true;
  }
  void leave() {
    const std::scoped_lock lock(mutex_);
    if (--inside_ == 0) {
      empty_.notify_all();
    }
  }
  /// Refuses new entries and blocks until the last operation has left. Idempotent. Must not be
  /// called from inside.
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    empty_.wait(lock, [this] { return inside_ == 0; });
  }
  bool is_closed() const {
    const std::scoped_lock lock(mutex_);
    return closed_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  std::size_t inside_ = 0;
  bool closed_ = false;
};

}  // namespace tenon
