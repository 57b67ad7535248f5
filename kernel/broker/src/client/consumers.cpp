#include "client/consumers.h"

#include "tenon/base/log.h"

#include <algorithm>
#include <utility>

namespace tenon::broker {

Consumers::Shard& Consumers::shard(std::string_view group) const {
  return shards_[TextHash{}(group) % shards_.size()];
}

bool Consumers::update_channel(Group& group, const Registration& who) {
  for (ClientChannel& channel : group.channels) {
    if (channel.connection != who.connection) {
      continue;
    }
    if (channel.client_id != who.client_id) {
      log_warn("broker",
               "a connection changed its client id old={} new={}",
               channel.client_id,
               who.client_id);
      channel.client_id = who.client_id;
      channel.language = who.language;
      channel.version = who.version;
    }
    channel.last_update_ms = who.now_ms;
    return false;
  }
  group.channels.push_back(
      {who.connection, std::string(who.client_id), who.language, who.version, who.now_ms});
  return true;
}

bool Consumers::update_subscriptions(Group& group, const proto::ConsumerData& data) {
  bool changed = false;
  bool renewed = false;
  for (const proto::SubscriptionData& wanted : data.subscriptions) {
    const auto it = group.subscriptions.find(wanted.topic);
    const bool known = it != group.subscriptions.end();
    if (known && it->second->data.sub_version >= wanted.sub_version) {
      continue;
    }
    auto subscription = std::make_shared<Subscription>();
    subscription->data = wanted;
    renewed = true;
    auto filter = filters_.subscribe(data.group, wanted);
    if (filter.has_value()) {
      subscription->filter = std::move(filter).value();
    } else {
      subscription->filter_broken = true;
      log_warn("broker",
               "subscription with an unusable expression group=\"{}\" topic={} reason=\"{}\"",
               data.group,
               wanted.topic,
               std::string_view(filter.error().detail).substr(0, filter.error().detail.find('\n')));
    }
    group.subscriptions.insert_or_assign(wanted.topic, std::move(subscription));
    changed = changed || !known;
  }
  // Trap: topics missing in this heartbeat are removed; one group has one table (broker §10.2).
  const auto removed = std::erase_if(group.subscriptions, [&](const auto& entry) {
    return std::none_of(data.subscriptions.begin(),
                        data.subscriptions.end(),
                        [&](const auto& wanted) { return wanted.topic == entry.first; });
  });
  if (renewed || removed > 0) {
    filters_.subscribed(data);
  }
  return changed || removed > 0;
}

void Consumers::heartbeat(const Registration& who, const proto::ConsumerData& data) {
  Targets targets;
  Shard& s = shard(data.group);
  {
    const std::scoped_lock lock(s.mutex);
    auto it = s.groups.find(data.group);
    if (it == s.groups.end()) {
      it = s.groups.emplace(data.group, Group{}).first;
    }
    Group& group = it->second;
    group.type = data.consume_type;
    group.model = data.message_model;
    group.from = data.consume_from_where;
    const bool new_channel = update_channel(group, who);
    const bool new_topics = update_subscriptions(group, data);
    if ((new_channel || new_topics) && who.notify) {
      for (const ClientChannel& channel : group.channels) {
        targets.push_back(channel.connection);
      }
    }
  }
  tell(targets, data.group);
}

void Consumers::leave(const net::ConnectionPtr& connection, std::string_view name, bool notify) {
  Targets targets;
  Shard& s = shard(name);
  {
    const std::scoped_lock lock(s.mutex);
    const auto it = s.groups.find(name);
    if (it == s.groups.end()) {
      return;
    }
    Group& group = it->second;
    const auto removed = std::erase_if(
        group.channels, [&](const ClientChannel& c) { return c.connection == connection; });
    if (removed > 0 && notify) {
      for (const ClientChannel& channel : group.channels) {
        targets.push_back(channel.connection);
      }
    }
    if (group.channels.empty()) {
      s.groups.erase(it);
      filters_.group_gone(name);
    }
  }
  tell(targets, name);
}

void Consumers::connection_closed(const net::ConnectionPtr& connection, bool notify) {
  for (Shard& s : shards_) {
    std::vector<std::pair<std::string, Targets>> notices;
    {
      const std::scoped_lock lock(s.mutex);
      for (auto it = s.groups.begin(); it != s.groups.end();) {
        Group& group = it->second;
        const auto removed = std::erase_if(
            group.channels, [&](const ClientChannel& c) { return c.connection == connection; });
        if (removed > 0 && notify) {
          Targets targets;
          for (const ClientChannel& channel : group.channels) {
            targets.push_back(channel.connection);
          }
          notices.emplace_back(it->first, std::move(targets));
        }
        if (group.channels.empty()) {
          filters_.group_gone(it->first);
          it = s.groups.erase(it);
        } else {
          ++it;
        }
      }
    }
    for (const auto& [group, targets] : notices) {
      tell(targets, group);
    }
  }
}

std::vector<net::ConnectionPtr> Consumers::expire(std::int64_t before_ms, bool notify) {
  std::vector<net::ConnectionPtr> expired;
  for (Shard& s : shards_) {
    const std::scoped_lock lock(s.mutex);
    for (const auto& [name, group] : s.groups) {
      for (const ClientChannel& channel : group.channels) {
        if (channel.last_update_ms < before_ms) {
          log_warn("broker",
                   "consumer without heartbeat dropped group=\"{}\" client={}",
                   name,
                   channel.client_id);
          expired.push_back(channel.connection);
        }
      }
    }
  }
  for (const auto& connection : expired) {
    connection_closed(connection, notify);
  }
  return expired;
}

Consumers::PullView Consumers::pull_view(std::string_view name, std::string_view topic) const {
  const Shard& s = shard(name);
  const std::scoped_lock lock(s.mutex);
  const auto it = s.groups.find(name);
  if (it == s.groups.end()) {
    return {};
  }
  PullView view{true, it->second.model, nullptr};
  const auto sub = it->second.subscriptions.find(topic);
  if (sub != it->second.subscriptions.end()) {
    view.subscription = sub->second;
  }
  return view;
}

std::vector<std::string> Consumers::client_ids(std::string_view name) const {
  const Shard& s = shard(name);
  const std::scoped_lock lock(s.mutex);
  std::vector<std::string> ids;
  const auto it = s.groups.find(name);
  if (it != s.groups.end()) {
    for (const ClientChannel& channel : it->second.channels) {
      ids.push_back(channel.client_id);
    }
  }
  return ids;
}

bool Consumers::is_online(std::string_view name) const {
  const Shard& s = shard(name);
  const std::scoped_lock lock(s.mutex);
  return s.groups.find(name) != s.groups.end();
}

bool Consumers::subscribes(std::string_view name, std::string_view topic) const {
  return pull_view(name, topic).subscription != nullptr;
}

std::set<std::string> Consumers::groups_of_topic(std::string_view topic) const {
  std::set<std::string> out;
  for (const Shard& s : shards_) {
    const std::scoped_lock lock(s.mutex);
    for (const auto& [name, group] : s.groups) {
      if (group.subscriptions.find(topic) != group.subscriptions.end()) {
        out.insert(name);
      }
    }
  }
  return out;
}

std::optional<Consumers::GroupInfo> Consumers::info(std::string_view name) const {
  const Shard& s = shard(name);
  const std::scoped_lock lock(s.mutex);
  const auto it = s.groups.find(name);
  if (it == s.groups.end()) {
    return std::nullopt;
  }
  GroupInfo out;
  out.data.group = name;
  out.data.consume_type = it->second.type;
  out.data.message_model = it->second.model;
  out.data.consume_from_where = it->second.from;
  for (const auto& [topic, subscription] : it->second.subscriptions) {
    out.data.subscriptions.push_back(subscription->data);
  }
  out.channels = it->second.channels;
  return out;
}

void Consumers::tell(const Targets& targets, std::string_view group) {
  for (const auto& connection : targets) {
    std::string frame;
    proto::FrameWriter writer(frame,
                              {.code = proto::RequestCode::kNotifyConsumerIdsChanged,
                               .opaque = opaque_.fetch_add(1, std::memory_order_relaxed),
                               .flag = proto::kFlagOneway});
    writer.field("consumerGroup", group);
    writer.finish();
    connection->send(std::move(frame));
  }
}

}  // namespace tenon::broker
