// Threads that call a consumer's listener (spec: client §5.11).
#pragma once

#include "tenon/sdk/client.h"
#include "tenon/sdk/message.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace tenon::sdk::detail {

/// Messages of one pull answer; taken in slices by as many threads as it is worth waking.
struct ListenerJob {
  std::vector<MessageView> messages{};
  std::shared_ptr<void> context{};  ///< the owner's, of the queue they came from
  std::size_t taken = 0;            ///< guarded by the pool
};

/// Thread: any. Kept alive by tasks that were handed to an executor.
class ListenerPool : public std::enable_shared_from_this<ListenerPool> {
 public:
  using Run =
      std::function<void(const std::shared_ptr<void>& context, std::span<const MessageView> slice)>;
  /// @param run  must not throw; not called any more after stop()
  ListenerPool(std::size_t threads_max, std::size_t slice_max, Executor executor, Run run);
  ~ListenerPool();
  ListenerPool(const ListenerPool&) = delete;
  ListenerPool& operator=(const ListenerPool&) = delete;

  void submit(std::vector<MessageView> messages, std::shared_ptr<void> context);
  /// @return false after stop(); until then the function runs, or is dropped by stop()
  bool post(std::function<void()> fn);

  /// Waits until all that was submitted has run and `settled` says yes, at most so long. It is asked
  /// with the pool locked: when a call has ended, after look_again(), and at the end of the time.
  /// After stop() nobody is waited for but the calls that run. @return false if not
  bool drain(std::chrono::milliseconds limit, const std::function<bool()>& settled = {});
  /// What drain()'s `settled` looks at may have changed.
  void look_again();
  /// Drops what waits, waits for what runs (unless the caller is inside of it), ends the threads.
  /// Idempotent.
  void stop();

 private:
  struct Work {
    std::shared_ptr<ListenerJob> job{};
    std::function<void()> fn{};
  };
  void worker();
  void run_locked(std::unique_lock<std::mutex>& lock);
  void wake(std::size_t slices);
  bool idle_except_own() const;

  const std::size_t threads_max_;
  const std::size_t slice_max_;
  const Executor executor_;
  Run run_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable quiet_;  ///< a call has ended, for drain() and stop()
  std::deque<Work> queue_;
  std::vector<std::thread> threads_;
  std::size_t sleeping_ = 0;
  std::size_t running_ = 0;
  std::size_t draining_ = 0;          ///< calls of drain()
  std::int64_t mean_ns_ = 1'000'000;  ///< of a listener call, smoothed: decides how many to wake
  bool stopped_ = false;
};

}  // namespace tenon::sdk::detail
