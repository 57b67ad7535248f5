// Threads behind the exec services of all instances of a registry: worker pool, control thread, and one
// dispatcher for timers and descriptors. Each starts when it is first needed.
#pragma once

#include "tenon/base/worker_pool.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

namespace tenon::host {

/// Thread: any. The destructor joins; it must not run on one of the threads. Code that runs on them uses a plain
/// pointer to the core, which is valid until they are joined, and never becomes its last owner.
class ExecCore {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using TimerKey = std::pair<TimePoint, std::uint64_t>;

  explicit ExecCore(std::size_t workers, std::size_t queued_max = 65536);
  ExecCore(const ExecCore&) = delete;
  ExecCore& operator=(const ExecCore&) = delete;
  ~ExecCore();

  std::size_t workers() const noexcept { return workers_; }

  /// False if the queue is full or the core stops. `where` is TENON_ON_WORKER or TENON_ON_CONTROL.
  bool post(std::uint32_t where, std::function<void()> task);

  /// Calls fire on the dispatcher, which must stay quick: post from there.
  TimerKey schedule(TimePoint when, std::function<void()> fire);
  /// False if it fired already or is about to.
  bool unschedule(const TimerKey& key);

  /// Reports readiness once, on the dispatcher; arm again with rearm(). 0 and errno on failure.
  std::uint64_t watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready);
  void rearm(std::uint64_t id);
  void unwatch(std::uint64_t id);

 private:
  struct Watch {
    int fd = -1;
    std::uint32_t epoll_events = 0;
    std::function<void(std::uint32_t)> ready{};
  };
  bool start_dispatcher();  ///< with mutex_ held
  void dispatch();
  void fire_due();
  int wait_ms();
  void wake() const;

  const std::size_t workers_;
  const std::size_t queued_max_;
  std::mutex mutex_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<WorkerPool> control_;
  std::thread dispatcher_;
  std::atomic<bool> stopping_ = false;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  std::uint64_t next_id_ = 1;
  std::map<TimerKey, std::function<void()>> timers_;
  std::unordered_map<std::uint64_t, Watch> watches_;
};

}  // namespace tenon::host
