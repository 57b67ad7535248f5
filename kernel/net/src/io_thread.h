// One event loop on one thread: posted functions, the timer wheel, and what the connections of the
// thread share (receive buffers, decoded commands, strings for answers).
#pragma once

#include "buffer_pool.h"
#include "timer_wheel.h"

#include "tenon/net/io_pool.h"
#include "tenon/proto/command.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tenon::net {

class TcpConnection;
class ConnectionGroup;

/// Milliseconds of a steady clock, cheap and coarse (a few milliseconds), the same on all threads.
std::int64_t coarse_ms() noexcept;
/// Milliseconds of the steady clock that deadlines are compared with.
std::int64_t steady_ms() noexcept;

/// What must be closed before a thread can end: connections, acceptors, connection attempts.
class Closable {
 public:
  virtual ~Closable() = default;
  /// Closes at once. Thread: the I/O thread it is registered with.
  virtual void close_on_thread() = 0;
};

class IoThreadImpl final : public IoThread, public std::enable_shared_from_this<IoThreadImpl> {
 public:
  IoThreadImpl(std::size_t index, std::string name);
  ~IoThreadImpl() override;

  void start();
  /// Closes everything that is registered, ends the loop and joins. Idempotent. Thread: not an I/O
  /// thread.
  void stop();

  void post(std::function<void()> fn) override;
  bool is_current() const noexcept override { return current() == this; }
  TimerId after(std::chrono::milliseconds delay, std::function<void()> fn) override;
  TimerId every(std::chrono::milliseconds period, std::function<void()> fn) override;
  void cancel(TimerId id) override;
  std::size_t index() const noexcept override { return index_; }

  /// False once the loop has ended or is about to: nothing posted would run. Thread: any.
  bool is_running() const noexcept { return running_.load(std::memory_order_acquire); }
  /// As post(); false, with fn untouched, if it would not run.
  bool try_post(std::function<void()>& fn);
  /// Runs fn on the thread and waits for it; at once and here if this is the thread or if the loop
  /// has ended. Thread: any, but not another I/O thread.
  void run_sync(const std::function<void()>& fn);

  /// The I/O thread that we are on, nullptr elsewhere.
  static IoThreadImpl* current() noexcept;

  /// Every event handler opens a Scope first. At the end of the outermost one the connections that
  /// were marked with write_later() are served, so that what a handler sends to many connections
  /// leaves with one write for each.
  class Scope {
   public:
    explicit Scope(IoThreadImpl& thread) noexcept
        : thread_(thread) {
      ++thread_.scope_depth_;
    }
    ~Scope() {
      if (thread_.scope_depth_ == 1) {
        thread_.serve_marked();
      }
      --thread_.scope_depth_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    IoThreadImpl& thread_;
  };
  bool in_scope() const noexcept { return scope_depth_ > 0; }
  /// Serves the connection (of this or another thread) at the end of the scope. Thread: this, in a
  /// Scope.
  void write_later(std::shared_ptr<TcpConnection> connection);
  /// Has the connection served by this, its thread. Thread: any.
  void serve(std::shared_ptr<TcpConnection> connection);

  boost::asio::io_context& context() noexcept { return context_; }
  BufferPool& buffers() noexcept { return buffers_; }
  std::vector<proto::CommandView>& commands() noexcept { return commands_; }
  std::string take_string();
  void give_string(std::string&& text) noexcept;

  using Registration = std::list<std::shared_ptr<Closable>>::iterator;
  Registration add(std::shared_ptr<Closable> item);
  void remove(Registration where);
  /// Closes the connections of one server or client. Thread: this.
  void close_group(const ConnectionGroup& group);

  std::atomic<std::size_t> connection_count{0};  ///< what pick() compares

 private:
  void run();
  void begin_stop();
  void drain();
  void serve_marked();
  void wake();
  void arm_timer();
  void on_timer();
  TimerId add_timer(std::chrono::milliseconds delay,
                    std::chrono::milliseconds period,
                    std::function<void()> fn);
  std::uint64_t tick_of(std::chrono::steady_clock::time_point t) const noexcept;

  const std::size_t index_;
  const std::string name_;
  const std::chrono::steady_clock::time_point epoch_;
  boost::asio::io_context context_{1};
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  boost::asio::steady_timer timer_;
  std::thread thread_{};
  std::atomic<bool> running_{false};

  std::mutex queue_mutex_{};
  std::vector<std::function<void()>> queue_{};                 ///< guarded by queue_mutex_
  std::vector<std::shared_ptr<TcpConnection>> serve_queue_{};  ///< guarded by queue_mutex_
  bool wake_pending_ = false;                                  ///< guarded by queue_mutex_
  bool accepts_posts_ = false;                                 ///< guarded by queue_mutex_

  std::mutex wheel_mutex_{};
  TimerWheel wheel_{};                     ///< guarded by wheel_mutex_
  std::uint64_t armed_tick_ = UINT64_MAX;  ///< guarded by wheel_mutex_
  bool arm_posted_ = false;                ///< guarded by wheel_mutex_
  bool wheel_closed_ = false;              ///< guarded by wheel_mutex_

  // Of the thread itself:
  int scope_depth_ = 0;
  std::vector<std::function<void()>> draining_{};
  std::vector<std::shared_ptr<TcpConnection>> serving_{};
  std::vector<std::shared_ptr<TcpConnection>> marked_{};
  std::vector<std::shared_ptr<TcpConnection>> marked_now_{};
  BufferPool buffers_{};
  std::vector<proto::CommandView> commands_{};
  std::vector<std::string> strings_{};
  std::list<std::shared_ptr<Closable>> closables_{};
};

}  // namespace tenon::net
