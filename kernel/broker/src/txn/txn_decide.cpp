// END_TRANSACTION and the op records that remember it (spec: broker §13.2).
#include "append/put.h"
#include "timer/timer_rules.h"
#include "txn/txn_service.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/proto/properties.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

namespace tenon::broker {
namespace {

/// Stored text of every op record.
constexpr std::string_view kOpProperties =
    "TAGS\x01"
    "d\x02"
    "WAIT\x01"
    "true";
/// Bytes of an offset in the text of a batch, about.
constexpr std::size_t kOffsetBytes = 20;

TimerWish timer_wish_of(std::string_view properties) noexcept {
  const auto text = [&](std::string_view name) {
    return proto::find_property(properties, name).value_or("");
  };
  TimerWish wish;
  wish.delay_sec = text(proto::prop::kTimerDelaySec);
  wish.delay_ms = text(proto::prop::kTimerDelayMs);
  wish.deliver_ms = text(proto::prop::kTimerDeliverMs);
  wish.rewritten = !text(proto::prop::kTimerOutMs).empty();
  return wish;
}

/// When a committed message that wishes for a time comes out of the timer topic; nullopt: at once.
/// What a send would have refused was taken while the configuration was another one.
std::optional<std::int64_t> timer_out_ms(const TxnDeps& deps, std::string_view properties) {
  const TimerWish wish = timer_wish_of(properties);
  if (!wish.any() || !deps.config.timer_wheel || deps.topics.find(kTimerTopic) == nullptr) {
    return std::nullopt;
  }
  const TimerDecision decision =
      decide_timer(wish, deps.clock.wall_ms(), deps.config.timer_max_delay_sec * 1000);
  return decision.fate == TimerFate::kLater ? std::optional(decision.out_ms) : std::nullopt;
}

}  // namespace

EndAnswer TxnService::end(const EndTransaction& request) {
  Records records(d_.log);
  const auto record = records.fetch_at(request.log_offset) ? records.record(0)
                                                           : std::optional<proto::MessageView>{};
  const auto half = record ? read_half(*record) : std::optional<Half>{};
  if (!half) {
    return {EndResult::kNotFound, 0, false};
  }
  if (half->group != request.group) {
    return {EndResult::kGroupWrong, 0, false};
  }
  if (record->queue_offset != request.table_offset) {
    return {EndResult::kTableOffsetWrong, 0, false};
  }
  if (record->phys_offset != request.log_offset) {
    return {EndResult::kLogOffsetWrong, 0, false};
  }
  EndAnswer answer;
  tenon_half told{};
  {
    const std::scoped_lock lock(mutex_);
    answer = decide(*half, request.commit);
    told = describe(*half, true);
  }
  if (d_.checker != nullptr && answer.result == EndResult::kDone && !answer.repeated) {
    d_.checker->resolved(told, request.commit ? TENON_TXN_COMMITTED : TENON_TXN_ROLLED_BACK);
  }
  return answer;
}

EndAnswer TxnService::decide(const Half& half, bool commit) {
  // Trap: Java stores the message again when the decision is repeated (broker §13.2).
  const std::int64_t root = table_.root_of(half.root, half.uniq_key);
  const auto latest = table_.latest(root);
  if (!latest) {
    return {EndResult::kDone, 0, true};
  }
  const tenon_status status = commit ? store_commit(half, *latest) : note_decision(*latest);
  if (status < 0) {
    return {EndResult::kPutFailed, status, false};
  }
  table_.resolve(root, *latest);
  return {EndResult::kDone, 0, false};
}

/// The message and its op record in one append where the message cannot be refused on its own, so that
/// a crash has nothing to come between.
tenon_status TxnService::store_commit(const Half& half, std::int64_t latest) {
  std::string properties = commit_properties(half);
  proto::MessageRecord m = record_of(half.record);
  m.topic = half.real_topic;
  m.queue_id = half.real_queue_id;
  // Trap: the time counts from the commit; a half itself is never timed (broker §12.3).
  const std::optional<std::int64_t> out_ms = timer_out_ms(d_, properties);
  if (out_ms) {
    proto::append_property(properties, proto::prop::kTimerOutMs, std::to_string(*out_ms));
    m.topic = kTimerTopic;
    m.queue_id = 0;
  }
  m.sys_flag |= proto::sys_flag::kTransactionCommit;
  m.prepared_offset = half.record.phys_offset;
  // Trap: the stored text keeps REAL_TOPIC, REAL_QID, TRAN_MSG and PGROUP (broker §13.2).
  m.properties = properties;
  const std::string body = op_body({&latest, 1}, false);
  std::array<tenon_record, 2> records{to_record(m.topic, 0, m), {}};
  std::array<tenon_append_result, 2> results{};
  const proto::MessageRecord op = op_record(body);
  records[1] = to_record(kOpTopic, 0, op);
  const bool together = d_.config.transaction_op_batch_ms == 0 && !out_ms &&
                        half.real_topic.size() <= kHalfTopic.size();
  const std::size_t n = together ? 2 : 1;
  d_.log.append(std::span(records).first(n), std::span(results).first(n));
  if (results[0].status < 0) {
    return results[0].status;
  }
  if (together && results[1].status >= 0) {
    op_stored(results[1], latest);
  } else if (const tenon_status status = note_decision(latest); status < 0) {
    // The message is there: the decision holds. After a restart the log says so.
    log_error("broker", "op record not stored half_offset={} status={}", latest, status);
  }
  return 0;
}

tenon_status TxnService::note_decision(std::int64_t latest) {
  if (d_.config.transaction_op_batch_ms == 0) {
    return write_ops({latest});
  }
  if (waiting_ops_.empty()) {
    waiting_since_ms_ = d_.clock.wall_ms();
  }
  waiting_ops_.push_back(latest);
  waiting_bytes_ += kOffsetBytes;
  if (waiting_bytes_ >= d_.config.transaction_op_batch_bytes) {
    flush_ops();
  }
  return 0;
}

tenon_status TxnService::write_ops(const std::vector<std::int64_t>& halves) {
  // Trap: 4.x cannot read the comma form: one offset is always written without (store §20).
  const std::string body = op_body(halves, halves.size() > 1);
  const tenon_append_result result = put_message(d_.log, op_record(body));
  if (result.status >= 0) {
    op_stored(result, *std::max_element(halves.begin(), halves.end()));
  }
  return result.status;
}

proto::MessageRecord TxnService::op_record(std::string_view body) const {
  proto::MessageRecord m;
  m.topic = kOpTopic;
  m.born_ms = d_.clock.wall_ms();
  m.born_host = d_.store_host;
  m.store_host = d_.store_host;
  m.body = as_bytes(body);
  m.properties = kOpProperties;
  return m;
}

void TxnService::op_stored(const tenon_append_result& result, std::int64_t highest_half) {
  table_.op_written(result.queue_offset, highest_half);
  newest_op_ms_ = result.store_ms;
}

void TxnService::flush_ops() {
  if (waiting_ops_.empty()) {
    return;
  }
  if (const tenon_status status = write_ops(waiting_ops_); status < 0) {
    // Kept for the next tick, within the bound in bytes; beyond, the checks ask again.
    log_error("broker", "op records not stored count={} status={}", waiting_ops_.size(), status);
    if (waiting_bytes_ < d_.config.transaction_op_batch_bytes) {
      return;
    }
  }
  waiting_ops_.clear();
  waiting_bytes_ = 0;
}

tenon_half TxnService::describe(const Half& half, bool online) const {
  tenon_half h{};
  h.half_offset = half.record.queue_offset;
  h.op_newest_born_ms = newest_op_ms_;
  h.born_ms = half.record.born_ms;
  h.store_ms = half.record.store_ms;
  h.immunity_s = half.immunity_s;
  h.checks_sent = half.checks;
  h.visits = std::max(table_.visits(half.root), half.checks);
  if (half.is_copy()) {
    h.flags |= TENON_HALF_IS_COPY;
  }
  if (online) {
    h.flags |= TENON_HALF_GROUP_CONNECTED;
  }
  h.body_bytes = static_cast<std::uint32_t>(half.record.body.size());
  h.group = host::abi_str(half.group);
  h.topic = host::abi_str(half.real_topic);
  h.properties = {reinterpret_cast<const std::uint8_t*>(half.record.properties.data()),
                  half.record.properties.size()};
  return h;
}

}  // namespace tenon::broker
