#include "tenon/host/thread_tag.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace tenon::host {
namespace {

thread_local std::uint32_t tags = 0;

/// A recursive lock whose waiters can be told to give up.
class ControlLock {
 public:
  bool acquire(const std::atomic<bool>* give_up) {
    const auto me = std::this_thread::get_id();
    std::unique_lock lock(mutex_);
    if (owner_ != me) {
      changed_.wait(lock, [&] { return depth_ == 0 || (give_up != nullptr && give_up->load()); });
      if (depth_ != 0) {
        return false;
      }
      owner_ = me;
    }
    ++depth_;
    return true;
  }
  void release() {
    const std::scoped_lock lock(mutex_);
    if (--depth_ == 0) {
      owner_ = {};
      changed_.notify_all();
    }
  }
  void wake() {
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread::id owner_{};
  int depth_ = 0;
};

ControlLock& control_lock() {
  static auto* lock = new ControlLock;  // outlives threads that are still there at exit
  return *lock;
}

}  // namespace

std::uint32_t thread_tags() noexcept {
  return tags;
}

ThreadTag::ThreadTag(std::uint32_t bits) noexcept
    : before_(tags) {
  tags |= bits;
}

ThreadTag::~ThreadTag() {
  tags = before_;
}

ControlScope::ControlScope()
    : owns_(control_lock().acquire(nullptr)),
      tag_(TENON_AT_CONTROL) {}

ControlScope::ControlScope(const std::atomic<bool>& give_up)
    : owns_(control_lock().acquire(&give_up)),
      tag_(owns_ ? std::uint32_t{TENON_AT_CONTROL} : 0u) {}

ControlScope::~ControlScope() {
  if (owns_) {
    control_lock().release();
  }
}

void ControlScope::wake_waiting() noexcept {
  control_lock().wake();
}

}  // namespace tenon::host
