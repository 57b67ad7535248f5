// Bodies between clients and brokers: heartbeats, groups, queue locks, offset resets.
#include "body_codec.h"

#include "tenon/proto/bodies_admin.h"
#include "tenon/proto/properties.h"

namespace tenon::proto {

using detail::BodyReader;
using detail::enum_name;
using detail::fastjson_style;
using detail::parse_object;

namespace {

/// String.trim: blanks and everything below.
std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && static_cast<unsigned char>(text.front()) <= ' ') {
    text.remove_prefix(1);
  }
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') {
    text.remove_suffix(1);
  }
  return text;
}

/// Splits at "||" as String.split does: empty parts at the end do not count.
std::vector<std::string_view> split_tags(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find("||");
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      break;
    }
    text.remove_prefix(at + 2);
  }
  while (!parts.empty() && parts.back().empty()) {
    parts.pop_back();
  }
  return parts;
}

ConsumerData read_consumer(BodyReader& in, JsonNode node) {
  ConsumerData c;
  if (!node.is_object()) {
    in.fail("consumerDataSet", "has an entry that is no object");
    return c;
  }
  in.get(node, "groupName", c.group);
  in.get_enum(node, "consumeType", detail::kConsumeTypes, c.consume_type);
  in.get_enum(node, "messageModel", detail::kMessageModels, c.message_model);
  in.get_enum(node, "consumeFromWhere", detail::kConsumeFromWheres, c.consume_from_where);
  in.get(node, "unitMode", c.unit_mode);
  const JsonNode subscriptions = in.array(node, "subscriptionDataSet");
  for (std::size_t i = 0; i < subscriptions.size(); ++i) {
    c.subscriptions.push_back(in.subscription(subscriptions.at(i)));
  }
  return c;
}

void write_queues(JsonWriter& w, std::string_view name, const std::vector<MessageQueue>& queues) {
  w.key(name).begin_array();
  for (const MessageQueue& q : queues) {
    detail::write(w, q);
  }
  w.end_array();
}

std::vector<MessageQueue> read_queues(BodyReader& in, JsonNode root, std::string_view name) {
  std::vector<MessageQueue> queues;
  const JsonNode list = in.array(root, name);
  for (std::size_t i = 0; i < list.size(); ++i) {
    queues.push_back(in.queue(list.at(i)));
  }
  return queues;
}

}  // namespace

Result<SubscriptionData> build_subscription(std::string_view topic,
                                            std::string_view expression,
                                            std::string_view type) {
  SubscriptionData s;
  s.topic = topic;
  s.sub_string = expression;
  if (!type.empty() && type != "TAG") {
    if (expression.empty()) {
      return Error{Errc::kInvalid, "Expression can't be null! " + std::string(type)};
    }
    s.expression_type = type;
    return s;
  }
  if (expression.empty() || expression == "*") {
    s.sub_string = "*";
    return s;
  }
  const auto parts = split_tags(expression);
  if (parts.empty()) {
    return Error{Errc::kInvalid, "subString split error"};
  }
  for (const std::string_view part : parts) {
    const std::string_view tag = trim(part);
    if (!tag.empty()) {
      s.tags.emplace(tag);
      s.codes.insert(java_hash(tag));
    }
  }
  return s;
}

std::string encode(const HeartbeatData& h) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object().member("clientID", h.client_id).key("consumerDataSet").begin_array();
  for (const ConsumerData& c : h.consumers) {
    w.begin_object();
    w.member("consumeFromWhere", enum_name(detail::kConsumeFromWheres, c.consume_from_where));
    w.member("consumeType", enum_name(detail::kConsumeTypes, c.consume_type));
    w.member("groupName", c.group);
    w.member("messageModel", enum_name(detail::kMessageModels, c.message_model));
    w.key("subscriptionDataSet").begin_array();
    for (const SubscriptionData& s : c.subscriptions) {
      detail::write(w, s);
    }
    w.end_array().member("unitMode", c.unit_mode).end_object();
  }
  w.end_array().key("producerDataSet").begin_array();
  for (const std::string& group : h.producer_groups) {
    w.begin_object().member("groupName", group).end_object();
  }
  w.end_array().end_object();
  return out;
}

std::string encode(const SubscriptionData& s) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  detail::write(w, s);
  return out;
}

Result<HeartbeatData> decode_heartbeat(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "heartbeat"));
  BodyReader in("heartbeat");
  const JsonNode root = document.root();
  HeartbeatData h;
  in.get(root, "clientID", h.client_id);
  in.get(root, "withoutSub", h.without_sub);
  const JsonNode producers = in.array(root, "producerDataSet");
  for (std::size_t i = 0; i < producers.size(); ++i) {
    in.get(producers.at(i), "groupName", h.producer_groups.emplace_back());
  }
  const JsonNode consumers = in.array(root, "consumerDataSet");
  for (std::size_t i = 0; i < consumers.size(); ++i) {
    h.consumers.push_back(read_consumer(in, consumers.at(i)));
  }
  if (in.failed()) {
    return in.error();
  }
  return h;
}

std::string encode_consumer_ids(const std::vector<std::string>& ids) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object();
  detail::write_texts(w, "consumerIdList", ids);
  w.end_object();
  return out;
}

Result<std::vector<std::string>> decode_consumer_ids(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "consumer ids"));
  BodyReader in("consumer ids");
  std::vector<std::string> ids;
  in.get_texts(document.root(), "consumerIdList", ids);
  if (in.failed()) {
    return in.error();
  }
  return ids;
}

std::string encode(const LockRequest& r) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object().member("clientId", r.client_id).member("consumerGroup", r.group);
  write_queues(w, "mqSet", r.queues);
  w.end_object();
  return out;
}

Result<LockRequest> decode_lock_request(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "lock request"));
  BodyReader in("lock request");
  LockRequest r;
  in.get(document.root(), "clientId", r.client_id);
  in.get(document.root(), "consumerGroup", r.group);
  r.queues = read_queues(in, document.root(), "mqSet");
  if (in.failed()) {
    return in.error();
  }
  return r;
}

std::string encode_lock_answer(const std::vector<MessageQueue>& locked) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object();
  write_queues(w, "lockOKMQSet", locked);
  w.end_object();
  return out;
}

Result<std::vector<MessageQueue>> decode_lock_answer(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "lock answer"));
  BodyReader in("lock answer");
  auto queues = read_queues(in, document.root(), "lockOKMQSet");
  if (in.failed()) {
    return in.error();
  }
  return queues;
}

Result<std::map<MessageQueue, std::int64_t>> decode_reset_offset(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "reset offsets"));
  BodyReader in("reset offsets");
  const JsonNode table = document.root()["offsetTable"];
  std::map<MessageQueue, std::int64_t> offsets;
  if (table.is_array()) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      std::int64_t offset = 0;
      const MessageQueue q = in.queue(table.at(i));
      in.get(table.at(i), "offset", offset);
      offsets.insert_or_assign(q, offset);
    }
  } else {
    offsets = in.queue_offsets(in.object(document.root(), "offsetTable"));
  }
  if (in.failed()) {
    return in.error();
  }
  return offsets;
}

std::string encode_reset_offset(const std::map<MessageQueue, std::int64_t>& t, bool as_list) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object().key("offsetTable");
  if (as_list) {
    w.begin_array();
    for (const auto& [q, offset] : t) {
      w.begin_object().member("brokerName", q.broker_name).member("offset", offset);
      w.member("queueId", q.queue_id).member("topic", q.topic).end_object();
    }
    w.end_array();
  } else {
    detail::write_queue_offsets(w, t);
  }
  w.end_object();
  return out;
}

std::string encode_local_offsets(const QueueOffsets& offsets, bool pretty) {
  std::string out;
  JsonWriter w(out, fastjson_style(pretty));
  detail::write_queue_offsets(w.begin_object().key("offsetTable"), offsets);
  w.end_object();
  return out;
}

Result<QueueOffsets> decode_local_offsets(std::string_view json) {
  return decode_reset_offset(json);
}

std::string encode(const CheckClientBody& b) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object().member("clientId", b.client_id).member("group", b.group);
  if (b.subscription) {
    detail::write(w.key("subscriptionData"), *b.subscription);
  }
  w.end_object();
  return out;
}

Result<CheckClientBody> decode_check_client(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "client check"));
  BodyReader in("client check");
  CheckClientBody b;
  in.get(document.root(), "clientId", b.client_id);
  in.get(document.root(), "group", b.group);
  if (const JsonNode node = in.object(document.root(), "subscriptionData")) {
    b.subscription = in.subscription(node);
  }
  if (in.failed()) {
    return in.error();
  }
  return b;
}

}  // namespace tenon::proto
