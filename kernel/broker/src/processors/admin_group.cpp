// Administration of consumer groups: 200, 201, 207, 225, 343, 345, 352 (spec: broker §15.3,
// remoting §7.2, §7.5).
#include "processors/handlers.h"
#include "remarks.h"

#include "tenon/base/endian.h"
#include "tenon/proto/json.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

Reply update_group(const Services& s, const Request& request) {
  auto group = proto::decode_subscription_group(as_text(request.command.body));
  if (group.has_error()) {
    return system_error(group.error());
  }
  if (group.value().name.empty()) {
    return Reply::error(Code::kSystemError, "the group has no name");
  }
  if (auto written = s.groups.update(std::move(group).value()); written.has_error()) {
    return system_error(written.error());
  }
  return {};
}

Reply delete_group(const Services& s, const Request& request) {
  const auto name = need_text(request.command, "groupName");
  if (name.has_error()) {
    return system_error(name.error());
  }
  if (auto removed = s.groups.remove(name.value()); removed.has_error()) {
    return system_error(removed.error());
  }
  // 4.9 and 5.x call it differently.
  if (request.command.field_bool("removeOffset").value_or(false) ||
      request.command.field_bool("cleanOffset").value_or(false)) {
    s.offsets.remove_group(name.value());
  }
  return {};
}

Reply get_group(const Services& s, const Request& request) {
  const auto name = need_text(request.command, "group");
  if (name.has_error()) {
    return system_error(name.error());
  }
  const GroupPtr group = s.groups.find_or_create(name.value());
  if (group == nullptr) {
    return Reply::error(Code::kSubscriptionGroupNotExist,
                        fmt::format(remark::kGroupNotExist, name.value()));
  }
  return Reply::with_body(proto::encode(*group));
}

Reply update_group_list(const Services& s, const Request& request) {
  auto document = proto::JsonDocument::parse(as_text(request.command.body));
  if (document.has_error()) {
    return system_error(document.error());
  }
  const proto::JsonNode list = document.value().root()["groupConfigList"];
  std::vector<proto::SubscriptionGroupConfig> groups;
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto group = proto::decode_subscription_group(list.at(i).dump());
    if (group.has_error()) {
      return system_error(group.error());
    }
    if (group.value().name.empty()) {
      return Reply::error(Code::kSystemError, "the group has no name");
    }
    groups.push_back(std::move(group).value());
  }
  for (proto::SubscriptionGroupConfig& group : groups) {
    if (auto written = s.groups.update(std::move(group)); written.has_error()) {
      return system_error(written.error());
    }
  }
  return {};
}

/// Topics of a group: those it subscribes and those it has offsets for.
Reply topics_of_group(const Services& s, const Request& request) {
  const auto group = need_text(request.command, "group");
  if (group.has_error()) {
    return system_error(group.error());
  }
  std::set<std::string> topics = s.offsets.topics_of(group.value());
  if (const auto info = s.consumers.info(group.value())) {
    for (const proto::SubscriptionData& data : info->data.subscriptions) {
      topics.insert(data.topic);
    }
  }
  proto::TopicList list;
  list.topics.assign(topics.begin(), topics.end());
  list.broker_addr = s.advertised.address;
  return Reply::with_body(proto::encode(list));
}

Reply subscription_of_group(const Services& s, const Request& request) {
  const auto group = need_text(request.command, "group");
  const auto topic = need_text(request.command, "topic");
  if (group.has_error() || topic.has_error()) {
    return system_error(group.has_error() ? group.error() : topic.error());
  }
  std::string body;
  proto::JsonWriter w(body);
  w.begin_object().member("group", group.value());
  if (const auto subscription = s.consumers.pull_view(group.value(), topic.value()).subscription) {
    w.key("subscriptionData").raw(proto::encode(subscription->data));
  }
  w.member("topic", topic.value()).end_object();
  return Reply::with_body(std::move(body));
}

}  // namespace

void add_group_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kUpdateAndCreateSubscriptiongroup] = {
      Run::kAdmin, [&s](const Request& r) { return update_group(s, r); }};
  table[C::kGetAllSubscriptiongroupConfig] = {
      Run::kAdmin,
      [&s](const Request&) { return Reply::with_body(proto::encode(s.groups.table())); }};
  table[C::kDeleteSubscriptiongroup] = {Run::kAdmin,
                                        [&s](const Request& r) { return delete_group(s, r); }};
  table[C::kUpdateAndCreateSubscriptiongroupList] = {
      Run::kAdmin, [&s](const Request& r) { return update_group_list(s, r); }};
  table[C::kQueryTopicsByConsumer] = {Run::kAdmin,
                                      [&s](const Request& r) { return topics_of_group(s, r); }};
  table[C::kQuerySubscriptionByConsumer] = {
      Run::kAdmin, [&s](const Request& r) { return subscription_of_group(s, r); }};
  table[C::kGetSubscriptiongroupConfig] = {Run::kAdmin,
                                           [&s](const Request& r) { return get_group(s, r); }};
}

}  // namespace tenon::broker
