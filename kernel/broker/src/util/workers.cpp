#include "util/workers.h"

#include "tenon/base/log.h"

#include <exception>
#include <utility>

namespace tenon::broker {

namespace {

std::uint64_t ns(std::int64_t ms) {
  return static_cast<std::uint64_t>(ms) * 1'000'000;
}

template <class Task, class... Args>
void run_logged(const Task& task, Args... args) {
  try {
    task(args...);
  } catch (const std::exception& e) {
    log_error("broker", "a task of a worker failed reason=\"{}\"", e.what());
  }
}

}  // namespace

Workers::Workers(const BrokerConfig& config)
    : pull_(
          {.name = "pull", .threads = config.worker_threads, .queued_max = config.pull_queue_max}),
      query_({.name = "query",
              .threads = config.worker_threads,
              .queued_max = config.query_queue_max}),
      admin_({.name = "admin",
              .threads = config.worker_threads,
              .queued_max = config.admin_queue_max}),
      transaction_({.name = "transaction",
                    .threads = config.worker_threads,
                    .queued_max = config.transaction_queue_max}),
      pull_limit_ns_(ns(config.wait_in_pull_queue_ms)),
      transaction_limit_ns_(ns(config.wait_in_transaction_queue_ms)) {}

WorkerPool& Workers::pool(Lane lane) {
  switch (lane) {
    case Lane::kPull:
      return pull_;
    case Lane::kQuery:
      return query_;
    case Lane::kTransaction:
      return transaction_;
    case Lane::kAdmin:
      break;
  }
  return admin_;
}

const WorkerPool& Workers::pool(Lane lane) const {
  return const_cast<Workers*>(this)->pool(lane);
}

bool Workers::post(Lane lane, std::function<void()> task) {
  return pool(lane).try_post([task = std::move(task)] { run_logged(task); });
}

bool Workers::post_ageing(Lane lane, WorkerPool::AgeingTask task, std::uint64_t now_ns) {
  return pool(lane).try_post_ageing(
      [task = std::move(task)](const WorkerPool::Overdue* overdue) { run_logged(task, overdue); },
      now_ns);
}

void Workers::expire(std::uint64_t now_ns) {
  pull_.expire(now_ns, pull_limit_ns_);
  transaction_.expire(now_ns, transaction_limit_ns_);
}

std::size_t Workers::queued(Lane lane) const {
  return pool(lane).queued();
}

void Workers::stop() {
  pull_.stop();
  query_.stop();
  admin_.stop();
  transaction_.stop();
}

}  // namespace tenon::broker
