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

bool WorkerPool::push(Entry entry) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_ || entries_.size() >= options_.queued_max) {
      return false;
    }
    entries_.push_back(std::move(entry));
  }
  wake_.notify_one();
  return true;
}

bool WorkerPool::try_post(Task task) {
  return push({std::move(task), {}, 0});
}

bool WorkerPool::try_post_ageing(AgeingTask task, std::uint64_t now_ns) {
  return push({{}, std::move(task), now_ns});
}

bool WorkerPool::pop_overdue(std::uint64_t now_ns,
                             std::uint64_t limit_ns,
                             Entry& entry,
                             Overdue& overdue) {
  const std::scoped_lock lock(mutex_);
  if (entries_.empty() || !entries_.front().ageing) {
    return false;
  }
  const std::uint64_t since_ns = entries_.front().since_ns;
  if (since_ns > now_ns || now_ns - since_ns < limit_ns) {
    return false;
  }
  entry = std::move(entries_.front());
  entries_.pop_front();
  overdue = {now_ns - since_ns, entries_.size()};
  return true;
}

void WorkerPool::expire(std::uint64_t now_ns, std::uint64_t limit_ns) {
  Entry entry;
  Overdue overdue;
  while (pop_overdue(now_ns, limit_ns, entry, overdue)) {
    entry.ageing(&overdue);
  }
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
  return entries_.size();
}

void WorkerPool::run() {
  if (options_.on_start) {
    options_.on_start();
  }
  for (;;) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopped_ || !entries_.empty(); });
      if (entries_.empty()) {
        return;
      }
      entry = std::move(entries_.front());
      entries_.pop_front();
    }
    if (entry.ageing) {
      entry.ageing(nullptr);
    } else {
      entry.task();
    }
  }
}

}  // namespace tenon
