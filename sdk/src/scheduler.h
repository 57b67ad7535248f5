// Timers of a client, on one thread of their own or run by a test.
#pragma once

#include "tenon/base/clock.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace tenon::sdk {

/// Functions must not block: they start asynchronous work. Thread: any.
class Scheduler {
 public:
  using Id = std::uint64_t;
  /// @param own_thread  false: somebody calls run_due(), as tests with a ManualClock do
  Scheduler(const Clock& clock, bool own_thread);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Runs fn once after the delay; period > 0: and then again and again.
  Id add(std::chrono::milliseconds delay,
         std::function<void()> fn,
         std::chrono::milliseconds period = std::chrono::milliseconds(0));
  /// After the return the function does not run any more, unless the caller is that function.
  void cancel(Id id);
  /// Runs what is due now. @return number of functions run
  std::size_t run_due();
  /// Drops everything and joins. Idempotent. Not from a scheduled function.
  void stop();
  std::size_t pending();  ///< jobs not run yet, for tests
  bool is_current() const noexcept { return loop_thread_.load() == std::this_thread::get_id(); }

 private:
  struct Job {
    Id id = 0;
    std::uint64_t period_ns = 0;
    std::function<void()> fn{};
  };
  void loop();
  bool run_one(std::unique_lock<std::mutex>& lock);

  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<std::uint64_t, Job> jobs_;
  Id next_id_ = 1;
  Id running_ = 0;
  bool running_cancelled_ = false;
  std::thread::id running_thread_{};
  bool stopped_ = false;
  std::atomic<std::thread::id> loop_thread_{};
  std::thread thread_;
};

}  // namespace tenon::sdk
