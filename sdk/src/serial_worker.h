// One thread for work of a client that may block: rebalance, resets.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tenon::sdk {

/// Runs functions one after another. Thread: any.
class SerialWorker {
 public:
  SerialWorker() = default;
  ~SerialWorker() { stop(); }
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  /// The thread is made by the first post. After stop() the function is dropped.
  void post(std::function<void()> fn);
  /// Drops what waits, lets the running function end, joins. Idempotent.
  void stop();
  bool is_current() const noexcept { return loop_thread_.load() == std::this_thread::get_id(); }

 private:
  void loop();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopped_ = false;
  std::atomic<std::thread::id> loop_thread_{};
  std::thread thread_;
};

}  // namespace tenon::sdk
