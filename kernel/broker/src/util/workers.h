// Threads for everything that may block: disk reads that miss the cache, configuration files, slow
// administration. Every kind of work has threads and a bound of its own, so that one cannot starve
// the others.
#pragma once

#include "tenon/base/worker_pool.h"
#include "tenon/broker/config.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace tenon::broker {

/// Thread: any.
class Workers {
 public:
  enum class Lane : std::uint8_t { kPull, kQuery, kAdmin, kTransaction };

  explicit Workers(const BrokerConfig& config);
  /// @return false if the lane is full or the pool stopped: the task will not run. What a task
  /// throws is logged.
  bool post(Lane lane, std::function<void()> task);
  /// The same for a pull or the end of a transaction, which expire() may take while it waits.
  bool post_ageing(Lane lane, WorkerPool::AgeingTask task, std::uint64_t now_ns);
  /// Tells what has waited too long for a thread. Every few milliseconds (spec: broker §3.3).
  void expire(std::uint64_t now_ns);
  std::size_t queued(Lane lane) const;
  /// Runs what is queued, then joins. Idempotent; not from a worker.
  void stop();

 private:
  WorkerPool& pool(Lane lane);
  const WorkerPool& pool(Lane lane) const;

  WorkerPool pull_;
  WorkerPool query_;
  WorkerPool admin_;
  WorkerPool transaction_;
  std::uint64_t pull_limit_ns_;
  std::uint64_t transaction_limit_ns_;
};

}  // namespace tenon::broker
