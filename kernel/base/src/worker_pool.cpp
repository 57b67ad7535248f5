#include "tenon/base/worker_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <pthread.h>
#include <signal.h>

namespace tenon {

std::thread start_thread(const std::string& name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } restore{before};
  return std::thread([short_name = name.substr(0, 15), body = std::move(body)] {
    pthread_setname_np(pthread_self(), short_name.c_str());
    body();
  });
}

WorkerPool::WorkerPool(Options options)
    : options_(std::move(options)) {
  const std::size_t n = std::max<std::size_t>(options_.threads, 1);
  threads_.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    threads_.push_back(
        start_thread(fmt::format("{}-{}", options_.name.substr(0, 12), i), [this] { run(); }));
  }
}

WorkerPool::~WorkerPool() {
  stop();
}

bool WorkerPool::try_post(Task task) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_ || tasks_.size() >= options_.queued_max) {
      return false;
    }
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
  return true;
}

void WorkerPool::stop() {
  const std::scoped_lock once(stop_mutex_);
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : threads_) {
    if (t.joinable()) {
      t.join();
    }
  }
}

std::size_t WorkerPool::queued() const {
  const std::scoped_lock lock(mutex_);
  return tasks_.size();
}

void WorkerPool::run() {
  if (options_.on_start) {
    options_.on_start();
  }
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopped_ || !tasks_.empty(); });
      if (tasks_.empty()) {
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace tenon
