// The I/O threads: each runs one event loop, and everything that belongs to a connection happens on
// the thread it was given to. Asio stays behind this header.
#pragma once

#include "tenon/base/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace tenon::net {

class IoThread;

/// Identifies a timer of one IoThread; 0 is none.
using TimerId = std::uint64_t;

/// One event loop on one thread, with a timer wheel. Owned by an IoPool.
class IoThread {
 public:
  virtual ~IoThread() = default;

  /// Runs fn on this thread, after what is already queued. Thread: any. Posts are batched into one
  /// wake-up. After stop() the function is destroyed without having run.
  virtual void post(std::function<void()> fn) = 0;
  virtual bool is_current() const noexcept = 0;

  /// Runs fn once after `delay` (at least one wheel tick, 1 ms). Thread: any.
  virtual TimerId after(std::chrono::milliseconds delay, std::function<void()> fn) = 0;
  /// Runs fn every `period`, first after one period. Thread: any.
  virtual TimerId every(std::chrono::milliseconds period, std::function<void()> fn) = 0;
  /// After cancel() returned on this thread the function will not run; from another thread it may
  /// still be running. Unknown ids are ignored. Thread: any.
  virtual void cancel(TimerId id) = 0;

  virtual std::size_t index() const noexcept = 0;
};

/// A fixed set of I/O threads. Life cycle: start() → use → stop() (joins; idempotent) → destructor.
/// Thread: any for get/pick.
class IoPool {
 public:
  struct Options {
    std::size_t threads = 1;
    std::string name = "io";  ///< thread names: name-0, name-1 …
  };
  static Result<std::unique_ptr<IoPool>> start(Options options);
  virtual ~IoPool() = default;

  virtual std::size_t size() const noexcept = 0;
  virtual IoThread& at(std::size_t index) noexcept = 0;
  /// The thread with the fewest connections.
  virtual IoThread& pick() noexcept = 0;
  /// Closes all connections, ends the loops and joins the threads. Must not be called from an I/O
  /// thread.
  virtual void stop() = 0;
};

}  // namespace tenon::net
