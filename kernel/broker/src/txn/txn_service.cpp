#include "txn/txn_service.h"

#include "append/put.h"

#include "tenon/base/log.h"
#include "tenon/base/worker_pool.h"
#include "tenon/host/thread_tag.h"
#include "tenon/proto/properties.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace tenon::broker {
namespace {

/// How often positions are looked at.
constexpr std::int64_t kTickMs = 1'000;
/// The same under a clock that only moves when told.
constexpr std::int64_t kManualTickMs = 10;
/// Until the next round when producers were behind in reading.
constexpr std::int64_t kSoonMs = 1'000;

}  // namespace

TxnService::TxnService(TxnDeps deps)
    : d_(deps),
      check_back_(deps.producers) {}

void TxnService::start() {
  stopping_.store(false);
  const std::int64_t first_ms = plan(d_.clock.wall_ms());
  thread_ = start_thread("txn-check", [this, first_ms] { run(first_ms); });
}

void TxnService::stop() {
  {
    const std::scoped_lock lock(wait_mutex_);
    stopping_.store(true);
  }
  wake_.notify_all();
  host::ControlScope::wake_waiting();
  if (thread_.joinable()) {
    thread_.join();
  }
  if (std::exchange(loaded_, false)) {
    {
      const std::scoped_lock lock(mutex_);
      flush_ops();
    }
    save_positions(true);
  }
}

bool TxnService::wait(std::int64_t until_ms) {
  const bool real = &d_.clock == &system_clock();
  const std::int64_t left =
      std::clamp<std::int64_t>(until_ms - d_.clock.wall_ms(), 1, real ? kTickMs : kManualTickMs);
  std::unique_lock lock(wait_mutex_);
  wake_.wait_for(lock, std::chrono::milliseconds(left), [this] { return stopping_.load(); });
  return !stopping_.load();
}

std::int64_t TxnService::plan(std::int64_t from_ms) {
  return d_.checker == nullptr ? std::numeric_limits<std::int64_t>::max()
                               : d_.checker->next_round(from_ms, stopping_);
}

void TxnService::run(std::int64_t next_ms) {
  std::int64_t wake_ms = next_ms;
  while (wait(wake_ms)) {
    tick();
    const std::int64_t begin_ms = d_.clock.wall_ms();
    if (begin_ms >= next_ms) {
      check_round();
      next_ms = plan(begin_ms);
      if (again_soon_) {
        next_ms = std::min(next_ms, d_.clock.wall_ms() + kSoonMs);
      }
    }
    wake_ms = next_ms;
    const std::scoped_lock lock(mutex_);
    if (!waiting_ops_.empty()) {
      wake_ms = std::min(wake_ms, waiting_since_ms_ + d_.config.transaction_op_batch_ms);
    }
  }
}

void TxnService::tick() {
  {
    const std::scoped_lock lock(mutex_);
    if (!waiting_ops_.empty() &&
        d_.clock.wall_ms() - waiting_since_ms_ >= d_.config.transaction_op_batch_ms) {
      flush_ops();
    }
  }
  save_positions(false);
}

/// A position is saved after what it says is on the disk: a decision must not be passed over because
/// the disk has the position but not the message.
void TxnService::save_positions(bool at_once) {
  Positions now;
  {
    const std::scoped_lock lock(mutex_);
    now.half = table_.floor();
    now.op = table_.op_floor();
  }
  const tenon_log_bounds bounds = d_.log.log_bounds();
  now.log_end = bounds.end;
  if (at_once) {
    due_ = now;
  } else if (due_.half >= 0 && bounds.durable < due_.log_end) {
    return;
  }
  if (due_.half >= 0) {
    d_.offsets.commit(kTransactionGroup, kHalfTopic, 0, due_.half);
    d_.offsets.commit(kTransactionGroup, kOpTopic, 0, due_.op);
    saved_ = std::exchange(due_, Positions{});
  }
  if (!at_once && (now.half != saved_.half || now.op != saved_.op)) {
    due_ = now;
  }
}

bool TxnService::resume(std::int64_t phys) {
  Records records(d_.log);
  if (!records.fetch_at(phys)) {
    return false;
  }
  const auto record = records.record(0);
  if (!record || record->phys_offset != phys) {
    return false;
  }
  // Trap: Java puts any message at that position into the half topic. One without a real topic could
  // never be committed.
  if (!proto::find_property(record->properties, proto::prop::kRealTopic)) {
    return false;
  }
  const std::string properties = fresh_properties(record->properties);
  proto::MessageRecord m = record_of(*record);
  m.properties = properties;
  return put_message(d_.log, *half_topic_, m).status >= 0;
}

}  // namespace tenon::broker
