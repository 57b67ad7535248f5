#include "body_codec.h"

#include "tenon/proto/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tenon::proto::detail {
namespace {

constexpr std::array<std::string_view, 3> kConsumeTypeNames{
    "CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"};
constexpr std::array<std::string_view, 2> kMessageModelNames{"BROADCASTING", "CLUSTERING"};
constexpr std::array<std::string_view, 6> kConsumeFromWhereNames{
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP"};

bool absent(JsonNode node) noexcept {
  return !node.present() || node.is_null();
}

}  // namespace

const std::span<const std::string_view> kConsumeTypes(kConsumeTypeNames);
const std::span<const std::string_view> kMessageModels(kMessageModelNames);
const std::span<const std::string_view> kConsumeFromWheres(kConsumeFromWhereNames);

Error BodyReader::error() const {
  return Error{Errc::kInvalid, fmt::format("{}: {}", body_, reason_)};
}

void BodyReader::fail(std::string_view member, std::string_view why) {
  if (!failed_) {
    failed_ = true;
    reason_ = fmt::format("{} {}", member, why);
  }
}

void BodyReader::get(JsonNode object, std::string_view name, std::string& out) {
  if (auto text = object[name].text()) {
    out = std::move(*text);
  }
}

void BodyReader::get(JsonNode object, std::string_view name, std::optional<std::string>& out) {
  out = object[name].text();
}

void BodyReader::get(JsonNode object, std::string_view name, bool& out) {
  const JsonNode node = object[name];
  if (absent(node)) {
    return;
  }
  if (const auto value = node.boolean()) {
    out = *value;
  } else {
    fail(name, "is no boolean");
  }
}

void BodyReader::get(JsonNode object, std::string_view name, double& out) {
  const JsonNode node = object[name];
  if (absent(node)) {
    return;
  }
  if (const auto value = node.number()) {
    out = *value;
  } else {
    fail(name, "is no number");
  }
}

void BodyReader::get(JsonNode object, std::string_view name, std::int32_t& out) {
  const JsonNode node = object[name];
  if (!absent(node)) {
    int32(node, name, out);
  }
}

void BodyReader::get(JsonNode object, std::string_view name, std::int64_t& out) {
  const JsonNode node = object[name];
  if (!absent(node)) {
    int64(node, name, out);
  }
}

bool BodyReader::int64(JsonNode node, std::string_view name, std::int64_t& out) {
  const auto value = node.integer();
  if (!value) {
    fail(name, "is no integer");
    return false;
  }
  out = *value;
  return true;
}

bool BodyReader::int32(JsonNode node, std::string_view name, std::int32_t& out) {
  std::int64_t wide = 0;
  if (!int64(node, name, wide)) {
    return false;
  }
  if (wide < std::numeric_limits<std::int32_t>::min() ||
      wide > std::numeric_limits<std::int32_t>::max()) {
    fail(name, "is out of range");
    return false;
  }
  out = static_cast<std::int32_t>(wide);
  return true;
}

bool BodyReader::int_key(std::string_view key, std::string_view name, std::int64_t& out) {
  const auto value = parse_long(key);
  if (!value) {
    fail(name, "has a key that is no integer");
    return false;
  }
  out = *value;
  return true;
}

int BodyReader::enum_index(JsonNode node, std::span<const std::string_view> names) {
  if (node.is_string()) {
    const auto found = std::find(names.begin(), names.end(), node.string());
    if (found != names.end()) {
      return static_cast<int>(found - names.begin());
    }
  }
  // Trap: the C++ client sends enums as ordinals (spec remoting §2).
  const auto ordinal = node.integer();
  return ordinal && *ordinal >= 0 && *ordinal < static_cast<std::int64_t>(names.size())
             ? static_cast<int>(*ordinal)
             : -1;
}

JsonNode BodyReader::object(JsonNode parent, std::string_view name) {
  const JsonNode node = parent[name];
  if (absent(node)) {
    return {};
  }
  if (!node.is_object()) {
    fail(name, "is no object");
    return {};
  }
  return node;
}

JsonNode BodyReader::array(JsonNode parent, std::string_view name) {
  const JsonNode node = parent[name];
  if (absent(node)) {
    return {};
  }
  if (!node.is_array()) {
    fail(name, "is no array");
    return {};
  }
  return node;
}

void BodyReader::get_texts(JsonNode object, std::string_view name, std::vector<std::string>& out) {
  const JsonNode list = array(object, name);
  out.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (auto text = list.at(i).text()) {
      out.push_back(std::move(*text));
    }
  }
}

MessageQueue BodyReader::queue(JsonNode object) {
  MessageQueue q;
  if (!object.is_object()) {
    fail("queue", "is no object");
    return q;
  }
  get(object, "topic", q.topic);
  get(object, "brokerName", q.broker_name);
  get(object, "queueId", q.queue_id);
  return q;
}

MessageQueue BodyReader::queue_key(std::string_view key) {
  const auto document = JsonDocument::parse(key);
  if (!document.has_value()) {
    fail("queue", "key is no object");
    return {};
  }
  return queue(document.value().root());
}

std::map<MessageQueue, std::int64_t> BodyReader::queue_offsets(JsonNode table) {
  std::map<MessageQueue, std::int64_t> offsets;
  for (std::size_t i = 0; i < table.size() && !failed_; ++i) {
    const auto [key, node] = table.member(i);
    std::int64_t offset = 0;
    if (int64(node, "offset", offset)) {
      offsets.insert_or_assign(queue_key(key), offset);
    }
  }
  return offsets;
}

SubscriptionData BodyReader::subscription(JsonNode object) {
  SubscriptionData s;
  if (!object.is_object()) {
    fail("subscription", "is no object");
    return s;
  }
  get(object, "topic", s.topic);
  get(object, "subString", s.sub_string);
  get(object, "subVersion", s.sub_version);
  get(object, "classFilterMode", s.class_filter_mode);
  get(object, "expressionType", s.expression_type);
  if (s.expression_type.empty()) {
    s.expression_type = "TAG";
  }
  std::vector<std::string> tags;
  get_texts(object, "tagsSet", tags);
  s.tags.insert(tags.begin(), tags.end());
  const JsonNode codes = array(object, "codeSet");
  for (std::size_t i = 0; i < codes.size(); ++i) {
    std::int32_t code = 0;
    if (int32(codes.at(i), "codeSet", code)) {
      s.codes.insert(code);
    }
  }
  return s;
}

DataVersion BodyReader::data_version(JsonNode object) {
  DataVersion v;
  get(object, "timestamp", v.timestamp);
  get(object, "counter", v.counter);
  get(object, "stateVersion", v.state_version);
  return v;
}

TopicConfig BodyReader::topic_config(JsonNode node, std::string_view key) {
  TopicConfig c;
  c.name = key;
  get(node, "topicName", c.name);
  get(node, "readQueueNums", c.read_queue_count);
  get(node, "writeQueueNums", c.write_queue_count);
  get(node, "perm", c.perm);
  get(node, "topicFilterType", c.filter_type);
  get(node, "topicSysFlag", c.sys_flag);
  get(node, "order", c.order);
  extra(node,
        {"topicName",
         "readQueueNums",
         "writeQueueNums",
         "perm",
         "topicFilterType",
         "topicSysFlag",
         "order"},
        c.extra);
  return c;
}

TopicTable BodyReader::topic_table(JsonNode root) {
  TopicTable t;
  t.version = data_version(object(root, "dataVersion"));
  const JsonNode table = object(root, "topicConfigTable");
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto [key, node] = table.member(i);
    if (!node.is_object()) {
      fail("topicConfigTable", "has an entry that is no object");
      break;
    }
    TopicConfig c = topic_config(node, key);
    t.topics.insert_or_assign(std::string(key), std::move(c));
  }
  extra(root, {"dataVersion", "topicConfigTable"}, t.extra);
  return t;
}

void BodyReader::extra(JsonNode object, std::initializer_list<std::string_view> known, Extra& out) {
  for (std::size_t i = 0; i < object.size(); ++i) {
    const auto [key, node] = object.member(i);
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      out.insert_or_assign(std::string(key), node.dump());
    }
  }
}

Result<JsonDocument> parse_object(std::string_view json, std::string_view what) {
  auto document = JsonDocument::parse(json);
  if (!document.has_value()) {
    return Error{Errc::kInvalid, fmt::format("{}: {}", what, document.error().detail)};
  }
  if (!document.value().root().is_object()) {
    return Error{Errc::kInvalid, fmt::format("{}: no object", what)};
  }
  return document;
}

void write(JsonWriter& w, const DataVersion& v) {
  w.begin_object().member("counter", v.counter);
  if (v.state_version != 0) {
    w.member("stateVersion", v.state_version);
  }
  w.member("timestamp", v.timestamp).end_object();
}

void write(JsonWriter& w, const TopicConfig& c) {
  MemberWriter m(w, c.extra);
  m.member("order", c.order);
  m.member("perm", c.perm);
  m.member("readQueueNums", c.read_queue_count);
  m.member("topicFilterType", c.filter_type);
  m.member("topicName", c.name);
  m.member("topicSysFlag", c.sys_flag);
  m.member("writeQueueNums", c.write_queue_count);
  m.end();
}

void write(JsonWriter& w, const TopicTable& t) {
  MemberWriter table(w, t.extra);
  write(table.key("dataVersion"), t.version);
  table.key("topicConfigTable").begin_object();
  for (const auto& [name, c] : t.topics) {
    write(w.key(name), c);
  }
  w.end_object();
  table.end();
}

void write(JsonWriter& w, const SubscriptionData& s) {
  w.begin_object().member("classFilterMode", s.class_filter_mode);
  w.key("codeSet").begin_array(true);
  for (const std::int32_t code : s.codes) {
    w.value(code);
  }
  w.end_array();
  w.member("expressionType", s.expression_type).member("subString", s.sub_string);
  w.member("subVersion", s.sub_version);
  w.key("tagsSet").begin_array(true);
  for (const std::string& tag : s.tags) {
    w.value(tag);
  }
  w.end_array().member("topic", s.topic).end_object();
}

void write(JsonWriter& w, const MessageQueue& q) {
  w.begin_object().member("brokerName", q.broker_name).member("queueId", q.queue_id);
  w.member("topic", q.topic).end_object();
}

void write_key(JsonWriter& w, const MessageQueue& q) {
  w.begin_object_key().member("brokerName", q.broker_name).member("queueId", q.queue_id);
  w.member("topic", q.topic).end_object_key();
}

void write_queue_offsets(JsonWriter& w, const std::map<MessageQueue, std::int64_t>& offsets) {
  w.begin_object();
  for (const auto& [q, offset] : offsets) {
    write_key(w, q);
    w.value(offset);
  }
  w.end_object();
}

void write_texts(JsonWriter& w, std::string_view name, std::span<const std::string> texts) {
  w.key(name).begin_array();
  for (const std::string& text : texts) {
    w.value(text);
  }
  w.end_array();
}

}  // namespace tenon::proto::detail
