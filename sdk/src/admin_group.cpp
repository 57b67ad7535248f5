// Administration of consumer groups (spec: remoting §7.2, §7.4, §7.5; broker §11.1).
#include "admin_calls.h"
#include "client_core.h"
#include "errors.h"

#include "tenon/proto/bodies_admin.h"
#include "tenon/sdk/admin.h"

#include <algorithm>
#include <set>

namespace tenon::sdk {
namespace {

using detail::ClientCore;

constexpr std::chrono::milliseconds kAnswerTimeout{5'000};
constexpr std::chrono::milliseconds kRelayTimeout{12'000};  ///< the broker waits 10 s for a member

GroupSettings settings_of(const proto::SubscriptionGroupConfig& g) {
  GroupSettings s;
  s.name = g.name;
  s.consume = g.consume_enable;
  s.broadcast = g.consume_broadcast_enable;
  s.retry_queues = g.retry_queue_count;
  s.retry_max = g.retry_max_times;
  s.notify_members = g.notify_consumer_ids_changed_enable;
  return s;
}

SubscriptionInfo subscription_of(const proto::SubscriptionData& s) {
  return {s.topic, s.sub_string, s.expression_type.empty() ? "TAG" : s.expression_type};
}

/// By topic, without the retry topic, which only some kinds of consumers subscribe.
std::vector<SubscriptionInfo> own_subscriptions(const std::vector<proto::SubscriptionData>& list) {
  std::vector<SubscriptionInfo> out;
  for (const proto::SubscriptionData& s : list) {
    if (!s.topic.starts_with("%RETRY%")) {
      out.push_back(subscription_of(s));
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.topic < b.topic; });
  return out;
}

/// A broker that does not tell what each member subscribes passes the question on.
void ask_member(ClientCore& client,
                const std::string& address,
                std::string_view group,
                MemberInfo& member) {
  proto::Command c = make_request(proto::RequestCode::kGetConsumerRunningInfo);
  c.set("consumerGroup", group).set("clientId", member.client_id).set("jstackEnable", "false");
  auto answer = client.calls().ask_ok(address, std::move(c), kRelayTimeout);
  if (!answer) {
    return;
  }
  if (auto info = proto::decode_consumer_running_info(answer->body); info.has_value()) {
    member.subscriptions = own_subscriptions(info.value().subscriptions);
    member.known = true;
  }
}

std::string_view name_of(proto::MessageModel model) {
  return model == proto::MessageModel::kBroadcasting ? "BROADCASTING" : "CLUSTERING";
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

bool differ(const std::vector<MemberInfo>& members) {
  const MemberInfo* first = nullptr;
  for (const MemberInfo& m : members) {
    if (!m.known) {
      continue;
    }
    if (first != nullptr && first->subscriptions != m.subscriptions) {
      return true;
    }
    first = &m;
  }
  return false;
}

GroupInfo group_of(ClientCore& client,
                   const std::string& address,
                   std::string_view group,
                   const proto::ConsumerConnection& c) {
  GroupInfo out;
  out.online = true;
  out.mode = name_of(c.message_model);
  out.kind = name_of(c.consume_type);
  for (const auto& [topic, subscription] : c.subscriptions) {
    out.subscriptions.push_back(subscription_of(subscription));
  }
  for (const proto::ClientConnection& connection : c.connections) {
    MemberInfo& m = out.members.emplace_back();
    m.client_id = connection.client_id;
    m.address = connection.client_addr;
    m.language = proto::to_string(connection.language);
    m.version = connection.version;
    if (connection.subscriptions) {
      m.subscriptions = own_subscriptions(*connection.subscriptions);
      m.known = true;
    } else {
      ask_member(client, address, group, m);
    }
  }
  std::sort(out.members.begin(), out.members.end(), [](const auto& a, const auto& b) {
    return a.client_id < b.client_id;
  });
  out.mismatch = c.mismatch.value_or(differ(out.members));
  return out;
}

/// With the names that the program uses.
void show(const NameSpace& names, GroupInfo& group) {
  if (names.empty()) {
    return;
  }
  const auto all = [&](std::vector<SubscriptionInfo>& list) {
    for (SubscriptionInfo& s : list) {
      s.topic = names.unwrap(s.topic);
    }
  };
  all(group.subscriptions);
  for (MemberInfo& m : group.members) {
    all(m.subscriptions);
  }
}

/// Nobody is online at this broker: search the offsets and write them.
Result<void> reset_offline(Admin& admin,
                           ClientCore& client,
                           const std::string& address,
                           std::string_view group,
                           const Queue& queue,
                           std::chrono::system_clock::time_point when,
                           std::map<Queue, std::int64_t>& out) {
  auto offset = when == std::chrono::system_clock::time_point::max() ? admin.max_offset(queue)
                                                                     : admin.offset_at(queue, when);
  if (!offset) {
    return std::move(offset).error();
  }
  proto::Command c = make_request(proto::RequestCode::kUpdateConsumerOffset);
  c.set("consumerGroup", group).set("topic", client.names().wrap(queue.topic));
  c.set("queueId", static_cast<std::int64_t>(queue.id)).set("commitOffset", *offset);
  if (auto r = client.calls().ask_ok(address, std::move(c), kAnswerTimeout); !r) {
    return std::move(r).error();
  }
  out[queue] = *offset;
  return {};
}

}  // namespace

Result<std::vector<GroupSettings>> Admin::groups(std::string_view cluster) {
  auto masters = detail::masters_of(*client_, cluster);
  if (!masters) {
    return std::move(masters).error();
  }
  std::map<std::string, GroupSettings> found;
  for (const std::string& address : *masters) {
    auto answer = client_->calls().ask_ok(
        address, make_request(proto::RequestCode::kGetAllSubscriptiongroupConfig), kAnswerTimeout);
    if (!answer) {
      return std::move(answer).error();
    }
    auto table = proto::decode_subscription_group_table(answer->body);
    if (table.has_error()) {
      return from_base(table.error(), Errc::kBadAnswer);
    }
    for (const auto& [name, group] : table.value().groups) {
      if (client_->names().holds(name)) {
        found.try_emplace(name, settings_of(group)).first->second.name =
            client_->names().unwrap(name);
      }
    }
  }
  std::vector<GroupSettings> out;
  for (auto& [name, settings] : found) {
    out.push_back(std::move(settings));
  }
  return out;
}

Result<void> Admin::set_group(std::string_view cluster, const GroupSettings& settings) {
  if (settings.name.empty()) {
    return make_error(Errc::kInvalidArgument, "the group has no name");
  }
  auto masters = detail::masters_of(*client_, cluster);
  if (!masters) {
    return std::move(masters).error();
  }
  proto::SubscriptionGroupConfig g;
  g.name = client_->names().wrap(settings.name);
  g.consume_enable = settings.consume;
  g.consume_broadcast_enable = settings.broadcast;
  g.retry_queue_count = settings.retry_queues;
  g.retry_max_times = settings.retry_max;
  g.notify_consumer_ids_changed_enable = settings.notify_members;
  proto::Command c = make_request(proto::RequestCode::kUpdateAndCreateSubscriptiongroup);
  c.body = proto::encode(g);
  for (const std::string& address : *masters) {
    if (auto r = client_->calls().ask_ok(address, c, kAnswerTimeout); !r) {
      return std::move(r).error();
    }
  }
  return {};
}

Result<void> Admin::delete_group(std::string_view cluster,
                                 std::string_view group,
                                 bool with_offsets) {
  auto masters = detail::masters_of(*client_, cluster);
  if (!masters) {
    return std::move(masters).error();
  }
  proto::Command c = make_request(proto::RequestCode::kDeleteSubscriptiongroup);
  c.set("groupName", client_->names().wrap(group));
  // 4.9 and 5.x call it differently.
  c.set("removeOffset", with_offsets ? "true" : "false");
  c.set("cleanOffset", with_offsets ? "true" : "false");
  for (const std::string& address : *masters) {
    if (auto r = client_->calls().ask_ok(address, c, kAnswerTimeout); !r) {
      return std::move(r).error();
    }
  }
  return {};
}

Result<GroupInfo> Admin::group(std::string_view name_of_group) {
  const std::string group = client_->names().wrap(name_of_group);
  auto info = detail::cluster_info(*client_);
  if (!info) {
    return std::move(info).error();
  }
  for (const auto& [name, broker] : info->brokers) {
    if (broker.addrs.empty()) {
      continue;
    }
    const std::string& address = broker.addrs.begin()->second;
    proto::Command c = make_request(proto::RequestCode::kGetConsumerConnectionList);
    c.set("consumerGroup", group).set("withSubscriptions", "true");
    auto answer = client_->calls().ask(address, std::move(c), kAnswerTimeout);
    if (!answer) {
      return std::move(answer).error();
    }
    if (answer->code == proto::ResponseCode::kConsumerNotOnline) {
      continue;
    }
    if (answer->code != proto::ResponseCode::kSuccess) {
      return from_answer(answer->code, answer->remark, name);
    }
    auto connections = proto::decode_consumer_connection(answer->body);
    if (connections.has_error()) {
      return from_base(connections.error(), Errc::kBadAnswer);
    }
    GroupInfo out = group_of(*client_, address, group, connections.value());
    show(client_->names(), out);
    return out;
  }
  return GroupInfo{};
}

Result<std::map<Queue, std::int64_t>> Admin::reset_offset(
    std::string_view group_name,
    std::string_view topic_name,
    std::chrono::system_clock::time_point when) {
  const std::string group = client_->names().wrap(group_name);
  const std::string topic = client_->names().wrap(topic_name);
  auto info = client_->routes().fetch_blocking(topic);
  if (!info) {
    return std::move(info).error();
  }
  const bool to_end = when == std::chrono::system_clock::time_point::max();
  const std::int64_t time_ms =
      to_end
          ? -1
          : std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count();
  std::map<Queue, std::int64_t> out;
  for (const proto::QueueData& data : (*info)->route.queues) {
    const std::string address = client_->routes().address(data.broker_name, 0, true);
    if (address.empty()) {
      continue;
    }
    proto::Command c = make_request(proto::RequestCode::kInvokeBrokerToResetOffset);
    // Trap: Java's broker takes the language of this request for that of the members and would
    // send Java's members a form that they cannot read (broker §11.1).
    c.language = proto::Language::kJava;
    c.set("topic", topic).set("group", group).set("timestamp", time_ms).set("isForce", "true");
    auto answer = client_->calls().ask(address, std::move(c), kAnswerTimeout);
    if (!answer) {
      return std::move(answer).error();
    }
    if (answer->code == proto::ResponseCode::kConsumerNotOnline) {
      for (int id = 0; id < data.write_queue_count; ++id) {
        const Queue queue{client_->names().unwrap(topic), data.broker_name, id};
        if (auto r = reset_offline(*this, *client_, address, group, queue, when, out); !r) {
          return std::move(r).error();
        }
      }
      continue;
    }
    if (answer->code != proto::ResponseCode::kSuccess) {
      return from_answer(answer->code, answer->remark, data.broker_name);
    }
    auto offsets = proto::decode_reset_offset(answer->body);
    if (offsets.has_error()) {
      return from_base(offsets.error(), Errc::kBadAnswer);
    }
    for (const auto& [queue, offset] : offsets.value()) {
      out[{client_->names().unwrap(queue.topic), queue.broker_name, queue.queue_id}] = offset;
    }
  }
  return out;
}

}  // namespace tenon::sdk
