// Topics, groups and committed offsets: configuration files, admin requests, slave synchronisation.
#include "body_codec.h"

#include "tenon/proto/bodies_admin.h"

namespace tenon::proto {

using detail::BodyReader;
using detail::fastjson_style;
using detail::MemberWriter;
using detail::parse_object;

namespace {

/// {queue or level: offset} with integer keys.
template <class Map>
void read_int_map(BodyReader& in, JsonNode table, std::string_view name, Map& out) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto [key, node] = table.member(i);
    std::int64_t number = 0;
    std::int64_t value = 0;
    if (!in.int_key(key, name, number) || !in.int64(node, name, value)) {
      return;
    }
    if (number < std::numeric_limits<std::int32_t>::min() ||
        number > std::numeric_limits<std::int32_t>::max()) {
      in.fail(name, "has a key out of range");
      return;
    }
    out.insert_or_assign(static_cast<std::int32_t>(number), value);
  }
}

template <class Map>
void write_int_map(JsonWriter& w, const Map& map) {
  w.begin_object();
  for (const auto& [number, value] : map) {
    w.key(std::int64_t{number}).value(value);
  }
  w.end_object();
}

SubscriptionGroupConfig read_group(BodyReader& in, JsonNode node, std::string_view key) {
  SubscriptionGroupConfig g;
  g.name = key;
  in.get(node, "groupName", g.name);
  in.get(node, "consumeEnable", g.consume_enable);
  in.get(node, "consumeFromMinEnable", g.consume_from_min_enable);
  in.get(node, "consumeBroadcastEnable", g.consume_broadcast_enable);
  in.get(node, "retryQueueNums", g.retry_queue_count);
  in.get(node, "retryMaxTimes", g.retry_max_times);
  in.get(node, "brokerId", g.broker_id);
  in.get(node, "whichBrokerWhenConsumeSlowly", g.which_broker_when_consume_slowly);
  in.get(node, "notifyConsumerIdsChangedEnable", g.notify_consumer_ids_changed_enable);
  BodyReader::extra(node,
                    {"groupName",
                     "consumeEnable",
                     "consumeFromMinEnable",
                     "consumeBroadcastEnable",
                     "retryQueueNums",
                     "retryMaxTimes",
                     "brokerId",
                     "whichBrokerWhenConsumeSlowly",
                     "notifyConsumerIdsChangedEnable"},
                    g.extra);
  return g;
}

void write_group(JsonWriter& w, const SubscriptionGroupConfig& g) {
  MemberWriter m(w, g.extra);
  m.member("brokerId", g.broker_id);
  m.member("consumeBroadcastEnable", g.consume_broadcast_enable);
  m.member("consumeEnable", g.consume_enable);
  m.member("consumeFromMinEnable", g.consume_from_min_enable);
  m.member("groupName", g.name);
  m.member("notifyConsumerIdsChangedEnable", g.notify_consumer_ids_changed_enable);
  m.member("retryMaxTimes", g.retry_max_times);
  m.member("retryQueueNums", g.retry_queue_count);
  m.member("whichBrokerWhenConsumeSlowly", g.which_broker_when_consume_slowly);
  m.end();
}

}  // namespace

std::string encode(const DataVersion& v) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  detail::write(w, v);
  return out;
}

Result<DataVersion> decode_data_version(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "data version"));
  BodyReader in("data version");
  const DataVersion v = in.data_version(document.root());
  if (in.failed()) {
    return in.error();
  }
  return v;
}

std::string encode(const TopicTable& t, bool pretty) {
  std::string out;
  JsonWriter w(out, fastjson_style(pretty));
  detail::write(w, t);
  return out;
}

Result<TopicTable> decode_topic_table(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "topic table"));
  BodyReader in("topic table");
  TopicTable t = in.topic_table(document.root());
  if (in.failed()) {
    return in.error();
  }
  return t;
}

std::string encode(const TopicConfig& c) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  detail::write(w, c);
  return out;
}

Result<TopicConfig> decode_topic_config(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "topic"));
  BodyReader in("topic");
  TopicConfig c = in.topic_config(document.root(), {});
  if (in.failed()) {
    return in.error();
  }
  return c;
}

std::string encode(const SubscriptionGroupTable& t, bool pretty) {
  std::string out;
  JsonWriter w(out, fastjson_style(pretty));
  MemberWriter table(w, t.extra);
  detail::write(table.key("dataVersion"), t.version);
  table.key("subscriptionGroupTable").begin_object();
  for (const auto& [name, group] : t.groups) {
    write_group(w.key(name), group);
  }
  w.end_object();
  table.end();
  return out;
}

Result<SubscriptionGroupTable> decode_subscription_group_table(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "group table"));
  BodyReader in("group table");
  const JsonNode root = document.root();
  SubscriptionGroupTable t;
  t.version = in.data_version(in.object(root, "dataVersion"));
  const JsonNode table = in.object(root, "subscriptionGroupTable");
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto [key, node] = table.member(i);
    if (!node.is_object()) {
      in.fail("subscriptionGroupTable", "has an entry that is no object");
      break;
    }
    t.groups.insert_or_assign(std::string(key), read_group(in, node, key));
  }
  BodyReader::extra(root, {"dataVersion", "subscriptionGroupTable"}, t.extra);
  if (in.failed()) {
    return in.error();
  }
  return t;
}

std::string encode(const SubscriptionGroupConfig& g) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  write_group(w, g);
  return out;
}

Result<SubscriptionGroupConfig> decode_subscription_group(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "group"));
  BodyReader in("group");
  SubscriptionGroupConfig g = read_group(in, document.root(), {});
  if (in.failed()) {
    return in.error();
  }
  return g;
}

std::string encode(const ConsumerOffsetTable& t, bool pretty) {
  std::string out;
  JsonWriter w(out, fastjson_style(pretty));
  MemberWriter table(w, t.extra);
  table.key("offsetTable").begin_object();
  for (const auto& [name, queues] : t.offsets) {
    write_int_map(w.key(name), queues);
  }
  w.end_object();
  table.end();
  return out;
}

Result<ConsumerOffsetTable> decode_consumer_offset_table(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "consumer offsets"));
  BodyReader in("consumer offsets");
  ConsumerOffsetTable t;
  const JsonNode table = in.object(document.root(), "offsetTable");
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto [key, node] = table.member(i);
    if (!node.is_object()) {
      in.fail("offsetTable", "has an entry that is no object");
      break;
    }
    auto& queues = t.offsets[std::string(key)];
    queues.clear();
    read_int_map(in, node, "offsetTable", queues);
  }
  BodyReader::extra(document.root(), {"offsetTable"}, t.extra);
  if (in.failed()) {
    return in.error();
  }
  return t;
}

std::string encode(const DelayOffsetTable& t, bool pretty) {
  std::string out;
  JsonWriter w(out, fastjson_style(pretty));
  MemberWriter table(w, t.extra);
  write_int_map(table.key("offsetTable"), t.offsets);
  table.end();
  return out;
}

Result<DelayOffsetTable> decode_delay_offset_table(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "delay offsets"));
  BodyReader in("delay offsets");
  DelayOffsetTable t;
  read_int_map(in, in.object(document.root(), "offsetTable"), "offsetTable", t.offsets);
  BodyReader::extra(document.root(), {"offsetTable"}, t.extra);
  if (in.failed()) {
    return in.error();
  }
  return t;
}

std::string encode_correction_offsets(const std::map<std::int32_t, std::int64_t>& offsets) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  write_int_map(w.begin_object().key("correctionOffsets"), offsets);
  w.end_object();
  return out;
}

Result<std::map<std::int32_t, std::int64_t>> decode_correction_offsets(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "correction offsets"));
  BodyReader in("correction offsets");
  std::map<std::int32_t, std::int64_t> offsets;
  read_int_map(in, in.object(document.root(), "correctionOffsets"), "correctionOffsets", offsets);
  if (in.failed()) {
    return in.error();
  }
  return offsets;
}

}  // namespace tenon::proto
