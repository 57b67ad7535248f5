// What sees the attempts of a send: hooks of the program and the trace (spec: client §4.15, §4.16).
#include "client_core.h"
#include "errors.h"
#include "guarded_hook.h"
#include "producer_core.h"
#include "trace.h"

#include "tenon/proto/properties.h"

namespace tenon::sdk::detail {
namespace {

std::string_view send_property(const SendOp& op, std::string_view name) {
  return proto::find_property(op.properties, name).value_or(std::string_view());
}

SendKind kind_of_send(const SendOp& op) {
  if ((op.extra_flags & proto::sys_flag::kTransactionPrepared) != 0) {
    return SendKind::kHalf;
  }
  for (const std::string_view name : {proto::prop::kDelay,
                                      std::string_view("TIMER_DELAY_MS"),
                                      std::string_view("TIMER_DELIVER_MS")}) {
    if (!send_property(op, name).empty()) {
      return SendKind::kDelayed;
    }
  }
  return SendKind::kNormal;
}

}  // namespace

Result<void> ProducerCore::check_hooks(const Message& message) const {
  for (const SendHook& hook : options_.hooks) {
    if (!hook.check) {
      continue;
    }
    std::string thrown = "a hook threw";
    try {
      if (auto r = hook.check(message); !r) {
        return r;
      }
      continue;
    } catch (const std::exception& e) {
      thrown = std::string("a hook threw: ") + e.what();
    } catch (...) {
    }
    return make_error(Errc::kInvalidArgument, std::move(thrown));
  }
  return {};
}

SendAttempt ProducerCore::seen_attempt(const SendOp& op) const {
  SendAttempt out;
  const TopicInfo::Broker& broker = op.slot->info->brokers[op.broker];
  out.group = shown_group_;
  out.topic = shown_topic(op);
  out.id = op.id;
  out.tag = send_property(op, proto::prop::kTags);
  out.keys = send_property(op, proto::prop::kKeys);
  out.body = op.body;
  out.broker = broker.name;
  out.address = broker.master;
  out.queue_id = op.header.queue_id;
  out.number = op.attempts;
  out.oneway = op.form == SendForm::kOneway;
  out.kind = kind_of_send(op);
  return out;
}

void ProducerCore::see_begin(SendOp& op) {
  op.seen = true;
  op.seen_ms = client_.now_ms();
  op.attempt_ns = client_.clock().mono_ns();
  const SendAttempt attempt = seen_attempt(op);
  for (const SendHook& hook : options_.hooks) {
    if (hook.before) {
      guarded_hook([&] { hook.before(attempt); });
    }
  }
}

void ProducerCore::see_end(SendOp& op, const Result<Receipt>& result, bool traced) {
  if (!std::exchange(op.seen, false)) {
    return;
  }
  SendAttempt attempt = seen_attempt(op);
  attempt.cost = std::chrono::milliseconds((client_.clock().mono_ns() - op.attempt_ns) / 1'000'000);
  // Trap: a send that ended in an error leaves no record, one with another status does (client
  // §4.16).
  if (tracer_ != nullptr && traced && result && !attempt.oneway &&
      tracer_->log->traces(attempt.topic)) {
    tracer_->log->sent(op.seen_ms, attempt, *result);
  }
  for (const SendHook& hook : options_.hooks) {
    if (hook.after) {
      guarded_hook([&] { hook.after(attempt, result); });
    }
  }
}

}  // namespace tenon::sdk::detail
