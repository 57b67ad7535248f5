#include "faults.h"

#include "tenon/net/io_pool.h"

#include <string_view>
#include <utility>

namespace tenon::testing {
namespace {

using C = proto::RequestCode;

/// The topic a request names, in the long or the one-letter form of sends (spec: remoting §3.2).
std::string_view topic_of(const proto::CommandView& command) noexcept {
  switch (command.code) {
    case C::kSendMessageV2:
    case C::kSendBatchMessage:
      return command.field("b").value_or("");
    case C::kConsumerSendMsgBack:
      return command.field("originTopic").value_or("");
    default:
      return command.field("topic").value_or("");
  }
}

bool matches(const Fault& fault, const proto::CommandView& command) noexcept {
  return (fault.on == Call::kAny || fault.on == call_of(command.code)) &&
         (fault.topic.empty() || fault.topic == topic_of(command));
}

void answer(const net::ConnectionPtr& connection,
            const proto::CommandView& request,
            const Fault& fault) {
  if (request.is_oneway()) {
    return;
  }
  proto::FrameWriter writer(connection->out(),
                            {.code = fault.code,
                             .opaque = request.opaque,
                             .flag = proto::kFlagResponse,
                             .kind = request.kind,
                             .remark = fault.remark});
  writer.finish();
}

}  // namespace

Call call_of(std::int32_t code) noexcept {
  switch (code) {
    case C::kSendMessage:
    case C::kSendMessageV2:
    case C::kSendBatchMessage:
      return Call::kSend;
    case C::kPullMessage:
    case C::kLitePullMessage:
      return Call::kPull;
    case C::kConsumerSendMsgBack:
      return Call::kSendBack;
    case C::kQueryConsumerOffset:
    case C::kUpdateConsumerOffset:
      return Call::kOffset;
    case C::kHeartBeat:
    case C::kUnregisterClient:
      return Call::kHeartbeat;
    case C::kEndTransaction:
      return Call::kTransaction;
    case C::kLockBatchMq:
    case C::kUnlockBatchMq:
      return Call::kLock;
    case C::kGetRouteinfoByTopic:
      return Call::kRoute;
    default:
      return Call::kAdmin;
  }
}

void FaultPlan::add(Fault fault) {
  if (fault.times == 0) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  faults_.push_back(std::move(fault));
  rearm();
}

void FaultPlan::delay_all(std::chrono::milliseconds by) {
  const std::scoped_lock lock(mutex_);
  delay_ = by;
  rearm();
}

void FaultPlan::clear() {
  const std::scoped_lock lock(mutex_);
  faults_.clear();
  delay_ = {};
  rearm();
}

void FaultPlan::count(const proto::CommandView& command) noexcept {
  counts_[static_cast<std::size_t>(Call::kAny)].fetch_add(1, std::memory_order_relaxed);
  counts_[static_cast<std::size_t>(call_of(command.code))].fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t FaultPlan::counted(Call call) const noexcept {
  return counts_[static_cast<std::size_t>(call)].load(std::memory_order_relaxed);
}

std::optional<Fault> FaultPlan::take(const proto::CommandView& command) {
  const std::scoped_lock lock(mutex_);
  for (auto it = faults_.begin(); it != faults_.end(); ++it) {
    if (!matches(*it, command)) {
      continue;
    }
    Fault met = *it;
    if (it->times > 0 && --it->times == 0) {
      faults_.erase(it);
      rearm();
    }
    return met;
  }
  if (delay_.count() > 0) {
    Fault late;
    late.kind = FaultKind::kDelay;
    late.by = delay_;
    return late;
  }
  return std::nullopt;
}

void FaultPlan::opened(const net::ConnectionPtr& connection) {
  const std::scoped_lock lock(mutex_);
  connections_[connection->id()] = connection;
}

void FaultPlan::closed(const net::ConnectionPtr& connection) {
  const std::scoped_lock lock(mutex_);
  connections_.erase(connection->id());
}

std::size_t FaultPlan::cut_all() {
  std::vector<net::ConnectionPtr> open;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, connection] : connections_) {
      if (auto strong = connection.lock()) {
        open.push_back(std::move(strong));
      }
    }
  }
  for (const net::ConnectionPtr& connection : open) {
    connection->close(net::CloseReason::kLocal);
  }
  return open.size();
}

void FaultGate::on_open(const net::ConnectionPtr& connection) {
  plan_->opened(connection);
  broker_.on_open(connection);
}

void FaultGate::on_close(const net::ConnectionPtr& connection, net::CloseReason reason) {
  plan_->closed(connection);
  broker_.on_close(connection, reason);
}

void FaultGate::on_commands(const net::ConnectionPtr& connection,
                            std::span<const proto::CommandView> commands,
                            const net::BufferRef& keep) {
  for (const proto::CommandView& command : commands) {
    if (!command.is_response()) {
      plan_->count(command);
    }
  }
  if (!plan_->armed()) {
    broker_.on_commands(connection, commands, keep);
    return;
  }
  for (const proto::CommandView& command : commands) {
    const auto fault = command.is_response() ? std::nullopt : plan_->take(command);
    if (!fault) {
      broker_.on_commands(connection, {&command, 1}, keep);
    } else if (!meet(*fault, connection, command, keep)) {
      return;
    }
  }
}

bool FaultGate::meet(const Fault& fault,
                     const net::ConnectionPtr& connection,
                     const proto::CommandView& command,
                     const net::BufferRef& keep) {
  switch (fault.kind) {
    case FaultKind::kAnswer:
      answer(connection, command, fault);
      return true;
    case FaultKind::kDelay:
      later(fault.by, connection, command, keep);
      return true;
    case FaultKind::kIgnore:
      return true;
    case FaultKind::kLose:
      unanswered(connection, command, keep);
      return true;
    case FaultKind::kCut:
      connection->close(net::CloseReason::kLocal);
      return false;
    case FaultKind::kCutAfter:
      unanswered(connection, command, keep);
      connection->close(net::CloseReason::kLocal);
      return false;
  }
  return true;
}

/// Carries a request out as if nobody wanted an answer.
void FaultGate::unanswered(const net::ConnectionPtr& connection,
                           const proto::CommandView& command,
                           const net::BufferRef& keep) {
  if (call_of(command.code) == Call::kPull) {
    return;  // a pull is its answer
  }
  proto::CommandView oneway = command;
  oneway.flag |= proto::kFlagOneway;
  broker_.on_commands(connection, {&oneway, 1}, keep);
}

void RouteGate::on_open(const net::ConnectionPtr& connection) {
  faults_.on_open(connection);
}

/// A broker's connection that ended while nothing was to be heard.
void RouteGate::catch_up() {
  for (const auto& [connection, reason] : std::exchange(missed_, {})) {
    faults_.on_close(connection, reason);
  }
}

void RouteGate::on_close(const net::ConnectionPtr& connection, net::CloseReason reason) {
  if (plan_->frozen()) {
    missed_.emplace_back(connection, reason);
    return;
  }
  catch_up();
  faults_.on_close(connection, reason);
}

void RouteGate::on_commands(const net::ConnectionPtr& connection,
                            std::span<const proto::CommandView> commands,
                            const net::BufferRef& keep) {
  if (!plan_->frozen()) {
    catch_up();
  }
  for (const proto::CommandView& command : commands) {
    if (command.is_response()) {
      continue;
    }
    if (command.code == C::kGetRouteinfoByTopic) {
      faults_.on_commands(connection, {&command, 1}, keep);
    } else if (plan_->frozen() &&
               (command.code == C::kRegisterBroker || command.code == C::kUnregisterBroker)) {
      proto::FrameWriter writer(connection->out(),
                                {.code = proto::ResponseCode::kSuccess,
                                 .opaque = command.opaque,
                                 .flag = proto::kFlagResponse,
                                 .kind = command.kind});
      writer.finish();
    } else {
      name_server_.on_commands(connection, {&command, 1}, keep);
      if (command.code == C::kRegisterBroker) {
        plan_->registered();
      }
    }
  }
}

void FaultGate::later(std::chrono::milliseconds by,
                      const net::ConnectionPtr& connection,
                      const proto::CommandView& command,
                      const net::BufferRef& keep) {
  // The broker joins its I/O threads before it gives this object up.
  connection->io_thread().after(by, [this, connection, command, keep] {
    if (connection->is_open()) {
      broker_.on_commands(connection, {&command, 1}, keep);
      connection->flush();
    }
  });
}

}  // namespace tenon::testing
