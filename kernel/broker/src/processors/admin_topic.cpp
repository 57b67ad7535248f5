// Administration of topics: 17, 18, 21, 215, 305, 351 (spec: broker §15.3, remoting §7.1).
#include "processors/handlers.h"
#include "remarks.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/proto/json.h"
#include "tenon/proto/message.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

/// @return an answer if the name may not be created or deleted
std::optional<Reply> refuse_name(const Services& s, std::string_view name) {
  if (auto legal = proto::check_topic_name(name); legal.has_error()) {
    return Reply::error(Code::kSystemError, legal.error().detail);
  }
  if (s.topics.is_system(name)) {
    return Reply::error(Code::kSystemError, fmt::format(remark::kSystemTopicConflict, name));
  }
  return std::nullopt;
}

Result<proto::TopicConfig> parse_topic(const proto::CommandView& c) {
  proto::TopicConfig config;
  TENON_TRY(const auto name, need_text(c, "topic"));
  TENON_TRY(config.read_queue_count, need_int(c, "readQueueNums"));
  TENON_TRY(config.write_queue_count, need_int(c, "writeQueueNums"));
  TENON_TRY(config.perm, need_int(c, "perm"));
  TENON_TRY(const auto filter, need_text(c, "topicFilterType"));
  config.name = name;
  config.filter_type = filter;
  config.sys_flag = c.field_int("topicSysFlag").value_or(0);
  if (filter != "SINGLE_TAG" && filter != "MULTI_TAG") {
    return Error{
        Errc::kInvalid,
        fmt::format("No enum constant org.apache.rocketmq.common.TopicFilterType.{}", filter)};
  }
  // Trap: `order` of the request is not stored (remoting §7.1).
  return config;
}

Reply update_topic(const Services& s, const Request& request) {
  if (auto refused = refuse_name(s, request.command.field("topic").value_or(""))) {
    return std::move(*refused);
  }
  auto config = parse_topic(request.command);
  if (config.has_error()) {
    return system_error(config.error());
  }
  if (auto written = s.topics.update(std::move(config).value()); written.has_error()) {
    return system_error(written.error());
  }
  Reply reply;
  reply.remark = remark::kNotSet;
  return reply;
}

proto::TopicConfig topic_of(const proto::JsonNode& node) {
  proto::TopicConfig c;
  c.name = node["topicName"].string();
  c.read_queue_count =
      static_cast<std::int32_t>(node["readQueueNums"].integer().value_or(c.read_queue_count));
  c.write_queue_count =
      static_cast<std::int32_t>(node["writeQueueNums"].integer().value_or(c.write_queue_count));
  c.perm = static_cast<std::int32_t>(node["perm"].integer().value_or(c.perm));
  c.sys_flag = static_cast<std::int32_t>(node["topicSysFlag"].integer().value_or(0));
  if (!node["topicFilterType"].string().empty()) {
    c.filter_type = node["topicFilterType"].string();
  }
  return c;
}

Reply update_topic_list(const Services& s, const Request& request) {
  auto document = proto::JsonDocument::parse(as_text(request.command.body));
  if (document.has_error()) {
    return system_error(document.error());
  }
  const proto::JsonNode list = document.value().root()["topicConfigList"];
  std::vector<proto::TopicConfig> topics;
  for (std::size_t i = 0; i < list.size(); ++i) {
    topics.push_back(topic_of(list.at(i)));
    if (auto refused = refuse_name(s, topics.back().name)) {
      return std::move(*refused);
    }
  }
  for (proto::TopicConfig& config : topics) {
    if (auto written = s.topics.update(std::move(config)); written.has_error()) {
      return system_error(written.error());
    }
  }
  return {};
}

Reply delete_topic(const Services& s, const Request& request) {
  const std::string_view name = request.command.field("topic").value_or("");
  if (auto refused = refuse_name(s, name)) {
    return std::move(*refused);
  }
  auto removed = s.topics.remove(name);
  if (removed.has_error()) {
    return system_error(removed.error());
  }
  const auto& storage = s.log.storage();
  if (removed.value() && storage->drop_topics != nullptr) {
    const proto::TopicTable table = s.topics.table();
    std::vector<tenon_str> keep;
    for (const auto& [topic, config] : table.topics) {
      keep.push_back(host::abi_str(topic));
    }
    std::uint32_t dropped = 0;
    host::ErrorBuffer error;
    const tenon_status status =
        storage->drop_topics(storage.self, keep.data(), keep.size(), &dropped, error.raw());
    if (status < 0) {
      log_warn("broker",
               "queues of a deleted topic not dropped topic={} reason=\"{}\"",
               name,
               error.make_error(status).detail);
    }
  }
  return {};
}

Reply get_topic(const Services& s, const Request& request) {
  const auto name = need_text(request.command, "topic");
  if (name.has_error()) {
    return system_error(name.error());
  }
  const TopicPtr topic = s.topics.find(name.value());
  if (topic == nullptr) {
    return Reply::error(Code::kTopicNotExist, fmt::format(remark::kTopicUnknown, name.value()));
  }
  const proto::TopicConfig& c = topic->config();
  std::string body;
  proto::JsonWriter w(body);
  w.begin_object()
      .member("order", c.order)
      .member("perm", c.perm)
      .member("readQueueNums", c.read_queue_count)
      .member("topicFilterType", c.filter_type)
      .member("topicName", c.name)
      .member("topicSysFlag", c.sys_flag)
      .member("writeQueueNums", c.write_queue_count)
      .end_object();
  return Reply::with_body(std::move(body));
}

Reply system_topics(const Services& s) {
  proto::TopicList list;
  for (const std::string& name : s.topics.system_topics()) {
    list.topics.push_back(name);
  }
  return Reply::with_body(proto::encode(list));
}

}  // namespace

void add_topic_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kUpdateAndCreateTopic] = {Run::kAdmin,
                                     [&s](const Request& r) { return update_topic(s, r); }};
  table[C::kUpdateAndCreateTopicList] = {
      Run::kAdmin, [&s](const Request& r) { return update_topic_list(s, r); }};
  table[C::kGetAllTopicConfig] = {Run::kAdmin, [&s](const Request&) {
                                    Reply reply = Reply::with_body(proto::encode(s.topics.table()));
                                    reply.empty_fields = true;
                                    return reply;
                                  }};
  table[C::kDeleteTopicInBroker] = {Run::kAdmin,
                                    [&s](const Request& r) { return delete_topic(s, r); }};
  table[C::kGetSystemTopicListFromBroker] = {Run::kAdmin,
                                             [&s](const Request&) { return system_topics(s); }};
  table[C::kGetTopicConfig] = {Run::kAdmin, [&s](const Request& r) { return get_topic(s, r); }};
}

}  // namespace tenon::broker
