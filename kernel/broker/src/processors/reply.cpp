#include "processors/reply.h"

#include "append/put.h"
#include "processors/send_check.h"
#include "remarks.h"
#include "util/message_id.h"

#include "tenon/base/log.h"
#include "tenon/proto/properties.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

/// How long the requester may take to accept a reply (Broker2Client.callClient).
constexpr std::chrono::milliseconds kPushTimeout{10'000};
constexpr std::string_view kPushReplyTime = "PUSH_REPLY_TIME";

}  // namespace

struct ReplyProcessor::Pending {
  explicit Pending(const Request& request)
      : held(request) {}

  HeldRequest held;
  SendHeader header{};  ///< views into the held buffer
  TopicPtr topic{};
  std::int32_t queue_id = 0;
  std::int64_t store_ms = 0;
};

void ReplyProcessor::refuse(const HeldRequest& held,
                            std::int32_t code,
                            std::string_view remark) const {
  Reply reply = Reply::error(code, std::string(remark));
  reply.field("MSG_REGION", s_.config.region_id);
  reply.field("TRACE_ON", std::string(s_.config.trace_on ? "true" : "false"));
  send_reply(held.connection, held.command, reply);
}

void ReplyProcessor::handle(IoState& io, const Request& request) {
  auto reply = std::make_shared<Pending>(request);
  if (auto parsed = parse_send_header(reply->held.command, reply->header); parsed.has_error()) {
    send_reply(request.connection,
               request.command,
               Reply::error(Code::kSystemError, parsed.error().detail));
    return;
  }
  TopicPtr topic = s_.topics.find(reply->header.topic);
  if (const auto refusal = check_send(s_, reply->header, topic.get())) {
    refuse(reply->held, refusal->code, refusal->remark);
    return;
  }
  const std::uint32_t random = io.next_random();
  if (topic != nullptr) {
    checked(reply, std::move(topic), random);
    return;
  }
  const bool taken = s_.workers.post(Workers::Lane::kAdmin, [this, reply, random] {
    const SendHeader& header = reply->header;
    checked(reply,
            s_.topics.create_for_send(
                header.topic, header.default_topic, header.default_queue_count, 0),
            random);
  });
  if (!taken) {
    refuse(reply->held, Code::kSystemBusy, remark::kOverload);
  }
}

/// Checks 5 and 6, then the push. Thread: I/O or worker.
void ReplyProcessor::checked(const std::shared_ptr<Pending>& reply,
                             TopicPtr topic,
                             std::uint32_t random) {
  if (topic == nullptr) {
    const Refusal refusal = topic_not_exist(reply->header.topic);
    refuse(reply->held, refusal.code, refusal.remark);
    return;
  }
  const std::int32_t wanted = reply->header.queue_id;
  if (const auto refusal = check_queue(*topic, wanted, reply->held.connection->peer())) {
    refuse(reply->held, refusal->code, refusal->remark);
    return;
  }
  const auto queues =
      static_cast<std::uint32_t>(std::max(topic->config().write_queue_count, std::int32_t{1}));
  reply->queue_id = wanted >= 0 ? wanted : static_cast<std::int32_t>(random % queues);
  reply->topic = std::move(topic);
  push(reply);
}

void ReplyProcessor::push(const std::shared_ptr<Pending>& reply) {
  const auto requester =
      proto::find_property(reply->header.properties, proto::prop::kReplyToClient);
  if (!requester) {
    finish(*reply, {false, std::string(remark::kReplyToClientNull)});
    return;
  }
  const auto client = s_.producers.find_client(*requester);
  if (!client) {
    finish(*reply, {false, fmt::format(remark::kReplyClientNotFound, *requester)});
    return;
  }
  if (waiting_.fetch_add(1, std::memory_order_relaxed) >= s_.config.reply_queue_max) {
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    send_reply(reply->held.connection,
               reply->held.command,
               Reply::error(Code::kSystemBusy, std::string(remark::kOverload)));
    return;
  }
  reply->store_ms = s_.clock.wall_ms();
  s_.calls.call(client->connection,
                push_command(*reply),
                kPushTimeout,
                [this, reply, requester = *requester](const Result<net::RpcAnswer>& answer) {
                  waiting_.fetch_sub(1, std::memory_order_relaxed);
                  Pushed pushed;
                  pushed.ok = answer.has_value() && answer.value().command->code == Code::kSuccess;
                  if (!pushed.ok) {
                    pushed.remark = fmt::format(remark::kReplyPushFailed, requester);
                  }
                  finish(*reply, pushed);
                });
}

proto::Command ReplyProcessor::push_command(const Pending& reply) const {
  const SendHeader& h = reply.header;
  std::string properties(h.properties);
  proto::append_property(properties, kPushReplyTime, std::to_string(reply.store_ms));
  proto::Command c;
  c.code = proto::RequestCode::kPushReplyMessageToClient;
  c.set("producerGroup", h.group).set("topic", h.topic);
  c.set("defaultTopic", h.default_topic);
  c.set("defaultTopicQueueNums", std::int64_t{h.default_queue_count});
  c.set("queueId", std::int64_t{reply.queue_id}).set("sysFlag", std::int64_t{h.sys_flag});
  c.set("bornTimestamp", h.born_ms).set("flag", std::int64_t{h.flag});
  c.set("properties", properties).set("reconsumeTimes", std::int64_t{h.reconsume_times});
  c.set("unitMode", h.unit_mode ? "true" : "false");
  c.set("bornHost", proto::to_string(reply.held.connection->peer()));
  c.set("storeHost", proto::to_string(s_.advertised.store_host));
  c.set("storeTimestamp", reply.store_ms);
  c.body.assign(reinterpret_cast<const char*>(reply.held.command.body.data()),
                reply.held.command.body.size());
  return c;
}

/// The id of the stored reply, empty if it could not be stored: that is logged only.
std::string ReplyProcessor::store(const Pending& reply, std::int64_t& queue_offset) const {
  const SendHeader& h = reply.header;
  if (reply.held.command.body.size() > s_.config.message_max_bytes ||
      h.properties.size() > s_.config.properties_max_bytes) {
    log_debug("broker", "a reply is too large to be stored topic={}", h.topic);
    return {};
  }
  proto::MessageRecord m;
  m.queue_id = reply.queue_id;
  m.flag = h.flag;
  m.sys_flag = h.sys_flag | (reply.topic->multi_tag() ? proto::sys_flag::kMultiTags : 0);
  m.born_ms = h.born_ms;
  m.born_host = reply.held.connection->peer();
  m.store_host = s_.advertised.store_host;
  m.reconsume_times = h.reconsume_times;
  m.body = reply.held.command.body;
  m.properties = h.properties;
  const tenon_append_result result = put_message(s_.log, *reply.topic, m);
  if (result.status < 0) {
    log_warn("broker", "a reply was not stored topic={} status={}", h.topic, result.status);
    return {};
  }
  queue_offset = result.queue_offset;
  return std::string(MessageIdText(s_.advertised.store_host, result.phys).view());
}

void ReplyProcessor::finish(const Pending& reply, const Pushed& pushed) const {
  Reply answer;
  answer.code = pushed.ok ? std::int32_t{Code::kSuccess} : std::int32_t{Code::kSystemError};
  answer.remark = pushed.remark;
  answer.field("MSG_REGION", s_.config.region_id);
  answer.field("TRACE_ON", std::string(s_.config.trace_on ? "true" : "false"));
  std::int64_t queue_offset = 0;
  std::string id;
  if (s_.config.store_reply) {
    id = store(reply, queue_offset);
  }
  if (id.empty() && pushed.ok) {
    id = "0";
  }
  if (!id.empty()) {
    // Trap: a stored reply has its ids in the answer even when the push failed (remoting §6.3).
    answer.field("msgId", std::move(id));
    answer.field("queueId", std::int64_t{reply.queue_id});
    answer.field("queueOffset", queue_offset);
  }
  send_reply(reply.held.connection, reply.held.command, answer);
}

}  // namespace tenon::broker
