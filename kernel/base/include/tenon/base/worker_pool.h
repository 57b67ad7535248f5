// A few threads and a bounded queue, for work that may block: disk reads that may miss the cache, DNS,
// plug-in calls of class worker.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
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
  /// What a task learns that waited too long to be done.
  struct Overdue {
    std::uint64_t waited_ns = 0;
    std::size_t queued = 0;  ///< tasks that still wait
  };
  /// Runs like a Task with nullptr, or once in expire() instead.
  using AgeingTask = std::function<void(const Overdue*)>;

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
  /// The same for a task that expire() may take. `now_ns` begins its waiting: any monotonic clock.
  [[nodiscard]] bool try_post_ageing(AgeingTask task, std::uint64_t now_ns);
  /// Takes the tasks from the head that have waited for the limit or longer, and runs them here as
  /// overdue. The first that is younger, or that has no age, ends it.
  void expire(std::uint64_t now_ns, std::uint64_t limit_ns);

  /// Refuses new tasks, runs those that wait, joins. Idempotent. Not from a task.
  void stop();

  std::size_t threads() const noexcept { return threads_.size(); }
  std::size_t queued() const;

 private:
  struct Entry {
    Task task{};
    AgeingTask ageing{};  ///< or this
    std::uint64_t since_ns = 0;
  };

  bool push(Entry entry);
  bool pop_overdue(std::uint64_t now_ns, std::uint64_t limit_ns, Entry& entry, Overdue& overdue);
  void run();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Entry> entries_;
  bool stopped_ = false;
  std::mutex stop_mutex_;
  std::vector<std::thread> threads_;
};

/// Starts a thread with all signals blocked: signals are handled where the program waits for them.
/// Throws std::system_error like std::thread.
std::thread start_thread(const std::string& name, std::function<void()> body);

}  // namespace tenon
