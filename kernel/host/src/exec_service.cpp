#include "exec_service.h"

#include "tenon/base/log.h"
#include "tenon/host/thread_tag.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

namespace tenon::host {
namespace {

constexpr std::uint64_t kRetryMs = 10;  // a full queue is tried again after this

}  // namespace

InstanceExec::InstanceExec(std::shared_ptr<ExecCore> core, std::string instance)
    : instance_(std::move(instance)),
      workers_(static_cast<std::uint32_t>(core->workers())),
      core_(std::move(core)) {}

void InstanceExec::open(std::shared_ptr<ExecCore> core) {
  const std::scoped_lock lock(mutex_);
  core_ = std::move(core);
  open_ = true;
  ++generation_;
}

tenon_status InstanceExec::post(std::uint32_t where, tenon_task fn, void* self, std::uint64_t arg) {
  if (fn == nullptr || where > TENON_ON_CONTROL) {
    return TENON_INVALID;
  }
  std::shared_ptr<ExecCore> core;
  std::uint64_t generation = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (!open_) {
      return TENON_CLOSED;
    }
    core = core_;
    generation = generation_;
  }
  // The task holds the service, not the core: the last owner of the core must not be one of its own threads.
  const bool taken = core->post(where, [me = shared_from_this(), generation, fn, self, arg] {
    me->run_post(generation, fn, self, arg);
  });
  return taken ? TENON_OK : TENON_BUSY;
}

void InstanceExec::run_post(std::uint64_t generation,
                            tenon_task fn,
                            void* self,
                            std::uint64_t arg) {
  {
    const std::scoped_lock lock(mutex_);
    if (!open_ || generation != generation_) {
      return;  // deactivated in the meantime
    }
    ++posts_running_;
  }
  fn(self, arg);
  {
    const std::scoped_lock lock(mutex_);
    --posts_running_;
    changed_.notify_all();
  }
}

tenon_status InstanceExec::timer(std::uint32_t where,
                                 std::uint64_t delay_ms,
                                 std::uint64_t period_ms,
                                 tenon_task fn,
                                 void* self,
                                 std::uint64_t arg,
                                 std::uint64_t* id) {
  if (fn == nullptr || where > TENON_ON_CONTROL) {
    return TENON_INVALID;
  }
  const std::scoped_lock lock(mutex_);
  if (!open_) {
    return TENON_CLOSED;
  }
  auto e = std::make_shared<Entry>();
  e->id = next_id_++;
  e->where = where;
  e->period_ms = period_ms;
  e->fn = fn;
  e->self = self;
  e->arg = arg;
  entries_.emplace(e->id, e);
  if (id != nullptr) {
    *id = e->id;
  }
  schedule(e, delay_ms);
  return TENON_OK;
}

void InstanceExec::schedule(const EntryPtr& e, std::uint64_t delay_ms) {
  constexpr std::uint64_t kMaxMs = 10ull * 365 * 86'400'000;  // keeps the sum in range
  const auto when =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(std::min(delay_ms, kMaxMs));
  e->state = State::kIdle;
  e->timer = core_->schedule(when, [weak = weak_from_this(), e] {
    if (const auto me = weak.lock()) {
      me->on_due(e);
    }
  });
}

void InstanceExec::on_due(const EntryPtr& e) {
  ExecCore* core = nullptr;  // valid on its own dispatcher
  {
    const std::scoped_lock lock(mutex_);
    if (e->cancelled) {
      return;
    }
    e->state = State::kQueued;
    core = core_.get();
  }
  if (!core->post(e->where, [me = shared_from_this(), e] { me->run_timer(e); })) {
    const std::scoped_lock lock(mutex_);
    if (!e->cancelled) {
      schedule(e, kRetryMs);
    }
  }
}

bool InstanceExec::begin(const EntryPtr& e) {
  const std::scoped_lock lock(mutex_);
  if (e->cancelled) {
    return false;
  }
  e->state = State::kRunning;
  e->runner = std::this_thread::get_id();
  return true;
}

void InstanceExec::run_timer(const EntryPtr& e) {
  if (!begin(e)) {
    return;
  }
  e->fn(e->self, e->arg);
  const std::scoped_lock lock(mutex_);
  e->state = State::kIdle;
  e->runner = {};
  if (!e->cancelled && e->period_ms > 0) {
    schedule(e, e->period_ms);
  } else {
    e->cancelled = true;
    entries_.erase(e->id);
  }
  changed_.notify_all();
}

tenon_status InstanceExec::watch_fd(
    int fd, std::uint32_t events, tenon_fd_task fn, void* self, std::uint64_t* id) {
  if (fn == nullptr || fd < 0) {
    return TENON_INVALID;
  }
  const std::scoped_lock lock(mutex_);
  if (!open_) {
    return TENON_CLOSED;
  }
  auto e = std::make_shared<Entry>();
  e->kind = Kind::kWatch;
  e->id = next_id_++;
  e->fd_fn = fn;
  e->self = self;
  e->fd = fd;
  e->watch = core_->watch(fd, events, [weak = weak_from_this(), e](std::uint32_t ready) {
    if (const auto me = weak.lock()) {
      me->on_ready(e, ready);
    }
  });
  if (e->watch == 0) {
    return errno == EEXIST ? TENON_CONFLICT : TENON_INVALID;
  }
  entries_.emplace(e->id, e);
  if (id != nullptr) {
    *id = e->id;
  }
  return TENON_OK;
}

void InstanceExec::on_ready(const EntryPtr& e, std::uint32_t events) {
  ExecCore* core = nullptr;  // valid on its own dispatcher
  {
    const std::scoped_lock lock(mutex_);
    if (e->cancelled) {
      return;
    }
    e->state = State::kQueued;
    core = core_.get();
  }
  if (!core->post(TENON_ON_WORKER,
                  [me = shared_from_this(), e, events] { me->run_watch(e, events); })) {
    core->schedule(std::chrono::steady_clock::now() + std::chrono::milliseconds(kRetryMs),
                   [weak = weak_from_this(), e, events] {
                     if (const auto me = weak.lock()) {
                       me->on_ready(e, events);
                     }
                   });
  }
}

void InstanceExec::run_watch(const EntryPtr& e, std::uint32_t events) {
  if (!begin(e)) {
    return;
  }
  e->fd_fn(e->self, e->fd, events);
  const std::scoped_lock lock(mutex_);
  e->state = State::kIdle;
  e->runner = {};
  if (!e->cancelled) {
    core_->rearm(e->watch);
  } else {
    entries_.erase(e->id);
  }
  changed_.notify_all();
}

void InstanceExec::detach(const EntryPtr& e) {
  e->cancelled = true;
  if (e->kind == Kind::kTimer) {
    core_->unschedule(e->timer);
  } else if (e->kind == Kind::kWatch) {
    core_->unwatch(e->watch);
  }
  if (e->state !=
      State::kRunning) {  // a running one stays known until it ends, for others who cancel it
    entries_.erase(e->id);
  }
}

tenon_status InstanceExec::cancel(std::uint64_t id) {
  std::unique_lock lock(mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) {
    return TENON_NOT_FOUND;
  }
  const EntryPtr e = it->second;
  if (e->kind == Kind::kThread) {
    return TENON_INVALID;
  }
  detach(e);
  if (e->runner != std::this_thread::get_id()) {
    changed_.wait(lock, [&] { return e->state != State::kRunning; });
  }
  return TENON_OK;
}

tenon_status InstanceExec::thread(
    std::string name, tenon_task fn, void* self, std::uint64_t arg, std::uint64_t* id) {
  if (fn == nullptr || id == nullptr) {
    return TENON_INVALID;
  }
  const std::scoped_lock lock(mutex_);
  if (!open_) {
    return TENON_CLOSED;
  }
  auto e = std::make_shared<Entry>();
  e->kind = Kind::kThread;
  e->state = State::kRunning;
  e->id = next_id_++;
  e->name = name;
  try {
    e->thread =
        start_thread(name.empty() ? instance_ : name, [me = shared_from_this(), fn, self, arg] {
          const ThreadTag tag(TENON_AT_PLUGIN);
          fn(self, arg);
          const std::scoped_lock inner(me->mutex_);
          --me->threads_running_;
          me->changed_.notify_all();
        });
  } catch (const std::system_error&) {
    return TENON_NOMEM;
  }
  ++threads_running_;
  entries_.emplace(e->id, e);
  *id = e->id;
  return TENON_OK;
}

tenon_status InstanceExec::join(std::uint64_t id) {
  EntryPtr e;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end()) {
      return TENON_NOT_FOUND;
    }
    e = it->second;
    if (e->kind != Kind::kThread || e->thread.get_id() == std::this_thread::get_id()) {
      return TENON_INVALID;
    }
    entries_.erase(it);
  }
  if (!e->thread.joinable()) {
    return TENON_NOT_FOUND;  // given up at shutdown
  }
  e->thread.join();
  return TENON_OK;
}

bool InstanceExec::busy() const {
  if (posts_running_ > 0 || threads_running_ > 0) {
    return true;
  }
  for (const auto& [id, e] : entries_) {
    if (e->kind != Kind::kThread && e->state == State::kRunning) {
      return true;
    }
  }
  return false;
}

void InstanceExec::report_leftovers() {
  std::size_t timers = 0;
  std::size_t watches = 0;
  std::size_t threads = 0;
  for (const auto& [id, e] : entries_) {
    (e->kind == Kind::kTimer ? timers : e->kind == Kind::kWatch ? watches : threads) += 1;
  }
  if (timers + watches + threads > 0) {
    log_warn(
        "host",
        "plug-in left things running after deactivate plugin={} timers={} watches={} threads={}",
        instance_,
        timers,
        watches,
        threads);
  }
}

bool InstanceExec::close(std::chrono::milliseconds timeout) {
  std::vector<std::thread> finished;
  bool idle = false;
  {
    std::unique_lock lock(mutex_);
    open_ = false;
    report_leftovers();
    std::vector<EntryPtr> all;
    for (const auto& [id, e] : entries_) {
      all.push_back(e);
    }
    for (const EntryPtr& e : all) {
      if (e->kind != Kind::kThread) {
        e->cancelled = true;
        e->kind == Kind::kTimer ? static_cast<void>(core_->unschedule(e->timer))
                                : core_->unwatch(e->watch);
      }
    }
    idle = changed_.wait_for(lock, timeout, [this] { return !busy(); });
    for (const EntryPtr& e : all) {
      if (e->kind != Kind::kThread || !e->thread.joinable()) {
        continue;
      }
      if (idle) {
        finished.push_back(std::move(e->thread));
      } else {
        e->thread.detach();  // it still runs and nobody will wait for it any more
      }
    }
    if (idle) {
      entries_.clear();
      core_.reset();
    }
  }
  for (std::thread& t : finished) {
    t.join();
  }
  return idle;
}

}  // namespace tenon::host
