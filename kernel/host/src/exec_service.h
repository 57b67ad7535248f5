// tenon.host.exec/1 of one instance: its posts, timers, watches and threads, so that none of them can outlive
// it.
#pragma once

#include "exec_core.h"

#include "tenon/abi/host.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace tenon::host {

/// Thread: any.
class InstanceExec : public std::enable_shared_from_this<InstanceExec> {
 public:
  InstanceExec(std::shared_ptr<ExecCore> core, std::string instance);
  InstanceExec(const InstanceExec&) = delete;
  InstanceExec& operator=(const InstanceExec&) = delete;

  void open(std::shared_ptr<ExecCore> core);  ///< before activate: accepts work again
  /// After deactivate: refuses new work, drops posted tasks that have not begun, cancels what was left with a
  /// warning, waits for what runs. False if something of the plug-in still runs after the timeout: the instance
  /// must not be destroyed.
  bool close(std::chrono::milliseconds timeout);

  std::uint32_t workers() const noexcept { return workers_; }
  tenon_status post(std::uint32_t where, tenon_task fn, void* self, std::uint64_t arg);
  tenon_status timer(std::uint32_t where,
                     std::uint64_t delay_ms,
                     std::uint64_t period_ms,
                     tenon_task fn,
                     void* self,
                     std::uint64_t arg,
                     std::uint64_t* id);
  tenon_status cancel(std::uint64_t id);
  tenon_status thread(
      std::string name, tenon_task fn, void* self, std::uint64_t arg, std::uint64_t* id);
  tenon_status join(std::uint64_t id);
  tenon_status watch_fd(
      int fd, std::uint32_t events, tenon_fd_task fn, void* self, std::uint64_t* id);

 private:
  enum class Kind { kTimer, kWatch, kThread };
  enum class State { kIdle, kQueued, kRunning };
  struct Entry {
    Kind kind = Kind::kTimer;
    State state = State::kIdle;
    bool cancelled = false;
    std::thread::id runner{};
    std::uint64_t id = 0;
    std::uint32_t where = TENON_ON_WORKER;
    std::uint64_t period_ms = 0;
    tenon_task fn = nullptr;
    tenon_fd_task fd_fn = nullptr;
    void* self = nullptr;
    std::uint64_t arg = 0;
    int fd = -1;
    std::uint64_t watch = 0;
    ExecCore::TimerKey timer{};
    std::thread thread{};
    std::string name{};
  };
  using EntryPtr = std::shared_ptr<Entry>;

  void run_post(std::uint64_t generation, tenon_task fn, void* self, std::uint64_t arg);
  void schedule(const EntryPtr& e, std::uint64_t delay_ms);  ///< with mutex_ held
  void on_due(const EntryPtr& e);
  void on_ready(const EntryPtr& e, std::uint32_t events);
  void run_timer(const EntryPtr& e);
  void run_watch(const EntryPtr& e, std::uint32_t events);
  bool begin(const EntryPtr& e);
  void detach(const EntryPtr& e);  ///< with mutex_ held: no further runs
  bool busy() const;               ///< with mutex_ held
  void report_leftovers();

  const std::string instance_;
  const std::uint32_t workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<ExecCore> core_;
  bool open_ = true;
  std::uint64_t generation_ = 0;  // of open(): posts of an earlier activation are dropped
  std::uint64_t next_id_ = 1;
  std::size_t posts_running_ = 0;
  std::size_t threads_running_ = 0;
  std::map<std::uint64_t, EntryPtr> entries_;
};

}  // namespace tenon::host
