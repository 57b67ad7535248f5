// Statistics and state that tools ask for.
#include "tenon/proto/bodies_admin.h"

#include "body_codec.h"

#include <array>

namespace tenon::proto {

using detail::BodyReader;
using detail::enum_name;
using detail::fastjson_style;
using detail::parse_object;

namespace {

constexpr std::array<std::string_view, 6> kConsumeResults{
    "CR_SUCCESS", "CR_LATER", "CR_ROLLBACK", "CR_COMMIT", "CR_THROW_EXCEPTION", "CR_RETURN_NULL"};

Language read_language(JsonNode node) {
  if (node.is_string()) {
    return language_from_name(node.string());
  }
  const auto ordinal = node.integer();
  return ordinal && *ordinal >= 0 && *ordinal <= static_cast<std::int64_t>(Language::kNodeJs)
             ? static_cast<Language>(*ordinal)
             : Language::kOther;
}

void write_connections(JsonWriter& w, const std::vector<ClientConnection>& connections) {
  w.key("connectionSet").begin_array();
  for (const ClientConnection& c : connections) {
    w.begin_object().member("clientAddr", c.client_addr).member("clientId", c.client_id);
    w.member("language", to_string(c.language));
    if (c.subscriptions) {
      w.key("subscriptionSet").begin_array();
      for (const SubscriptionData& s : *c.subscriptions) {
        detail::write(w, s);
      }
      w.end_array();
    }
    w.member("version", c.version).end_object();
  }
  w.end_array();
}

std::vector<ClientConnection> read_connections(BodyReader& in, JsonNode root) {
  std::vector<ClientConnection> connections;
  const JsonNode list = in.array(root, "connectionSet");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonNode node = list.at(i);
    ClientConnection& c = connections.emplace_back();
    in.get(node, "clientAddr", c.client_addr);
    in.get(node, "clientId", c.client_id);
    in.get(node, "version", c.version);
    c.language = read_language(node["language"]);
    if (const JsonNode wanted = in.array(node, "subscriptionSet")) {
      auto& list_of = c.subscriptions.emplace();
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        list_of.push_back(in.subscription(wanted.at(k)));
      }
    }
  }
  return connections;
}

void write_stats(JsonWriter& w, const StatsItem& s) {
  w.begin_object().member("avgpt", s.average_per_time).member("sum", s.sum);
  w.member("tps", s.tps).end_object();
}

StatsItem read_stats(BodyReader& in, JsonNode node) {
  StatsItem s;
  in.get(node, "avgpt", s.average_per_time);
  in.get(node, "sum", s.sum);
  in.get(node, "tps", s.tps);
  return s;
}

}  // namespace

std::string encode(const TopicStatsTable& t) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object().key("offsetTable").begin_object();
  for (const auto& [q, o] : t.offsets) {
    detail::write_key(w, q);
    w.begin_object().member("lastUpdateTimestamp", o.last_update_ms);
    w.member("maxOffset", o.max_offset).member("minOffset", o.min_offset).end_object();
  }
  w.end_object().end_object();
  return out;
}

Result<TopicStatsTable> decode_topic_stats(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "topic stats"));
  BodyReader in("topic stats");
  TopicStatsTable t;
  const JsonNode table = in.object(document.root(), "offsetTable");
  for (std::size_t i = 0; i < table.size() && !in.failed(); ++i) {
    const auto [key, node] = table.member(i);
    TopicOffset o;
    in.get(node, "lastUpdateTimestamp", o.last_update_ms);
    in.get(node, "maxOffset", o.max_offset);
    in.get(node, "minOffset", o.min_offset);
    t.offsets.insert_or_assign(in.queue_key(key), o);
  }
  if (in.failed()) {
    return in.error();
  }
  return t;
}

std::string encode(const ConsumeStats& s) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object().member("consumeTps", s.consume_tps).key("offsetTable").begin_object();
  for (const auto& [q, o] : s.offsets) {
    detail::write_key(w, q);
    w.begin_object().member("brokerOffset", o.broker_offset);
    w.member("consumerOffset", o.consumer_offset).member("lastTimestamp", o.last_ms).end_object();
  }
  w.end_object().end_object();
  return out;
}

Result<ConsumeStats> decode_consume_stats(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "consume stats"));
  BodyReader in("consume stats");
  ConsumeStats s;
  in.get(document.root(), "consumeTps", s.consume_tps);
  const JsonNode table = in.object(document.root(), "offsetTable");
  for (std::size_t i = 0; i < table.size() && !in.failed(); ++i) {
    const auto [key, node] = table.member(i);
    ConsumeOffset o;
    in.get(node, "brokerOffset", o.broker_offset);
    in.get(node, "consumerOffset", o.consumer_offset);
    in.get(node, "lastTimestamp", o.last_ms);
    s.offsets.insert_or_assign(in.queue_key(key), o);
  }
  if (in.failed()) {
    return in.error();
  }
  return s;
}

std::string encode(const ConsumerConnection& c) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object();
  write_connections(w, c.connections);
  w.member("consumeFromWhere", enum_name(detail::kConsumeFromWheres, c.consume_from_where));
  w.member("consumeType", enum_name(detail::kConsumeTypes, c.consume_type));
  w.member("messageModel", enum_name(detail::kMessageModels, c.message_model));
  if (c.mismatch) {
    w.member("subscriptionMismatch", *c.mismatch);
  }
  w.key("subscriptionTable").begin_object();
  for (const auto& [topic, subscription] : c.subscriptions) {
    detail::write(w.key(topic), subscription);
  }
  w.end_object().end_object();
  return out;
}

Result<ConsumerConnection> decode_consumer_connection(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "consumer connections"));
  BodyReader in("consumer connections");
  const JsonNode root = document.root();
  ConsumerConnection c;
  c.connections = read_connections(in, root);
  in.get_enum(root, "consumeType", detail::kConsumeTypes, c.consume_type);
  in.get_enum(root, "messageModel", detail::kMessageModels, c.message_model);
  in.get_enum(root, "consumeFromWhere", detail::kConsumeFromWheres, c.consume_from_where);
  c.mismatch = root["subscriptionMismatch"].boolean();
  const JsonNode table = in.object(root, "subscriptionTable");
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto [topic, node] = table.member(i);
    c.subscriptions.insert_or_assign(std::string(topic), in.subscription(node));
  }
  if (in.failed()) {
    return in.error();
  }
  return c;
}

std::string encode(const ProducerConnection& c) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object();
  write_connections(w, c.connections);
  w.end_object();
  return out;
}

Result<ProducerConnection> decode_producer_connection(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "producer connections"));
  BodyReader in("producer connections");
  ProducerConnection c;
  c.connections = read_connections(in, document.root());
  if (in.failed()) {
    return in.error();
  }
  return c;
}

std::string encode_producer_table(const ProducerTable& t) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object().key("data").begin_object();
  for (const auto& [group, producers] : t) {
    w.key(group).begin_array();
    for (const ProducerInfo& p : producers) {
      w.begin_object().member("clientId", p.client_id).member("language", to_string(p.language));
      w.member("lastUpdateTimestamp", p.last_update_ms).member("remoteIP", p.remote_ip);
      w.member("version", p.version).end_object();
    }
    w.end_array();
  }
  w.end_object().end_object();
  return out;
}

Result<ProducerTable> decode_producer_table(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "producer table"));
  BodyReader in("producer table");
  ProducerTable t;
  const JsonNode table = in.object(document.root(), "data");
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::string_view group = table.member(i).first;
    const JsonNode list = in.array(table, group);
    auto& producers = t[std::string(group)];
    for (std::size_t k = 0; k < list.size(); ++k) {
      const JsonNode node = list.at(k);
      ProducerInfo& p = producers.emplace_back();
      in.get(node, "clientId", p.client_id);
      in.get(node, "remoteIP", p.remote_ip);
      in.get(node, "version", p.version);
      in.get(node, "lastUpdateTimestamp", p.last_update_ms);
      p.language = read_language(node["language"]);
    }
  }
  if (in.failed()) {
    return in.error();
  }
  return t;
}

std::string encode(const GroupList& g) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object();
  detail::write_texts(w, "groupList", g.groups);
  w.end_object();
  return out;
}

Result<GroupList> decode_group_list(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "group list"));
  BodyReader in("group list");
  GroupList g;
  in.get_texts(document.root(), "groupList", g.groups);
  if (in.failed()) {
    return in.error();
  }
  return g;
}

std::string encode(const ConsumeMessageDirectlyResult& r) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object().member("autoCommit", r.auto_commit);
  w.member("consumeResult", enum_name<ConsumeResult>(kConsumeResults, r.result));
  w.member("order", r.order);
  if (r.remark) {
    w.member("remark", *r.remark);
  }
  w.member("spentTimeMills", r.spent_ms).end_object();
  return out;
}

Result<ConsumeMessageDirectlyResult> decode_consume_directly_result(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "consume result"));
  BodyReader in("consume result");
  const JsonNode root = document.root();
  ConsumeMessageDirectlyResult r;
  in.get(root, "order", r.order);
  in.get(root, "autoCommit", r.auto_commit);
  in.get_enum(root, "consumeResult", kConsumeResults, r.result);
  in.get(root, "remark", r.remark);
  in.get(root, "spentTimeMills", r.spent_ms);
  if (in.failed()) {
    return in.error();
  }
  return r;
}

std::string encode(const ConsumerStatus& s) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object().key("consumerTable").begin_object();
  for (const auto& [client, offsets] : s.clients) {
    detail::write_queue_offsets(w.key(client), offsets);
  }
  w.end_object();
  detail::write_queue_offsets(w.key("messageQueueTable"), s.queues);
  w.end_object();
  return out;
}

Result<ConsumerStatus> decode_consumer_status(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "consumer status"));
  BodyReader in("consumer status");
  ConsumerStatus s;
  s.queues = in.queue_offsets(in.object(document.root(), "messageQueueTable"));
  const JsonNode clients = in.object(document.root(), "consumerTable");
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const std::string_view client = clients.member(i).first;
    s.clients.insert_or_assign(std::string(client), in.queue_offsets(in.object(clients, client)));
  }
  if (in.failed()) {
    return in.error();
  }
  return s;
}

std::string encode_time_spans(const std::vector<QueueTimeSpan>& spans) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object().key("consumeTimeSpanSet").begin_array();
  for (const QueueTimeSpan& s : spans) {
    w.begin_object().member("consumeTimeStamp", s.consume_ms).member("delayTime", s.delay_ms);
    w.member("maxTimeStamp", s.max_ms);
    detail::write(w.key("messageQueue"), s.queue);
    w.member("minTimeStamp", s.min_ms).end_object();
  }
  w.end_array().end_object();
  return out;
}

Result<std::vector<QueueTimeSpan>> decode_time_spans(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "time spans"));
  BodyReader in("time spans");
  std::vector<QueueTimeSpan> spans;
  const JsonNode list = in.array(document.root(), "consumeTimeSpanSet");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonNode node = list.at(i);
    QueueTimeSpan& s = spans.emplace_back();
    s.queue = in.queue(node["messageQueue"]);
    in.get(node, "minTimeStamp", s.min_ms);
    in.get(node, "maxTimeStamp", s.max_ms);
    in.get(node, "consumeTimeStamp", s.consume_ms);
    in.get(node, "delayTime", s.delay_ms);
  }
  if (in.failed()) {
    return in.error();
  }
  return spans;
}

std::string encode(const BrokerStatsData& s) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  write_stats(w.begin_object().key("statsDay"), s.day);
  write_stats(w.key("statsHour"), s.hour);
  write_stats(w.key("statsMinute"), s.minute);
  w.end_object();
  return out;
}

Result<BrokerStatsData> decode_broker_stats_data(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "stats data"));
  BodyReader in("stats data");
  BrokerStatsData s;
  s.day = read_stats(in, in.object(document.root(), "statsDay"));
  s.hour = read_stats(in, in.object(document.root(), "statsHour"));
  s.minute = read_stats(in, in.object(document.root(), "statsMinute"));
  if (in.failed()) {
    return in.error();
  }
  return s;
}

}  // namespace tenon::proto
