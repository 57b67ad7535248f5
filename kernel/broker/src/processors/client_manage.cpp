// Heartbeats and membership of clients (spec: broker §10, remoting §5.2 to §5.6).
#include "processors/handlers.h"
#include "remarks.h"

#include "tenon/base/endian.h"
#include "tenon/proto/json.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

bool notifies(const Services& s, std::string_view group) {
  const GroupPtr config = s.groups.find(group);
  return s.config.notify_consumer_ids_changed &&
         (config == nullptr || config->notify_consumer_ids_changed_enable);
}

/// The short heartbeat of a 5.x client. A member that is not known must send everything.
Reply short_heartbeat(const Services& s, const Request& request, const proto::HeartbeatData& beat) {
  bool known = true;
  for (const proto::ConsumerData& data : beat.consumers) {
    known = s.consumers.refresh(request.connection, data.group, s.clock.wall_ms()) && known;
  }
  Reply reply;
  reply.field("IS_SUPPORT_HEART_BEAT_V2", "true");
  reply.field("IS_SUB_CHANGE", known ? "false" : "true");
  return reply;
}

Reply heartbeat(const Services& s, const Request& request) {
  auto decoded = proto::decode_heartbeat(as_text(request.command.body));
  if (decoded.has_error()) {
    return system_error(decoded.error());
  }
  const proto::HeartbeatData& beat = decoded.value();
  const std::int64_t now_ms = s.clock.wall_ms();
  // Trap: without subscriptions means unchanged, not none (broker §10.1).
  if (beat.without_sub && !beat.consumers.empty()) {
    return short_heartbeat(s, request, beat);
  }
  for (const proto::ConsumerData& data : beat.consumers) {
    bool notify = s.config.notify_consumer_ids_changed;
    const GroupPtr group = s.groups.find_or_create(data.group);
    if (group != nullptr) {
      notify = notify && group->notify_consumer_ids_changed_enable;
      ensure_retry_topic(s, *group, data.unit_mode);
    }
    s.consumers.heartbeat({request.connection,
                           beat.client_id,
                           request.command.language,
                           request.command.version,
                           now_ms,
                           notify},
                          data);
  }
  for (const std::string& group : beat.producer_groups) {
    s.producers.heartbeat(group,
                          {request.connection,
                           beat.client_id,
                           request.command.language,
                           request.command.version,
                           now_ms});
  }
  return {};
}

Reply unregister(const Services& s, const Request& request) {
  if (const auto group = request.command.field("producerGroup"); group && !group->empty()) {
    s.producers.leave(request.connection, *group);
  }
  if (const auto group = request.command.field("consumerGroup"); group && !group->empty()) {
    s.consumers.leave(request.connection, *group, notifies(s, *group));
  }
  Reply reply;
  reply.empty_fields = true;
  return reply;
}

Reply consumer_list(const Services& s, const Request& request) {
  const auto group = need_text(request.command, "consumerGroup");
  if (group.has_error()) {
    return system_error(group.error());
  }
  const auto ids = s.consumers.client_ids(group.value());
  if (ids.empty()) {
    // Trap: an empty list would make clients drop all their queues (broker §10.2).
    return Reply::error(Code::kSystemError, fmt::format(remark::kNoConsumer, group.value()));
  }
  Reply reply = Reply::with_body(proto::encode_consumer_ids(ids));
  reply.empty_fields = true;
  return reply;
}

/// Push consumers ask at start whether their expressions are understood (spec: broker §9.6).
Reply check_client(const Services& s, const Request& request) {
  if (request.command.body.empty()) {
    return {};
  }
  auto document = proto::JsonDocument::parse(as_text(request.command.body));
  if (document.has_error()) {
    return system_error(document.error());
  }
  const proto::JsonNode subscription = document.value().root()["subscriptionData"];
  const std::string_view type = subscription["expressionType"].string();
  if (type.empty() || type == kTagType) {
    return {};
  }
  if (!s.config.property_filter) {
    return Reply::error(Code::kSystemError, fmt::format(remark::kFilterNotSupported, type));
  }
  auto filter = s.filters.compile(type, subscription["subString"].string());
  if (filter.has_error()) {
    return Reply::error(Code::kSubscriptionParseFailed, filter.error().detail);
  }
  return {};
}

}  // namespace

TopicPtr ensure_retry_topic(const Services& s,
                            const proto::SubscriptionGroupConfig& group,
                            bool unit_mode) {
  std::string name(kRetryPrefix);
  name += group.name;
  if (TopicPtr known = s.topics.find(name); known != nullptr) {
    return known;
  }
  constexpr std::int32_t kUnitSub = 2;
  proto::TopicConfig config;
  config.name = std::move(name);
  config.read_queue_count = group.retry_queue_count;
  config.write_queue_count = group.retry_queue_count;
  config.perm = proto::kPermRead | proto::kPermWrite;
  config.sys_flag = unit_mode ? kUnitSub : 0;
  return s.topics.add_if_absent(std::move(config));
}

void add_client_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kHeartBeat] = {Run::kInline, [&s](const Request& r) { return heartbeat(s, r); }};
  table[C::kUnregisterClient] = {Run::kInline, [&s](const Request& r) { return unregister(s, r); }};
  table[C::kGetConsumerListByGroup] = {Run::kInline,
                                       [&s](const Request& r) { return consumer_list(s, r); }};
  table[C::kCheckClientConfig] = {Run::kQuery,
                                  [&s](const Request& r) { return check_client(s, r); }};
}

}  // namespace tenon::broker
