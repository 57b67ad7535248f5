// Attempts of a send: queue choice, request, answer, retry (spec: client §4.4 to §4.8).
#include "errors.h"
#include "producer_core.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/proto/properties.h"

#include <algorithm>

namespace tenon::sdk::detail {
namespace {

constexpr std::int64_t kRefreshMaxMs = 1'000;
constexpr std::uint64_t kRouteAgainNs = 1'000'000'000;

std::uint32_t outcome_of(const Error& e) noexcept {
  // plug-in ABI §14: 1 timeout, 2 connect failed, 3 broker refused
  if (e.response >= 0) {
    return 3;
  }
  return e.is(Errc::kTimeout) ? 1 : 2;
}

}  // namespace

std::int64_t ProducerCore::remaining_ms(const SendOp& op) const noexcept {
  const std::uint64_t now = client_.clock().mono_ns();
  return now >= op.deadline_ns ? 0 : static_cast<std::int64_t>((op.deadline_ns - now) / 1'000'000);
}

const std::string& ProducerCore::broker_name(const SendOp& op) const noexcept {
  static const std::string none;
  return op.slot && op.broker < op.slot->info->brokers.size()
             ? op.slot->info->brokers[op.broker].name
             : none;
}

/// One of the two comes first: the route, or the end of the time for it. Trap: once both are under way
/// the operation may be completed and used for another message, so nothing of it is read here.
void ProducerCore::resolve(SendOp* op) {
  const std::string topic = op->topic;
  auto fired = std::make_shared<std::atomic<bool>>(false);
  const Scheduler::Id timer = client_.timers().add(
      std::chrono::milliseconds(std::max<std::int64_t>(remaining_ms(*op), 1)), [this, op, fired] {
        if (!fired->exchange(true)) {
          complete(op, make_error(Errc::kTimeout, "no route of topic " + op->topic + " in time"));
        }
      });
  client_.routes().resolve(topic,
                           options_.create_topic_key,
                           options_.default_topic_queues,
                           [this, op, fired, timer](Result<TopicInfoPtr> info) {
                             if (fired->exchange(true)) {
                               return;
                             }
                             client_.timers().cancel(timer);
                             if (!info) {
                               complete(op, std::move(info).error());
                               return;
                             }
                             op->slot = find_slot(op->topic);
                             if (!op->slot || op->slot->info != *info) {
                               op->slot = make_slot(*info);
                             }
                             launch(op);
                           });
}

/// Before another attempt after a failed connection: maybe the route has changed.
void ProducerCore::refresh_then_attempt(SendOp* op) {
  const std::string topic = op->topic;  // as in resolve()
  auto fired = std::make_shared<std::atomic<bool>>(false);
  const std::int64_t limit = std::clamp<std::int64_t>(remaining_ms(*op) / 2, 1, kRefreshMaxMs);
  const Scheduler::Id timer =
      client_.timers().add(std::chrono::milliseconds(limit), [this, op, fired] {
        if (!fired->exchange(true)) {
          attempt(op);
        }
      });
  client_.routes().fetch(topic, [this, op, fired, timer](Result<TopicInfoPtr> info) {
    if (fired->exchange(true)) {
      return;
    }
    client_.timers().cancel(timer);
    if (info && op->slot->info != *info) {
      make_slot(*info);
    }
    attempt(op);
  });
}

bool ProducerCore::choose_fixed(SendOp& op) {
  const auto& brokers = op.slot->info->brokers;
  for (std::size_t i = 0; i < brokers.size(); ++i) {
    if (brokers[i].name == op.fixed_broker) {
      op.broker = static_cast<std::uint32_t>(i);
      return true;
    }
  }
  return false;
}

bool ProducerCore::choose_queue(SendOp& op) {
  if (op.fixed_queue) {
    return choose_fixed(op);
  }
  const TopicInfo& info = *op.slot->info;
  if (info.publish.empty()) {
    return false;
  }
  if (op.by_key) {
    const auto at = static_cast<std::size_t>(hash_queue(op.sharding_key, info.publish.size()));
    op.broker = info.publish[at].broker;
    op.header.queue_id = info.publish[at].id;
    return true;
  }
  std::int64_t last = -1;
  if (!op.last_broker.empty()) {
    for (std::size_t i = 0; i < info.brokers.size(); ++i) {
      if (info.brokers[i].name == op.last_broker) {
        last = static_cast<std::int64_t>(i);
      }
    }
  }
  std::size_t index = info.publish.size();
  if (faults_) {
    index = faults_->pick(info, op.slot->counter, client_.clock().mono_ns());
  } else if (op.slot->plugin_set) {
    tenon_select how{};
    how.size = sizeof how;
    how.attempt = static_cast<std::uint32_t>(op.attempts);
    how.last_broker = host::abi_str(op.last_broker);
    how.sharding_key = host::abi_str(op.sharding_key);
    how.properties = {reinterpret_cast<const std::uint8_t*>(op.properties.data()),
                      op.properties.size()};
    how.body_bytes = static_cast<std::uint32_t>(op.body.size());
    how.flags = op.form == SendForm::kOneway ? TENON_SELECT_ONE_WAY : 0;
    const int chosen = op.slot->plugin_set->select(how);
    if (chosen >= 0 && static_cast<std::size_t>(chosen) < info.publish.size()) {
      index = static_cast<std::size_t>(chosen);
    }
  }
  if (index == info.publish.size()) {
    index = pick_round_robin(info, op.slot->counter, last);
  }
  op.broker = info.publish[index].broker;
  // Trap: a retry on another broker uses that broker's queue id and name (client §4.7, D10).
  op.header.queue_id = info.publish[index].id;
  return true;
}

void ProducerCore::attempt(SendOp* op) {
  if (op->state.load(std::memory_order_acquire) != SendOp::kActive) {
    release(op);
    return;
  }
  if (op->attempts > 0) {
    if (TopicSlotPtr newer = find_slot(op->topic)) {
      op->slot = std::move(newer);
    }
  }
  const std::int64_t remaining = remaining_ms(*op);
  if (remaining < 1) {
    Error e = make_error(Errc::kTimeout, "sendDefaultImpl call timeout", op->last_broker);
    e.outcome_unknown = op->outcome_unknown;
    complete(op, std::move(e));
    return;
  }
  ++op->attempts;
  op->may_switch = false;
  if (!choose_queue(*op)) {
    on_failure(op,
               make_error(Errc::kBrokerNotExist,
                          "The broker[" + op->fixed_broker + "] not exist",
                          op->fixed_broker));
    return;
  }
  const TopicInfo::Broker& broker = op->slot->info->brokers[op->broker];
  if (broker.master.empty()) {
    on_failure(
        op,
        make_error(
            Errc::kBrokerNotExist, "The broker[" + broker.name + "] not exist", broker.name));
    return;
  }
  if (tracer_ != nullptr || !options_.hooks.empty()) {
    see_begin(*op);
  }
  op->may_switch = may_switch(*op, remaining);
  op->attempt_ns = client_.clock().mono_ns();
  if (op->form == SendForm::kOneway) {
    write_oneway(op, broker.master);
    return;
  }
  client_.rpc().call(
      broker.master,
      [op](std::string& out, std::int32_t opaque) {
        encode_send(out, opaque, op->slot->heads[op->broker], op->header, as_bytes(op->body));
      },
      std::chrono::milliseconds(remaining),
      [op](tenon::Result<net::RpcAnswer> answer) {
        op->producer->on_answer(op, std::move(answer));
      },
      lane_,
      op->may_switch ? client_.options().switch_after : std::chrono::milliseconds(0));
}

int ProducerCore::attempts_max(const SendOp& op) const noexcept {
  return 1 + (op.form == SendForm::kBlocking ? options_.retries : options_.retries_async);
}

/// Whether this attempt is to give up soon without a connection: nothing is written yet, so another
/// broker is as good. The last one waits for all the time that is left.
bool ProducerCore::may_switch(const SendOp& op, std::int64_t remaining) const noexcept {
  const std::int64_t wait_ms = client_.options().switch_after.count();
  return wait_ms > 0 && wait_ms < remaining && op.slot->several_brokers && !op.fixed_queue &&
         !op.by_key && op.attempts < attempts_max(op);
}

void ProducerCore::write_oneway(SendOp* op, const std::string& address) {
  const net::RpcEncoder encode = [op](std::string& out, std::int32_t opaque) {
    encode_send(out, opaque, op->slot->heads[op->broker], op->header, as_bytes(op->body));
  };
  if (!op->may_switch) {
    client_.rpc().oneway(address, encode, lane_);
    on_oneway(op, net::RpcAnswer{});
    return;
  }
  Callback done;
  if (!let_go(op, done)) {
    return;
  }
  const std::shared_ptr<ProducerCore> keep = op->keep;
  Receipt receipt;
  receipt.id = op->id;
  receipt.queue = {op->topic, broker_name(*op), op->header.queue_id};
  running_.fetch_add(1);
  // Trap: once it is handed over the operation may be completed and used for another message.
  client_.rpc().oneway_within(
      address,
      encode,
      client_.options().switch_after,
      [op](tenon::Result<net::RpcAnswer> written) {
        op->producer->on_oneway(op, std::move(written));
      },
      lane_);
  run_callback(std::move(done), std::move(receipt));
}

/// The caller of a one-way send does not wait for a connection. @param done  has to be called; empty
/// after another attempt. @return false: stop() has told the caller, the operation is gone
bool ProducerCore::let_go(SendOp* op, Callback& done) {
  std::uint8_t expected = SendOp::kActive;
  if (!op->state.compare_exchange_strong(expected, SendOp::kCompleting)) {
    release(op);
    return false;
  }
  done = std::move(op->done);
  op->told = true;
  op->state.store(SendOp::kActive);
  if (stopped_.load()) {  // stop() may have looked meanwhile
    op->done = std::move(done);
    complete(op, make_error(Errc::kCancelled, "the producer is closed"));
    return false;
  }
  return true;
}

void ProducerCore::on_oneway(SendOp* op, tenon::Result<net::RpcAnswer> written) {
  if (op->state.load(std::memory_order_acquire) != SendOp::kActive) {
    release(op);
    return;
  }
  if (written.has_error()) {
    on_failure(op, from_call(written.error(), broker_name(*op)));
    return;
  }
  Receipt receipt;
  receipt.id = op->id;
  receipt.queue = {op->topic, broker_name(*op), op->header.queue_id};
  Result<Receipt> result(std::move(receipt));
  see_end(*op, result, false);
  complete(op, std::move(result));
}

/// To another broker, without waiting for what name servers say: the route is looked at for the
/// sends to come.
void ProducerCore::leave_broker(SendOp* op) {
  const std::uint64_t now = client_.clock().mono_ns();
  std::uint64_t asked = route_asked_ns_.load(std::memory_order_relaxed);
  if ((asked == 0 || now - asked >= kRouteAgainNs) &&
      route_asked_ns_.compare_exchange_strong(asked, now)) {
    client_.routes().fetch(op->topic, [](const Result<TopicInfoPtr>&) {});
  }
  attempt(op);
}

void ProducerCore::on_answer(SendOp* op, tenon::Result<net::RpcAnswer> answer) {
  if (op->state.load(std::memory_order_acquire) != SendOp::kActive) {
    release(op);
    return;
  }
  if (answer.has_error()) {
    on_failure(op, from_call(answer.error(), broker_name(*op)));
    return;
  }
  on_response(op, *answer.value().command);
}

void ProducerCore::on_response(SendOp* op, const proto::CommandView& response) {
  using Code = proto::ResponseCode;
  const bool stored = response.code == Code::kSuccess || response.code == Code::kFlushDiskTimeout ||
                      response.code == Code::kSlaveNotAvailable ||
                      response.code == Code::kFlushSlaveTimeout;
  if (!stored) {
    on_failure(op, from_answer(response.code, response.remark, broker_name(*op)));
    return;
  }
  report(*op, 0);
  Result<Receipt> result(make_receipt(*op, response));
  see_end(*op, result, !op->seen || response.field(proto::prop::kTraceSwitch) != "false");
  // Trap: 10, 11 and 12 mean stored; sending again duplicates, so only if asked for (client §4.6).
  if (response.code != Code::kSuccess && options_.retry_not_stored_ok &&
      op->form == SendForm::kBlocking && !op->fixed_queue && !op->by_key &&
      op->attempts <= options_.retries && remaining_ms(*op) > 0) {
    op->outcome_unknown = true;
    op->last_broker = broker_name(*op);
    attempt(op);
    return;
  }
  complete(op, std::move(result));
}

Receipt ProducerCore::make_receipt(const SendOp& op, const proto::CommandView& response) const {
  using Code = proto::ResponseCode;
  Receipt r;
  if (response.code == Code::kFlushDiskTimeout) {
    r.status = SendStatus::kFlushDiskTimeout;
  } else if (response.code == Code::kFlushSlaveTimeout) {
    r.status = SendStatus::kFlushSlaveTimeout;
  } else if (response.code == Code::kSlaveNotAvailable) {
    r.status = SendStatus::kSlaveNotAvailable;
  }
  r.id = op.id;
  r.queue = {shown_topic(op), broker_name(op), op.header.queue_id};
  for (const proto::Field& f : response.fields) {
    if (f.key == "msgId") {
      r.offset_id = f.value;
    } else if (f.key == "queueId") {
      r.queue.id = proto::parse_int(f.value).value_or(r.queue.id);
    } else if (f.key == "queueOffset") {
      r.queue_offset = proto::parse_long(f.value).value_or(-1);
    } else if (f.key == "transactionId") {
      r.transaction_id = f.value;
    } else if (f.key == "MSG_REGION") {
      r.region = f.value;
    } else if (f.key == "recallHandle") {
      r.recall_handle = f.value;
    }
  }
  return r;
}

void ProducerCore::report(const SendOp& op, std::uint32_t outcome) {
  if (faults_) {
    const std::uint64_t now = client_.clock().mono_ns();
    faults_->update(broker_name(op), (now - op.attempt_ns) / 1'000'000, outcome != 0, now);
  }
  if (!selector_) {
    return;
  }
  tenon_send_report r{};
  r.broker = host::abi_str(broker_name(op));
  r.latency_ms =
      static_cast<std::uint32_t>((client_.clock().mono_ns() - op.attempt_ns) / 1'000'000);
  r.outcome = outcome;
  r.queue_id = static_cast<std::uint32_t>(op.header.queue_id);
  selector_->report(r);
}

void ProducerCore::on_failure(SendOp* op, Error error) {
  op->outcome_unknown = op->outcome_unknown || error.outcome_unknown;
  const std::string& name = broker_name(*op);
  if (op->attempts > 0 && op->slot) {
    report(*op, outcome_of(error));
    op->brokers_sent += (op->brokers_sent.empty() ? "" : ", ") + name;
  }
  if (op->seen) {
    see_end(*op, error, false);
  }
  RetryRules rules;
  rules.form = op->form;
  rules.fixed_queue = op->fixed_queue || op->by_key;
  rules.attempts_max = attempts_max(*op);
  rules.retry_busy = options_.retry_busy;
  rules.may_switch = op->may_switch;
  if (should_retry(rules, error, op->attempts, remaining_ms(*op))) {
    op->last_broker = name;
    if (error.is(Errc::kConnect) && op->may_switch) {
      leave_broker(op);
    } else if (error.is(Errc::kConnect) || error.response == proto::ResponseCode::kTopicNotExist ||
               error.response == proto::ResponseCode::kNoPermission) {
      refresh_then_attempt(op);
    } else {
      attempt(op);
    }
    return;
  }
  if (op->attempts > 1) {
    const std::uint64_t cost = (client_.clock().mono_ns() - op->begin_ns) / 1'000'000;
    error.remark += " (Send [" + std::to_string(op->attempts) + "] times, still failed, cost [" +
                    std::to_string(cost) + "]ms, Topic: " + shown_topic(*op) + ", BrokersSent: [" +
                    op->brokers_sent + "])";
  }
  error.outcome_unknown = op->outcome_unknown;
  if (op->told) {
    log_warn("sdk", "one-way message dropped topic={} reason=\"{}\"", op->topic, error.text());
  }
  complete(op, std::move(error));
}

}  // namespace tenon::sdk::detail
