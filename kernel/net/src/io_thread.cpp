#include "io_thread.h"

#include "tcp_connection.h"

#include "tenon/base/check.h"

#include <boost/asio/post.hpp>

#include <condition_variable>

#include <pthread.h>
#include <signal.h>
#include <time.h>

namespace tenon::net {
namespace {

thread_local IoThreadImpl* current_thread = nullptr;

constexpr std::size_t kStringBytesMax = 256u * 1024;
constexpr std::size_t kStringsMax = 8;

std::int64_t read_clock_ms(clockid_t which) noexcept {
  timespec now{};
  ::clock_gettime(which, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

std::int64_t coarse_ms() noexcept {
  return read_clock_ms(CLOCK_MONOTONIC_COARSE);
}
std::int64_t steady_ms() noexcept {
  return read_clock_ms(CLOCK_MONOTONIC);
}

IoThreadImpl::IoThreadImpl(std::size_t index, std::string name)
    : index_(index),
      name_(std::move(name)),
      epoch_(std::chrono::steady_clock::now()),
      timer_(context_) {}

IoThreadImpl::~IoThreadImpl() {
  TENON_CHECK(!thread_.joinable(), "I/O thread {} destroyed while running", name_);
}

IoThreadImpl* IoThreadImpl::current() noexcept {
  return current_thread;
}

void IoThreadImpl::start() {
  work_.emplace(context_.get_executor());
  accepts_posts_ = true;
  running_.store(true, std::memory_order_release);
  // Signals belong to the thread that the program chose for them.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void IoThreadImpl::run() {
  current_thread = this;
  ::pthread_setname_np(::pthread_self(), name_.substr(0, 15).c_str());
  context_.run();
  current_thread = nullptr;
  running_.store(false, std::memory_order_release);
  running_.notify_all();
}

void IoThreadImpl::stop() {
  if (!thread_.joinable()) {
    return;
  }
  TENON_CHECK(current() == nullptr, "an I/O thread must not stop its pool");
  boost::asio::post(context_, [this] { begin_stop(); });
  thread_.join();
}

void IoThreadImpl::begin_stop() {
  {
    const Scope scope(*this);
    {
      const std::scoped_lock lock(queue_mutex_);
      accepts_posts_ = false;
    }
    drain();  // somebody may wait for what was posted before
    const std::vector<std::shared_ptr<Closable>> open(closables_.begin(), closables_.end());
    for (const auto& item : open) {
      item->close_on_thread();
    }
  }
  std::vector<TimerWheel::Due> timers;
  {
    const std::scoped_lock lock(wheel_mutex_);
    timers = wheel_.clear();
    wheel_closed_ = true;
  }
  timers.clear();
  timer_.cancel();
  work_.reset();
  // Behind the handlers of the operations that were cancelled just now.
  boost::asio::post(context_, [this] { context_.stop(); });
}

void IoThreadImpl::post(std::function<void()> fn) {
  try_post(fn);
}

bool IoThreadImpl::try_post(std::function<void()>& fn) {
  bool must_wake = false;
  {
    const std::scoped_lock lock(queue_mutex_);
    if (!accepts_posts_) {
      return false;
    }
    queue_.push_back(std::move(fn));
    must_wake = !std::exchange(wake_pending_, true);
  }
  if (must_wake) {
    wake();
  }
  return true;
}

void IoThreadImpl::serve(std::shared_ptr<TcpConnection> connection) {
  bool must_wake = false;
  {
    const std::scoped_lock lock(queue_mutex_);
    if (!accepts_posts_) {
      return;
    }
    serve_queue_.push_back(std::move(connection));
    must_wake = !std::exchange(wake_pending_, true);
  }
  if (must_wake) {
    wake();
  }
}

void IoThreadImpl::wake() {
  boost::asio::post(context_, [this] {
    const Scope scope(*this);
    drain();
  });
}

void IoThreadImpl::drain() {
  {
    const std::scoped_lock lock(queue_mutex_);
    wake_pending_ = false;
    draining_.swap(queue_);
    serving_.swap(serve_queue_);
  }
  for (auto& fn : draining_) {
    fn();
    fn = nullptr;
  }
  draining_.clear();
  for (auto& connection : serving_) {
    connection->serve();
    connection.reset();
  }
  serving_.clear();
}

void IoThreadImpl::run_sync(const std::function<void()>& fn) {
  struct Done {
    std::mutex mutex{};
    std::condition_variable changed{};
    bool gone = false;
    bool ran = false;
  };
  if (is_current()) {
    fn();
    return;
  }
  Done done;
  // The token reports when the function was run and also when it was destroyed unrun.
  std::shared_ptr<Done> token(&done, [](Done* d) {
    const std::scoped_lock lock(d->mutex);
    d->gone = true;
    d->changed.notify_all();
  });
  std::function<void()> task = [token, &fn] {
    fn();
    token->ran = true;
  };
  token.reset();
  try_post(task);
  task = nullptr;
  {
    std::unique_lock lock(done.mutex);
    done.changed.wait(lock, [&] { return done.gone; });
  }
  if (!done.ran) {
    running_.wait(true);  // the loop is ending; it closes everything on its way
    fn();
  }
}

void IoThreadImpl::write_later(std::shared_ptr<TcpConnection> connection) {
  marked_.push_back(std::move(connection));
}

void IoThreadImpl::serve_marked() {
  while (!marked_.empty()) {
    marked_now_.swap(marked_);
    for (auto& connection : marked_now_) {
      connection->serve();
      connection.reset();
    }
    marked_now_.clear();
  }
}

std::string IoThreadImpl::take_string() {
  if (strings_.empty()) {
    std::string fresh;
    fresh.reserve(4096);
    return fresh;
  }
  std::string text = std::move(strings_.back());
  strings_.pop_back();
  return text;
}

void IoThreadImpl::give_string(std::string&& text) noexcept {
  if (strings_.size() < kStringsMax && text.capacity() <= kStringBytesMax &&
      text.capacity() >= 1024) {
    text.clear();
    strings_.push_back(std::move(text));
  } else {
    std::string().swap(text);
  }
}

IoThreadImpl::Registration IoThreadImpl::add(std::shared_ptr<Closable> item) {
  return closables_.insert(closables_.end(), std::move(item));
}

void IoThreadImpl::remove(Registration where) {
  const std::shared_ptr<Closable> last = std::move(*where);
  closables_.erase(where);
}

void IoThreadImpl::close_group(const ConnectionGroup& group) {
  const Scope scope(*this);
  const std::vector<std::shared_ptr<Closable>> open(closables_.begin(), closables_.end());
  for (const auto& item : open) {
    const auto connection = std::dynamic_pointer_cast<TcpConnection>(item);
    if (connection && connection->group() == &group) {
      connection->close_on_thread();
    }
  }
}

std::uint64_t IoThreadImpl::tick_of(std::chrono::steady_clock::time_point t) const noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(t - epoch_).count());
}

TimerId IoThreadImpl::after(std::chrono::milliseconds delay, std::function<void()> fn) {
  return add_timer(delay, std::chrono::milliseconds{0}, std::move(fn));
}

TimerId IoThreadImpl::every(std::chrono::milliseconds period, std::function<void()> fn) {
  period = std::max(period, std::chrono::milliseconds{1});
  return add_timer(period, period, std::move(fn));
}

TimerId IoThreadImpl::add_timer(std::chrono::milliseconds delay,
                                std::chrono::milliseconds period,
                                std::function<void()> fn) {
  using std::chrono::milliseconds;
  delay = std::clamp(delay, milliseconds{1}, milliseconds{std::chrono::hours{24 * 3650}});
  // One tick more than the whole ones: never early.
  const std::uint64_t due = tick_of(std::chrono::steady_clock::now() + delay) + 1;
  TimerId id = 0;
  bool must_arm = false;
  {
    const std::scoped_lock lock(wheel_mutex_);
    if (wheel_closed_) {
      return 0;
    }
    id = wheel_.add(due, std::move(fn), static_cast<std::uint64_t>(period.count()));
    must_arm = *wheel_.next_tick() < armed_tick_ && !arm_posted_;
    arm_posted_ = arm_posted_ || must_arm;
  }
  if (must_arm) {
    if (is_current()) {
      arm_timer();
    } else {
      boost::asio::post(context_, [this] { arm_timer(); });
    }
  }
  return id;
}

void IoThreadImpl::cancel(TimerId id) {
  std::optional<TimerWheel::Due> dropped;
  const std::scoped_lock lock(wheel_mutex_);
  dropped = wheel_.cancel(id);
}

void IoThreadImpl::arm_timer() {
  std::optional<std::uint64_t> next;
  {
    const std::scoped_lock lock(wheel_mutex_);
    arm_posted_ = false;
    next = wheel_.next_tick();
    if (!next || *next >= armed_tick_) {
      return;
    }
    armed_tick_ = *next;
  }
  timer_.expires_at(epoch_ + std::chrono::milliseconds{static_cast<std::int64_t>(*next)});
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      on_timer();
    }
  });
}

void IoThreadImpl::on_timer() {
  const Scope scope(*this);
  std::unique_lock lock(wheel_mutex_);
  armed_tick_ = UINT64_MAX;
  wheel_.advance(tick_of(std::chrono::steady_clock::now()));
  while (std::optional<TimerWheel::Due> due = wheel_.pop_due()) {
    lock.unlock();
    due->run();
    due.reset();
    lock.lock();
  }
  lock.unlock();
  arm_timer();
}

}  // namespace tenon::net
