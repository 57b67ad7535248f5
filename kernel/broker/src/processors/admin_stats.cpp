// Who and how far: 202, 203, 204, 208, 300, 317, 328 (spec: broker §15.3, remoting §7.4).
#include "processors/handlers.h"
#include "processors/store_view.h"
#include "remarks.h"

#include "tenon/proto/bodies_admin.h"
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

/// @param wanted  also what each member subscribes itself: an addition that tools ask for
std::vector<proto::ClientConnection> connections(const std::vector<ClientChannel>& channels,
                                                 bool wanted) {
  std::vector<proto::ClientConnection> out;
  for (const ClientChannel& channel : channels) {
    proto::ClientConnection& c = out.emplace_back();
    c.client_addr = proto::to_string(channel.connection->peer());
    c.client_id = channel.client_id;
    c.language = channel.language;
    c.version = channel.version;
    if (wanted && channel.wanted != nullptr) {
      c.subscriptions = channel.wanted->subscriptions;
    }
  }
  return out;
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
  const bool wanted = request.command.field_bool("withSubscriptions").value_or(false);
  proto::ConsumerConnection body;
  body.connections = connections(info->channels, wanted);
  body.consume_from_where = info->data.consume_from_where;
  body.consume_type = info->data.consume_type;
  body.message_model = info->data.message_model;
  if (wanted) {
    body.mismatch = info->mismatch;
  }
  for (const proto::SubscriptionData& data : info->data.subscriptions) {
    body.subscriptions.insert_or_assign(data.topic, data);
  }
  return Reply::with_body(proto::encode(body));
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
  return Reply::with_body(proto::encode(proto::ProducerConnection{connections(*channels, false)}));
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

/// Messages per second of the last minute; 0 in the first seconds (broker §16.1).
double consume_tps(const Services& s, std::string_view group, std::string_view topic) {
  const auto data = s.stats.items().data(stat::kGroupGetNums, fmt::format("{}@{}", topic, group));
  return data ? data->minute.tps : 0;
}

/// @return how much the group has not consumed yet
std::int64_t write_consume_stats(proto::JsonWriter& w,
                                 const Services& s,
                                 std::string_view group,
                                 const Topic& topic,
                                 std::int32_t queues) {
  std::int64_t lag = 0;
  for (std::int32_t id = 0; id < queues; ++id) {
    const tenon_queue queue = s.log.queue_of(topic, static_cast<std::uint32_t>(id));
    const std::int64_t consumed =
        std::max<std::int64_t>(s.offsets.query(group, topic.name(), id), 0);
    const std::int64_t end = std::max<std::int64_t>(s.log.bounds(queue).max_offset, 0);
    queue_key(w, s, topic.name(), id);
    w.begin_object()
        .member("brokerOffset", end)
        .member("consumerOffset", consumed)
        .member("lastTimestamp", time_of(s, queue, consumed - 1))
        .end_object();
    lag += end - consumed;
  }
  return lag;
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
  double tps = 0;
  w.begin_object().key("offsetTable").begin_object();
  for (const std::string& name : topics) {
    const TopicPtr topic = s.topics.find(name);
    if (topic == nullptr || (online && !s.consumers.subscribes(group.value(), name))) {
      continue;
    }
    write_consume_stats(w, s, group.value(), *topic, topic->config().read_queue_count);
    tps += consume_tps(s, group.value(), name);
  }
  w.end_object().member("consumeTps", tps).end_object();
  return Reply::with_body(std::move(body));
}

/// Every group and each of its topics by itself. Expensive.
Reply broker_consume_stats(const Services& s, const Request& request) {
  const bool order = request.command.field_bool("isOrder").value_or(false);
  std::int64_t total_lag = 0;
  std::string body;
  proto::JsonWriter w(body);
  w.begin_object().member("brokerAddr", s.advertised.address).key("consumeStatsList").begin_array();
  for (const auto& [group, config] : s.groups.table().groups) {
    w.begin_object().key(group).begin_array();
    const bool online = s.consumers.is_online(group);
    for (const std::string& name : s.offsets.topics_of(group)) {
      const TopicPtr topic = s.topics.find(name);
      if (topic == nullptr || topic->config().order != order ||
          (online && !s.consumers.subscribes(group, name))) {
        continue;
      }
      w.begin_object().member("consumeTps", consume_tps(s, group, name));
      w.key("offsetTable").begin_object();
      total_lag += write_consume_stats(w, s, group, *topic, topic->config().write_queue_count);
      w.end_object().end_object();
    }
    w.end_array().end_object();
  }
  w.end_array().member("totalDiff", total_lag).end_object();
  return Reply::with_body(std::move(body));
}

/// Trap: an item that nothing was counted under is an error; tools show 0 (broker §16.1).
Reply stats_data(const Services& s, const Request& request) {
  const auto name = need_text(request.command, "statsName");
  const auto key = need_text(request.command, "statsKey");
  if (name.has_error() || key.has_error()) {
    return system_error(name.has_error() ? name.error() : key.error());
  }
  const auto data = s.stats.items().data(name.value(), key.value());
  if (!data) {
    return Reply::error(Code::kSystemError,
                        fmt::format(remark::kStatsUnknown, name.value(), key.value()));
  }
  const auto item = [](const StatsItems::Window& w) {
    return proto::StatsItem{static_cast<std::int64_t>(w.sum), w.tps, w.average};
  };
  return Reply::with_body(
      proto::encode(proto::BrokerStatsData{item(data->minute), item(data->hour), item(data->day)}));
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
  table[C::kViewBrokerStatsData] = {Run::kAdmin,
                                    [&s](const Request& r) { return stats_data(s, r); }};
  table[C::kGetBrokerConsumeStats] = {
      Run::kAdmin, [&s](const Request& r) { return broker_consume_stats(s, r); }};
  table[C::kQueryTopicConsumeByWho] = {Run::kAdmin,
                                       [&s](const Request& r) { return consumed_by(s, r); }};
}

}  // namespace tenon::broker
