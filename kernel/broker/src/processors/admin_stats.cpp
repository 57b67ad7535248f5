// Who and how far: 202, 203, 204, 208, 300, 328 (spec: broker §15.3, remoting §7.4).
#include "processors/handlers.h"
#include "remarks.h"

#include "tenon/proto/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

/// {"brokerName":…,"queueId":…,"topic":…} as the key of a map.
void queue_key(proto::JsonWriter& w, const Services& s, std::string_view topic, std::int32_t id) {
  w.begin_object_key()
      .member("brokerName", s.config.name)
      .member("queueId", id)
      .member("topic", topic)
      .end_object_key();
}

/// Store time of a queue entry; 0 if there is none.
std::int64_t time_of(const Services& s, tenon_queue queue, std::int64_t offset) {
  std::int64_t ms = 0;
  const auto& storage = s.log.storage();
  if (offset < 0 || storage->time_of == nullptr ||
      storage->time_of(storage.self, queue, offset, &ms, nullptr) < 0) {
    return 0;
  }
  return std::max<std::int64_t>(ms, 0);
}

Reply topic_stats(const Services& s, const Request& request) {
  const auto name = need_text(request.command, "topic");
  if (name.has_error()) {
    return system_error(name.error());
  }
  const TopicPtr topic = s.topics.find(name.value());
  if (topic == nullptr) {
    return Reply::error(Code::kTopicNotExist, fmt::format(remark::kTopicUnknown, name.value()));
  }
  std::string body;
  proto::JsonWriter w(body);
  w.begin_object().key("offsetTable").begin_object();
  for (std::int32_t id = 0; id < topic->config().write_queue_count; ++id) {
    const tenon_queue queue = s.log.queue_of(*topic, static_cast<std::uint32_t>(id));
    const tenon_queue_bounds bounds = s.log.bounds(queue);
    queue_key(w, s, topic->name(), id);
    w.begin_object()
        .member("lastUpdateTimestamp", time_of(s, queue, bounds.max_offset - 1))
        .member("maxOffset", std::max<std::int64_t>(bounds.max_offset, 0))
        .member("minOffset", std::max<std::int64_t>(bounds.min_offset, 0))
        .end_object();
  }
  w.end_object().end_object();
  return Reply::with_body(std::move(body));
}

void write_connections(proto::JsonWriter& w, const std::vector<ClientChannel>& channels) {
  w.key("connectionSet").begin_array();
  for (const ClientChannel& channel : channels) {
    w.begin_object()
        .member("clientAddr", proto::to_string(channel.connection->peer()))
        .member("clientId", channel.client_id)
        .member("language", proto::to_string(channel.language))
        .member("version", channel.version)
        .end_object();
  }
  w.end_array();
}

std::string_view name_of(proto::ConsumeType type) {
  switch (type) {
    case proto::ConsumeType::kActively:
      return "CONSUME_ACTIVELY";
    case proto::ConsumeType::kPassively:
      return "CONSUME_PASSIVELY";
    case proto::ConsumeType::kPop:
      return "CONSUME_POP";
  }
  return "";
}

std::string_view name_of(proto::ConsumeFromWhere from) {
  switch (from) {
    case proto::ConsumeFromWhere::kLastOffset:
      return "CONSUME_FROM_LAST_OFFSET";
    case proto::ConsumeFromWhere::kLastOffsetAndFromMinWhenBootFirst:
      return "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST";
    case proto::ConsumeFromWhere::kMinOffset:
      return "CONSUME_FROM_MIN_OFFSET";
    case proto::ConsumeFromWhere::kMaxOffset:
      return "CONSUME_FROM_MAX_OFFSET";
    case proto::ConsumeFromWhere::kFirstOffset:
      return "CONSUME_FROM_FIRST_OFFSET";
    case proto::ConsumeFromWhere::kTimestamp:
      return "CONSUME_FROM_TIMESTAMP";
  }
  return "";
}

void write_subscription(proto::JsonWriter& w, const proto::SubscriptionData& data) {
  w.begin_object().member("classFilterMode", data.class_filter_mode);
  w.key("codeSet").begin_array();
  for (const std::int32_t code : data.codes) {
    w.value(code);
  }
  w.end_array();
  w.member("expressionType", data.expression_type)
      .member("subString", data.sub_string)
      .member("subVersion", data.sub_version);
  w.key("tagsSet").begin_array();
  for (const std::string& tag : data.tags) {
    w.value(tag);
  }
  w.end_array();
  w.member("topic", data.topic).end_object();
}

Reply consumer_connections(const Services& s, const Request& request) {
  const auto group = need_text(request.command, "consumerGroup");
  if (group.has_error()) {
    return system_error(group.error());
  }
  const auto info = s.consumers.info(group.value());
  if (!info) {
    return Reply::error(Code::kConsumerNotOnline,
                        fmt::format(remark::kGroupNotOnline, group.value()));
  }
  std::string body;
  proto::JsonWriter w(body);
  w.begin_object();
  write_connections(w, info->channels);
  w.member("consumeFromWhere", name_of(info->data.consume_from_where))
      .member("consumeType", name_of(info->data.consume_type))
      .member("messageModel",
              info->data.message_model == proto::MessageModel::kBroadcasting ? "BROADCASTING"
                                                                             : "CLUSTERING");
  w.key("subscriptionTable").begin_object();
  for (const proto::SubscriptionData& data : info->data.subscriptions) {
    w.key(data.topic);
    write_subscription(w, data);
  }
  w.end_object().end_object();
  return Reply::with_body(std::move(body));
}

Reply producer_connections(const Services& s, const Request& request) {
  const auto group = need_text(request.command, "producerGroup");
  if (group.has_error()) {
    return system_error(group.error());
  }
  const auto channels = s.producers.channels(group.value());
  if (!channels) {
    return Reply::error(Code::kSystemError,
                        fmt::format(remark::kProducerGroupUnknown, group.value()));
  }
  std::string body;
  proto::JsonWriter w(body);
  w.begin_object();
  write_connections(w, *channels);
  w.end_object();
  return Reply::with_body(std::move(body));
}

Reply all_producers(const Services& s) {
  std::string body;
  proto::JsonWriter w(body);
  w.begin_object().key("data").begin_object();
  for (const auto& [group, channels] : s.producers.all()) {
    w.key(group).begin_array();
    for (const ClientChannel& channel : channels) {
      w.begin_object()
          .member("clientId", channel.client_id)
          .member("language", proto::to_string(channel.language))
          .member("lastUpdateTimestamp", channel.last_update_ms)
          .member("remoteIP", "/" + proto::to_string(channel.connection->peer()))
          .member("version", channel.version)
          .end_object();
    }
    w.end_array();
  }
  w.end_object().end_object();
  return Reply::with_body(std::move(body));
}

void write_consume_stats(proto::JsonWriter& w,
                         const Services& s,
                         std::string_view group,
                         const Topic& topic) {
  for (std::int32_t id = 0; id < topic.config().read_queue_count; ++id) {
    const tenon_queue queue = s.log.queue_of(topic, static_cast<std::uint32_t>(id));
    const std::int64_t consumed =
        std::max<std::int64_t>(s.offsets.query(group, topic.name(), id), 0);
    queue_key(w, s, topic.name(), id);
    w.begin_object()
        .member("brokerOffset", std::max<std::int64_t>(s.log.bounds(queue).max_offset, 0))
        .member("consumerOffset", consumed)
        .member("lastTimestamp", time_of(s, queue, consumed - 1))
        .end_object();
  }
}

Reply consume_stats(const Services& s, const Request& request) {
  const auto group = need_text(request.command, "consumerGroup");
  if (group.has_error()) {
    return system_error(group.error());
  }
  std::set<std::string> topics;
  const std::string_view wanted = request.command.field("topic").value_or("");
  if (wanted.empty()) {
    topics = s.offsets.topics_of(group.value());
  } else {
    topics.emplace(wanted);
  }
  const bool online = s.consumers.is_online(group.value());
  std::string body;
  proto::JsonWriter w(body);
  w.begin_object().member("consumeTps", 0.0).key("offsetTable").begin_object();
  for (const std::string& name : topics) {
    const TopicPtr topic = s.topics.find(name);
    if (topic == nullptr || (online && !s.consumers.subscribes(group.value(), name))) {
      continue;
    }
    write_consume_stats(w, s, group.value(), *topic);
  }
  w.end_object().end_object();
  return Reply::with_body(std::move(body));
}

Reply consumed_by(const Services& s, const Request& request) {
  const auto topic = need_text(request.command, "topic");
  if (topic.has_error()) {
    return system_error(topic.error());
  }
  std::set<std::string> groups = s.consumers.groups_of_topic(topic.value());
  groups.merge(s.offsets.groups_of(topic.value()));
  std::string body;
  proto::JsonWriter w(body);
  w.begin_object().key("groupList").begin_array();
  for (const std::string& group : groups) {
    w.value(group);
  }
  w.end_array().end_object();
  return Reply::with_body(std::move(body));
}

}  // namespace

void add_stats_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kGetTopicStatsInfo] = {Run::kAdmin,
                                  [&s](const Request& r) { return topic_stats(s, r); }};
  table[C::kGetConsumerConnectionList] = {
      Run::kAdmin, [&s](const Request& r) { return consumer_connections(s, r); }};
  table[C::kGetProducerConnectionList] = {
      Run::kAdmin, [&s](const Request& r) { return producer_connections(s, r); }};
  table[C::kGetAllProducerInfo] = {Run::kAdmin, [&s](const Request&) { return all_producers(s); }};
  table[C::kGetConsumeStats] = {Run::kAdmin,
                                [&s](const Request& r) { return consume_stats(s, r); }};
  table[C::kQueryTopicConsumeByWho] = {Run::kAdmin,
                                       [&s](const Request& r) { return consumed_by(s, r); }};
}

}  // namespace tenon::broker
