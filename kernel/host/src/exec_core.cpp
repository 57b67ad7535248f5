#include "exec_core.h"

#include "tenon/abi/host.h"
#include "tenon/host/thread_tag.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace tenon::host {
namespace {

constexpr std::uint64_t kWakeId = 0;

void tag_thread(std::uint32_t bits) {
  static thread_local std::vector<std::unique_ptr<ThreadTag>> tags;  // for the life of the thread
  tags.push_back(std::make_unique<ThreadTag>(bits));
}

std::uint32_t to_epoll(std::uint32_t events) {
  return ((events & TENON_FD_READ) != 0 ? EPOLLIN : 0u) |
         ((events & TENON_FD_WRITE) != 0 ? EPOLLOUT : 0u) |
         static_cast<std::uint32_t>(EPOLLONESHOT);
}

std::uint32_t from_epoll(std::uint32_t events) {
  return ((events & EPOLLIN) != 0 ? std::uint32_t{TENON_FD_READ} : 0u) |
         ((events & EPOLLOUT) != 0 ? std::uint32_t{TENON_FD_WRITE} : 0u) |
         ((events & (EPOLLHUP | EPOLLERR)) != 0 ? std::uint32_t{TENON_FD_HANGUP} : 0u);
}

}  // namespace

ExecCore::ExecCore(std::size_t workers, std::size_t queued_max)
    : workers_(workers),
      queued_max_(queued_max) {}

ExecCore::~ExecCore() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  ControlScope::wake_waiting();  // a control task may wait for the thread that destroys us
  if (dispatcher_.joinable()) {
    wake();
    dispatcher_.join();
  }
  pool_.reset();
  control_.reset();
  if (epoll_fd_ >= 0) {
    ::close(epoll_fd_);
    ::close(wake_fd_);
  }
}

bool ExecCore::post(std::uint32_t where, std::function<void()> task) {
  WorkerPool* pool = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) {
      return false;
    }
    auto& slot = where == TENON_ON_CONTROL ? control_ : pool_;
    if (slot == nullptr) {
      if (where == TENON_ON_CONTROL) {
        slot = std::make_unique<WorkerPool>(WorkerPool::Options{
            .name = "tn-control", .threads = 1, .queued_max = queued_max_, .on_start = {}});
      } else {
        slot = std::make_unique<WorkerPool>(WorkerPool::Options{
            .name = "tn-work", .threads = workers_, .queued_max = queued_max_, .on_start = [] {
              tag_thread(TENON_AT_WORKER);
            }});
      }
    }
    pool = slot.get();
  }
  if (where != TENON_ON_CONTROL) {
    return pool->try_post(std::move(task));
  }
  return pool->try_post([this, task = std::move(task)] {
    const ControlScope control(stopping_);
    if (control.owns()) {
      task();
    }
  });
}

ExecCore::TimerKey ExecCore::schedule(TimePoint when, std::function<void()> fire) {
  TimerKey key;
  bool first = false;
  {
    const std::scoped_lock lock(mutex_);
    key = {when, next_id_++};
    timers_.emplace(key, std::move(fire));
    first = timers_.begin()->first == key;
    start_dispatcher();
  }
  if (first) {
    wake();
  }
  return key;
}

bool ExecCore::unschedule(const TimerKey& key) {
  std::function<void()> fire;  // destroyed outside of the lock
  const std::scoped_lock lock(mutex_);
  const auto it = timers_.find(key);
  if (it == timers_.end()) {
    return false;
  }
  fire = std::move(it->second);
  timers_.erase(it);
  return true;
}

std::uint64_t ExecCore::watch(int fd,
                              std::uint32_t events,
                              std::function<void(std::uint32_t)> ready) {
  const std::scoped_lock lock(mutex_);
  if (!start_dispatcher()) {
    return 0;
  }
  const std::uint64_t id = next_id_++;
  ::epoll_event e{};
  e.events = to_epoll(events);
  e.data.u64 = id;
  watches_.emplace(id, Watch{fd, e.events, std::move(ready)});
  if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &e) != 0) {
    const int reason = errno;
    watches_.erase(id);
    errno = reason;
    return 0;
  }
  return id;
}

void ExecCore::rearm(std::uint64_t id) {
  const std::scoped_lock lock(mutex_);
  const auto it = watches_.find(id);
  if (it != watches_.end()) {
    ::epoll_event e{};
    e.events = it->second.epoll_events;
    e.data.u64 = id;
    ::epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, it->second.fd, &e);
  }
}

void ExecCore::unwatch(std::uint64_t id) {
  Watch watch;  // destroyed outside of the lock
  const std::scoped_lock lock(mutex_);
  const auto it = watches_.find(id);
  if (it != watches_.end()) {
    ::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, it->second.fd, nullptr);
    watch = std::move(it->second);
    watches_.erase(it);
  }
}

bool ExecCore::start_dispatcher() {
  if (dispatcher_.joinable()) {
    return true;
  }
  epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ::epoll_event e{};
  e.events = EPOLLIN;
  e.data.u64 = kWakeId;
  if (epoll_fd_ < 0 || wake_fd_ < 0 || ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, &e) != 0) {
    return false;
  }
  dispatcher_ = start_thread("tn-timer", [this] { dispatch(); });
  return true;
}

void ExecCore::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof one);
}

int ExecCore::wait_ms() {
  const std::scoped_lock lock(mutex_);
  if (stopping_) {
    return -2;
  }
  if (timers_.empty()) {
    return -1;
  }
  const auto left = timers_.begin()->first.first - std::chrono::steady_clock::now();
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, 3'600'000));
}

void ExecCore::fire_due() {
  for (;;) {
    std::function<void()> fire;
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_ || timers_.empty() ||
          timers_.begin()->first.first > std::chrono::steady_clock::now()) {
        return;
      }
      fire = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
    }
    fire();
  }
}

void ExecCore::dispatch() {
  std::array<::epoll_event, 32> events;
  for (;;) {
    const int timeout = wait_ms();
    if (timeout == -2) {
      return;
    }
    const int n = ::epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), timeout);
    for (int i = 0; i < n; ++i) {
      const auto& e = events[static_cast<std::size_t>(i)];
      if (e.data.u64 == kWakeId) {
        std::uint64_t count = 0;
        [[maybe_unused]] const auto got = ::read(wake_fd_, &count, sizeof count);
        continue;
      }
      std::function<void(std::uint32_t)> ready;
      {
        const std::scoped_lock lock(mutex_);
        const auto it = watches_.find(e.data.u64);
        if (it != watches_.end()) {
          ready = it->second.ready;
        }
      }
      if (ready) {
        ready(from_epoll(e.events));
      }
    }
    fire_due();
  }
}

}  // namespace tenon::host
