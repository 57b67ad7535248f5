// A thread that sleeps until it is woken or a time has passed.
#pragma once

#include <condition_variable>
#include <mutex>

namespace tenon::store_file {

/// Threads: wake() any, wait_for() one.
class Waker {
 public:
  void wake() {
    {
      const std::scoped_lock lock(mutex_);
      woken_ = true;
    }
    cv_.notify_one();
  }
  template <class Duration>
  void wait_for(Duration d) {
    std::unique_lock lock(mutex_);
    cv_.wait_for(lock, d, [this] { return woken_; });
    woken_ = false;
  }

 private:
  std::mutex mutex_{};
  std::condition_variable cv_{};
  bool woken_ = false;
};

}  // namespace tenon::store_file
