// The result of an operation that is already running: `co_await task` in a coroutine, or
// task.get() to wait for it. Also the return type of user coroutines that await such tasks.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace tenon::sdk {

template <class T = void>
class Task;

namespace detail {

struct Unit {};

/// Shared by the operation, which completes it once, and the task, which one waiter looks at.
template <class T>
class TaskState {
 public:
  using Stored = std::conditional_t<std::is_void_v<T>, Unit, T>;

  void complete(Stored value) {
    value_.emplace(std::move(value));
    finish();
  }
  void fail(std::exception_ptr error) {
    error_ = std::move(error);
    finish();
  }
  bool ready() const noexcept { return phase_.load(std::memory_order_acquire) == kDone; }
  /// False if the operation has finished meanwhile: do not suspend.
  bool suspend(std::coroutine_handle<> waiter) noexcept {
    waiter_ = waiter;
    std::uint32_t expected = kRunning;
    return phase_.compare_exchange_strong(expected, kAwaited, std::memory_order_acq_rel);
  }
  void wait() const noexcept {
    for (std::uint32_t seen = phase_.load(std::memory_order_acquire); seen != kDone;
         seen = phase_.load(std::memory_order_acquire)) {
      phase_.wait(seen, std::memory_order_acquire);
    }
  }
  T take() {
    if (error_) {
      std::rethrow_exception(error_);
    }
    if constexpr (!std::is_void_v<T>) {
      return std::move(*value_);
    }
  }

 private:
  static constexpr std::uint32_t kRunning = 0;
  static constexpr std::uint32_t kAwaited = 1;
  static constexpr std::uint32_t kDone = 2;

  void finish() {
    const std::uint32_t before = phase_.exchange(kDone, std::memory_order_acq_rel);
    phase_.notify_all();
    if (before == kAwaited) {
      waiter_.resume();
    }
  }

  std::atomic<std::uint32_t> phase_{kRunning};
  std::coroutine_handle<> waiter_{};
  std::optional<Stored> value_{};
  std::exception_ptr error_{};
};

template <class T>
struct TaskPromiseBase {
  std::shared_ptr<TaskState<T>> state = std::make_shared<TaskState<T>>();
  std::suspend_never initial_suspend() const noexcept { return {}; }
  std::suspend_never final_suspend() const noexcept { return {}; }
  void unhandled_exception() { state->fail(std::current_exception()); }
};
template <class T>
struct TaskPromise : TaskPromiseBase<T> {
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& value) {
    this->state->complete(T(std::forward<U>(value)));
  }
};
template <>
struct TaskPromise<void> : TaskPromiseBase<void> {
  Task<void> get_return_object();
  void return_void() { state->complete({}); }
};

}  // namespace detail

/// The operation runs from the moment the Task exists and goes on if the Task is dropped. Awaited or
/// read once. A waiting coroutine continues on the thread that completes the operation (an I/O
/// thread of the Client, or its executor): it must not block there.
template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;

  explicit Task(std::shared_ptr<detail::TaskState<T>> state) noexcept
      : state_(std::move(state)) {}

  bool ready() const noexcept { return state_->ready(); }
  /// Blocks until the operation has finished. Never on an I/O thread.
  T get() {
    state_->wait();
    return state_->take();
  }

  bool await_ready() const noexcept { return state_->ready(); }
  bool await_suspend(std::coroutine_handle<> waiter) noexcept { return state_->suspend(waiter); }
  T await_resume() { return state_->take(); }

 private:
  std::shared_ptr<detail::TaskState<T>> state_;
};

template <class T>
Task<T> detail::TaskPromise<T>::get_return_object() {
  return Task<T>(this->state);
}
inline Task<void> detail::TaskPromise<void>::get_return_object() {
  return Task<void>(state);
}

}  // namespace tenon::sdk
