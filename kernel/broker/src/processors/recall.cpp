// RECALL_MESSAGE 370: takes back a timer message before its time (spec: client §4.12, grpc's Recall;
// RecallMessageProcessor). The recall is a record of the timer queue itself.
#include "append/put.h"
#include "processors/handlers.h"
#include "processors/send.h"
#include "remarks.h"
#include "timer/timer_rules.h"

#include "tenon/base/endian.h"
#include "tenon/proto/properties.h"

#include <fmt/format.h>

#include <optional>
#include <string>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

/// Java's checks in their order. A reply means: refused.
std::optional<Reply> check(const Services& s, std::string_view topic, std::string_view text) {
  const auto refuse = [](std::int32_t code, std::string_view remark) {
    return Reply::error(code, std::string(remark));
  };
  if (!s.config.recall_message || !s.config.timer_wheel) {
    return refuse(Code::kNoPermission, remark::kRecallForbidden);
  }
  const std::int64_t now_ms = s.clock.wall_ms();
  if (now_ms < s.config.accept_send_from_ms || (s.config.permission & proto::kPermWrite) == 0) {
    return refuse(Code::kServiceNotAvailable, remark::kRecallNotAvailable);
  }
  if (s.topics.find(topic) == nullptr) {
    return refuse(Code::kTopicNotExist, fmt::format(remark::kRecallTopicNotExist, topic));
  }
  const auto handle = decode_recall_handle(text);
  if (handle.has_error()) {
    return refuse(Code::kIllegalOperation, handle.error().detail);
  }
  if (handle.value().topic != topic) {
    return refuse(Code::kIllegalOperation, remark::kRecallTopicNotMatch);
  }
  if (handle.value().broker_name != s.config.name) {
    return refuse(Code::kIllegalOperation, remark::kRecallNotAvailable);
  }
  const std::int64_t left_ms = handle.value().timestamp_ms - now_ms;
  if (left_ms <= 0 || left_ms >= s.config.timer_max_delay_sec * 1000) {
    return refuse(Code::kIllegalOperation, remark::kRecallTimeInvalid);
  }
  return std::nullopt;
}

std::string properties_of(const RecallHandle& handle, std::string_view group, std::int64_t now_ms) {
  namespace prop = proto::prop;
  std::string text;
  proto::append_property(text, prop::kTags, kRecallTag);
  proto::append_property(text, prop::kUniqKey, handle.uniq_key);
  proto::append_property(text, prop::kTimerDelUniqKey, recall_key(handle.topic, handle.uniq_key));
  proto::append_property(text, prop::kTimerDeliverMs, std::to_string(handle.timestamp_ms));
  proto::append_property(text, "BORN_TIMESTAMP", std::to_string(now_ms));
  proto::append_property(text, prop::kProducerGroup, group);
  proto::append_property(text, prop::kRealTopic, handle.topic);
  proto::append_property(text, prop::kRealQueueId, "0");
  proto::append_property(text, prop::kTimerOutMs, std::to_string(handle.timestamp_ms - 1));
  return text;
}

Reply answered(const Services& s, const tenon_append_result& result, std::string_view id) {
  if (result.status < 0) {
    const PutFailure failure = put_failure(result.status, s);
    return Reply::error(failure.code == Code::kSystemError ? Code::kSystemError : failure.code,
                        std::string(remark::kRecallExecuteError));
  }
  Reply reply;
  reply.remark = remark::kNotSet;  // Trap: Java sets the code only (remoting §1.8)
  reply.field("msgId", std::string(id));
  return reply;
}

Reply recall(const Services& s, const Request& request) {
  auto topic = need_text(request.command, "topic");
  auto text = need_text(request.command, "recallHandle");
  if (topic.has_error() || text.has_error()) {
    return system_error(topic.has_error() ? topic.error() : text.error());
  }
  if (auto refused = check(s, topic.value(), text.value())) {
    refused->field("MSG_REGION", s.config.region_id);
    return std::move(*refused);
  }
  const RecallHandle handle = decode_recall_handle(text.value()).value();
  const std::int64_t now_ms = s.clock.wall_ms();
  const std::string properties =
      properties_of(handle, request.command.field("producerGroup").value_or(""), now_ms);
  proto::MessageRecord m;
  m.topic = kTimerTopic;
  m.born_ms = now_ms;
  m.born_host = request.connection->peer();
  m.store_host = s.advertised.store_host;
  m.body = as_bytes("0");
  m.properties = properties;
  const TopicPtr wheel = s.topics.find(kTimerTopic);
  const tenon_append_result result =
      wheel != nullptr ? put_message(s.log, *wheel, m) : put_message(s.log, m);
  Reply reply = answered(s, result, handle.uniq_key);
  reply.field("MSG_REGION", s.config.region_id);
  return reply;
}

}  // namespace

void add_recall_handlers(Handlers& table, const Services& s) {
  table[proto::RequestCode::kRecallMessage] = {Run::kQuery,
                                               [&s](const Request& r) { return recall(s, r); }};
}

}  // namespace tenon::broker
