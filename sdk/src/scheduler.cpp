#include "scheduler.h"

#include <algorithm>

namespace tenon::sdk {

Scheduler::Scheduler(const Clock& clock, bool own_thread)
    : clock_(clock) {
  if (own_thread) {
    thread_ = std::thread([this] { loop(); });
  }
}

Scheduler::~Scheduler() {
  stop();
}

Scheduler::Id Scheduler::add(std::chrono::milliseconds delay,
                             std::function<void()> fn,
                             std::chrono::milliseconds period) {
  const std::scoped_lock lock(mutex_);
  if (stopped_) {
    return 0;
  }
  const Id id = next_id_++;
  const std::uint64_t due =
      clock_.mono_ns() +
      static_cast<std::uint64_t>(std::max<std::int64_t>(delay.count(), 0)) * 1'000'000;
  const bool first = jobs_.empty() || due < jobs_.begin()->first;
  jobs_.emplace(due,
                Job{id, static_cast<std::uint64_t>(period.count()) * 1'000'000, std::move(fn)});
  if (first) {
    changed_.notify_all();
  }
  return id;
}

void Scheduler::cancel(Id id) {
  std::function<void()> dropped;  // destroyed outside of the lock
  std::unique_lock lock(mutex_);
  for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {
    if (it->second.id == id) {
      dropped = std::move(it->second.fn);
      jobs_.erase(it);
      break;
    }
  }
  if (running_ == id) {
    running_cancelled_ = true;
    if (running_thread_ != std::this_thread::get_id()) {
      changed_.wait(lock, [&] { return running_ != id; });
    }
  }
  lock.unlock();
}

bool Scheduler::run_one(std::unique_lock<std::mutex>& lock) {
  if (stopped_ || jobs_.empty() || jobs_.begin()->first > clock_.mono_ns()) {
    return false;
  }
  const std::uint64_t due = jobs_.begin()->first;
  Job job = std::move(jobs_.begin()->second);
  jobs_.erase(jobs_.begin());
  running_ = job.id;
  running_cancelled_ = false;
  running_thread_ = std::this_thread::get_id();
  lock.unlock();
  job.fn();
  lock.lock();
  running_ = 0;
  if (job.period_ns > 0 && !running_cancelled_ && !stopped_) {
    // A job that came late is not made up for.
    const std::uint64_t next = std::max(due + job.period_ns, clock_.mono_ns());
    jobs_.emplace(next, std::move(job));
  }
  changed_.notify_all();
  lock.unlock();
  job.fn = nullptr;
  lock.lock();
  return true;
}

std::size_t Scheduler::run_due() {
  std::unique_lock lock(mutex_);
  std::size_t n = 0;
  while (run_one(lock)) {
    ++n;
  }
  return n;
}

void Scheduler::loop() {
  loop_thread_.store(std::this_thread::get_id());
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (run_one(lock)) {
      continue;
    }
    if (jobs_.empty()) {
      changed_.wait(lock);
    } else {
      const std::uint64_t now = clock_.mono_ns();
      const std::uint64_t due = jobs_.begin()->first;
      if (due > now) {
        changed_.wait_for(lock, std::chrono::nanoseconds(due - now));
      }
    }
  }
}

std::size_t Scheduler::pending() {
  const std::scoped_lock lock(mutex_);
  return jobs_.size();
}

void Scheduler::stop() {
  std::multimap<std::uint64_t, Job> dropped;
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    dropped.swap(jobs_);
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace tenon::sdk
