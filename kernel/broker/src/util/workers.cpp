#include "util/workers.h"

#include "tenon/base/log.h"

#include <exception>
#include <utility>

namespace tenon::broker {

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
                    .queued_max = config.transaction_queue_max}) {}

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
  return pool(lane).try_post([task = std::move(task)] {
    try {
      task();
    } catch (const std::exception& e) {
      log_error("broker", "a task of a worker failed reason=\"{}\"", e.what());
    }
  });
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
