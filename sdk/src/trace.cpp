#include "trace.h"

#include "client_core.h"
#include "producer_core.h"

#include "tenon/base/log.h"
#include "tenon/proto/properties.h"

#include <utility>

namespace tenon::sdk::detail {
namespace {

constexpr char kFieldEnd = '\x01';
constexpr char kRecordEnd = '\x02';
constexpr std::size_t kKeysMax = 30'000;  ///< bytes; the properties of a message hold 32 767
constexpr std::size_t kInFlightMax = 8;   ///< trace messages
constexpr std::chrono::milliseconds kSendTimeout{5'000};
constexpr std::string_view kDefaultRegion = "DefaultRegion";

std::string_view region_or_default(std::string_view region) noexcept {
  return region.empty() ? kDefaultRegion : region;
}

std::string_view flag_text(bool value) noexcept {
  return value ? "true" : "false";
}

/// What Java prints for text that is not there.
std::string_view or_null(std::string_view text) noexcept {
  return text.empty() ? "null" : text;
}

const char* type_text(SendKind kind) noexcept {
  switch (kind) {
    case SendKind::kHalf:
      return "1";
    case SendKind::kDelayed:
      return "3";
    case SendKind::kNormal:
      break;
  }
  return "0";
}

const char* code_text(ConsumeOutcome outcome) noexcept {
  switch (outcome) {
    case ConsumeOutcome::kSuccess:
      return "0";
    case ConsumeOutcome::kTimeout:
      return "1";
    case ConsumeOutcome::kException:
      return "2";
    case ConsumeOutcome::kFailed:
      break;
  }
  return "4";  // 3 is a listener that returned null
}

const char* state_text(TxState state) noexcept {
  switch (state) {
    case TxState::kCommit:
      return "COMMIT_MESSAGE";
    case TxState::kRollback:
      return "ROLLBACK_MESSAGE";
    case TxState::kUnknown:
      break;
  }
  return "UNKNOW";
}

bool traced_message(const MessageView& m) {
  return m.property(proto::prop::kTraceSwitch).value_or("") != "false";
}

}  // namespace

std::string trace_record(std::initializer_list<std::string_view> fields) {
  std::string out;
  for (const std::string_view field : fields) {
    if (!out.empty()) {
      out += kFieldEnd;
    }
    out += field;
  }
  out += kRecordEnd;
  return out;
}

TraceLog::TraceLog(ClientCore& client, std::string topic)
    : client_(client),
      clock_(client.clock()),
      topic_(std::move(topic)) {
  ProducerOptions options;
  options.group = std::string(kGroup);
  options.send_timeout = kSendTimeout;
  if (auto made = ProducerCore::create(client, std::move(options))) {
    producer_ = std::move(*made);
  }
}

std::string TraceLog::new_id() {
  std::string id(kMessageIdChars, '0');
  client_.message_ids().next(clock_.wall_ms(), id.data());
  return id;
}

void TraceLog::sent(std::int64_t begin_ms, const SendAttempt& attempt, const Receipt& receipt) {
  add(trace_record({"Pub",
                    std::to_string(begin_ms),
                    region_or_default(receipt.region),
                    attempt.group,
                    attempt.topic,
                    attempt.id,
                    or_null(attempt.tag),
                    or_null(attempt.keys),
                    attempt.address,
                    std::to_string(attempt.body.size()),
                    std::to_string(attempt.cost.count()),
                    type_text(attempt.kind),
                    receipt.offset_id,
                    flag_text(receipt.durable())}),
      attempt.id,
      attempt.keys);
}

void TraceLog::recalled(std::string_view group,
                        std::string_view topic,
                        std::string_view id,
                        bool success,
                        std::string_view region) {
  add(trace_record({"Recall",
                    std::to_string(clock_.wall_ms()),
                    region_or_default(region),
                    group,
                    topic,
                    id,
                    flag_text(success)}),
      id,
      {});
}

void TraceLog::ended(const TransactionEnd& end, std::string_view address, std::string_view region) {
  add(trace_record({"EndTransaction",
                    std::to_string(clock_.wall_ms()),
                    region_or_default(region),
                    end.group,
                    end.topic,
                    end.id,
                    or_null(end.tag),
                    or_null(end.keys),
                    address,
                    "2",
                    or_null(end.transaction_id),
                    state_text(end.state),
                    flag_text(end.from_check)}),
      end.id,
      end.keys);
}

void TraceLog::consuming(std::string_view request,
                         std::string_view group,
                         std::span<const MessageView> messages) {
  const std::string now = std::to_string(clock_.wall_ms());
  for (const MessageView& m : messages) {
    if (traced_message(m)) {
      add(trace_record({"SubBefore",
                        now,
                        region_or_default(m.property(proto::prop::kMsgRegion).value_or("")),
                        group,
                        request,
                        m.id(),
                        std::to_string(m.reconsume_times()),
                        or_null(m.keys())}),
          m.id(),
          m.keys());
    }
  }
}

void TraceLog::consumed(std::string_view request,
                        const ConsumeCall& call,
                        const ConsumeResult& result) {
  const std::string now = std::to_string(clock_.wall_ms());
  const auto share = static_cast<std::int64_t>(call.messages.size());
  const std::string cost = std::to_string(share == 0 ? 0 : result.cost.count() / share);
  for (std::size_t i = 0; i < call.messages.size(); ++i) {
    const MessageView& m = call.messages[i];
    if (!traced_message(m)) {
      continue;
    }
    const bool done = i < result.done;
    const ConsumeOutcome outcome = !done && result.outcome == ConsumeOutcome::kSuccess
                                       ? ConsumeOutcome::kFailed
                                       : result.outcome;
    add(trace_record({"SubAfter",
                      request,
                      m.id(),
                      cost,
                      flag_text(done),
                      or_null(m.keys()),
                      code_text(outcome),
                      now,
                      call.group}),
        m.id(),
        m.keys());
  }
}

void TraceLog::add(std::string record, std::string_view id, std::string_view keys) {
  // Trap: a message whose keys are too long for its properties would be refused as a whole.
  const std::size_t keys_bytes = id.size() + keys.size() + 2;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (put(record, id, keys, keys_bytes)) {
      return;
    }
    flush();
  }
  if (dropped_.fetch_add(1) == 0) {
    log_warn("sdk", "trace records are dropped, the trace topic cannot keep up");
  }
}

/// @return false if there is no room
bool TraceLog::put(const std::string& record,
                   std::string_view id,
                   std::string_view keys,
                   std::size_t keys_bytes) {
  const std::scoped_lock lock(mutex_);
  const bool full = records_ >= kRecordsMax || text_.size() + record.size() > kTextMax ||
                    keys_bytes_ + keys_bytes > kKeysMax;
  if (producer_ == nullptr || (records_ > 0 && full)) {
    return false;
  }
  ++records_;
  text_ += record;
  const auto add_key = [this](std::string_view key) {
    if (!key.empty() && keys_bytes_ + key.size() < kKeysMax && keys_.emplace(key).second) {
      keys_bytes_ += key.size() + 1;
    }
  };
  add_key(id);
  while (!keys.empty()) {
    const std::size_t end = std::min(keys.find(' '), keys.size());
    add_key(keys.substr(0, end));
    keys.remove_prefix(std::min(end + 1, keys.size()));
  }
  return true;
}

void TraceLog::flush() {
  Message m;
  std::shared_ptr<ProducerCore> producer;
  {
    const std::scoped_lock lock(mutex_);
    if (records_ == 0 || producer_ == nullptr || in_flight_.load() >= kInFlightMax) {
      return;
    }
    in_flight_.fetch_add(1);
    producer = producer_;
    m.topic = topic_;
    m.body = std::exchange(text_, {});
    m.keys.assign(keys_.begin(), keys_.end());
    keys_.clear();
    keys_bytes_ = 0;
    records_ = 0;
  }
  // Not on the executor of the program: it may be busy with what is traced.
  producer->start(
      std::move(m),
      [self = shared_from_this()](const Result<Receipt>& r) {
        self->in_flight_.fetch_sub(1);
        if (!r) {
          log_debug("sdk", "trace not stored reason=\"{}\"", r.error().text());
        }
      },
      {},
      SendForm::kBlocking);
}

void TraceLog::close(std::chrono::milliseconds limit) {
  flush();
  std::shared_ptr<ProducerCore> producer;
  {
    const std::scoped_lock lock(mutex_);
    producer = std::exchange(producer_, nullptr);
  }
  if (producer) {
    if (limit.count() > 0) {
      producer->drain(limit);
    }
    producer->stop();
  }
}

}  // namespace tenon::sdk::detail
