// A few threads and a bounded queue, for work that may block: disk reads that may miss the cache, DNS,
// plug-in calls of class worker.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tenon {

/// Thread: any, unless said otherwise. Tasks run in the order of their posts, several at a time.
class WorkerPool {
 public:
  using Task = std::function<void()>;

  struct Options {
    std::string name = "worker";       ///< threads are called name-0, name-1, …; at most 15 bytes
    std::size_t threads = 2;           ///< at least 1
    std::size_t queued_max = 65536;    ///< tasks waiting; more is refused
    std::function<void()> on_start{};  ///< runs first in each thread
  };

  /// Starts the threads with all signals blocked.
  explicit WorkerPool(Options options);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();  ///< stop()

  /// False if the queue is full or the pool is stopped: the task was not taken and is not run. A task
  /// must not throw; if it does the process ends.
  [[nodiscard]] bool try_post(Task task);

  /// Refuses new tasks, runs those that wait, joins. Idempotent. Not from a task.
  void stop();

  std::size_t threads() const noexcept { return threads_.size(); }
  std::size_t queued() const;

 private:
  void run();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool stopped_ = false;
  std::mutex stop_mutex_;
  std::vector<std::thread> threads_;
};

/// Starts a thread with all signals blocked: signals are handled where the program waits for them.
/// Throws std::system_error like std::thread.
std::thread start_thread(const std::string& name, std::function<void()> body);

}  // namespace tenon
