// What an administrator asks of consumers and the broker passes on over the consumers' connections:
// their running info 307, consuming one message 309, their offsets 223 (221 to the client). (spec:
// broker §11.1, §15.3; remoting §5.1, §7.5).
#include "processors/handlers.h"
#include "processors/store_view.h"
#include "remarks.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/proto/bodies_admin.h"
#include "tenon/proto/message.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tenon::broker {
namespace {

using namespace std::chrono_literals;
using Code = proto::ResponseCode;

constexpr std::int32_t kVersionRelay = 62;   // V3_1_8_SNAPSHOT
constexpr std::int32_t kVersionStatus = 28;  // V3_0_7_SNAPSHOT
constexpr auto kRelayTimeout = 10s;
constexpr auto kStatusTimeout = 5s;

/// The administrator's request as the client gets it: same code and fields.
proto::Command copy_of(const proto::CommandView& request) {
  proto::Command c;
  c.code = request.code;
  for (const auto& field : request.fields) {
    c.set(field.key, field.value);
  }
  return c;
}

/// Sends `command` to the member and answers the administrator with what the member answers.
/// @return the answer if it cannot be sent
Reply relay(const Services& s,
            const Request& request,
            std::string_view group,
            std::string_view client_id,
            proto::Command command) {
  const auto member = s.consumers.channel(group, client_id);
  if (!member) {
    return Reply::error(Code::kSystemError,
                        fmt::format(remark::kConsumerNotOnline, group, client_id));
  }
  if (member->version < kVersionRelay) {
    return Reply::error(Code::kSystemError, fmt::format(remark::kConsumerTooOld, group, client_id));
  }
  auto held = std::make_shared<const HeldRequest>(request);
  s.calls.call(
      member->connection,
      std::move(command),
      kRelayTimeout,
      [held, group = std::string(group), client = std::string(client_id)](
          Result<net::RpcAnswer> answer) {
        if (answer.has_error()) {
          send_reply(
              held->connection,
              held->command,
              Reply::error(
                  Code::kConsumeMsgTimeout,
                  fmt::format(remark::kConsumerTimeout, group, client, answer.error().detail)));
          return;
        }
        const proto::CommandView& c = *answer.value().command;
        Reply reply = Reply::error(c.code, std::string(c.remark));
        reply.body = as_text(c.body);
        send_reply(held->connection, held->command, reply);
      });
  return Reply::nothing();
}

Reply running_info(const Services& s, const Request& request) {
  const auto group = need_text(request.command, "consumerGroup");
  const auto client = need_text(request.command, "clientId");
  if (group.has_error() || client.has_error()) {
    return system_error(group.has_error() ? group.error() : client.error());
  }
  return relay(s, request, group.value(), client.value(), copy_of(request.command));
}

Reply consume_directly(const Services& s, const Request& request) {
  const auto group = need_text(request.command, "consumerGroup");
  const auto client = need_text(request.command, "clientId");
  if (group.has_error() || client.has_error()) {
    return system_error(group.has_error() ? group.error() : client.error());
  }
  const std::string_view id = request.command.field("msgId").value_or("");
  const auto parsed = proto::parse_offset_message_id(id);
  if (parsed.has_error()) {
    return system_error(parsed.error());
  }
  auto record = record_at(s, parsed.value().phys_offset);
  if (!record) {
    return Reply::error(Code::kSystemError,
                        fmt::format(remark::kViewNotFound, parsed.value().phys_offset));
  }
  proto::Command command = copy_of(request.command);
  command.set("brokerName", s.config.name);
  command.body = std::move(*record);
  return relay(s, request, group.value(), client.value(), std::move(command));
}

/// Collects the offsets of members; the last answer, or time-out, answers the administrator.
class StatusRound {
 public:
  StatusRound(const Request& request, std::size_t members)
      : held_(request),
        left_(members) {}

  void answered(const std::string& client_id, const Result<net::RpcAnswer>& answer) {
    const std::scoped_lock lock(mutex_);
    if (answer.has_error() || answer.value().command->code != Code::kSuccess) {
      log_info("broker", "a consumer did not tell its offsets client={}", client_id);
    } else if (auto one = proto::decode_consumer_status(as_text(answer.value().command->body));
               one.has_value()) {
      status_.clients[client_id] = std::move(one.value().queues);
    }
    if (--left_ == 0) {
      Reply reply = Reply::with_body(proto::encode(status_));
      reply.remark = remark::kNotSet;
      send_reply(held_.connection, held_.command, reply);
    }
  }

 private:
  HeldRequest held_;
  std::mutex mutex_{};
  std::size_t left_;
  proto::ConsumerStatus status_{};
};

Reply consumer_status(const Services& s, const Request& request) {
  const auto group = need_text(request.command, "group");
  const auto topic = need_text(request.command, "topic");
  if (group.has_error() || topic.has_error()) {
    return system_error(group.has_error() ? group.error() : topic.error());
  }
  // Trap: clientAddr is a client id (remoting §7.5).
  const std::string_view only = request.command.field("clientAddr").value_or("");
  std::vector<ClientChannel> members = s.consumers.channels(group.value());
  if (members.empty()) {
    return Reply::error(Code::kSystemError, fmt::format(remark::kNobodyOnline, group.value()));
  }
  if (!only.empty()) {
    std::erase_if(members, [&](const ClientChannel& c) { return c.client_id != only; });
  }
  for (const ClientChannel& member : members) {
    if (member.version < kVersionStatus) {
      return Reply::error(Code::kSystemError,
                          fmt::format(remark::kClientTooOld, member.client_id, member.version));
    }
  }
  if (members.empty()) {
    Reply reply = Reply::with_body(proto::encode(proto::ConsumerStatus{}));
    reply.remark = remark::kNotSet;
    return reply;
  }
  auto round = std::make_shared<StatusRound>(request, members.size());
  for (const ClientChannel& member : members) {
    proto::Command c;
    c.code = proto::RequestCode::kGetConsumerStatusFromClient;
    c.set("topic", topic.value()).set("group", group.value());
    s.calls.call(member.connection,
                 std::move(c),
                 kStatusTimeout,
                 [round, id = member.client_id](Result<net::RpcAnswer> answer) {
                   round->answered(id, answer);
                 });
  }
  return Reply::nothing();
}

}  // namespace

void add_consumer_relay_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kGetConsumerRunningInfo] = {Run::kAdmin,
                                       [&s](const Request& r) { return running_info(s, r); }};
  table[C::kConsumeMessageDirectly] = {Run::kAdmin,
                                       [&s](const Request& r) { return consume_directly(s, r); }};
  table[C::kInvokeBrokerToGetConsumerStatus] = {
      Run::kAdmin, [&s](const Request& r) { return consumer_status(s, r); }};
}

}  // namespace tenon::broker
