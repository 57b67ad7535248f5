#include "client/consumers.h"

#include "tenon/base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tenon::broker {
namespace {

void log_alarm(const std::string& text) {
  if (!text.empty()) {
    log_warn("broker", "{}", text);
  }
}

}  // namespace

Consumers::Shard& Consumers::shard(std::string_view group) const {
  return shards_[TextHash{}(group) % shards_.size()];
}

const Consumers::GroupView* Consumers::find_view(const Views& views,
                                                 std::string_view group,
                                                 std::size_t hash) {
  auto it = std::lower_bound(views.begin(), views.end(), hash, [](const auto& view, std::size_t h) {
    return view->hash < h;
  });
  while (it != views.end() && (*it)->hash == hash && (*it)->name != group) {
    ++it;
  }
  return it != views.end() && (*it)->hash == hash ? it->get() : nullptr;
}

void Consumers::publish(Shard& shard, std::string_view name, const Group* group) {
  auto next = std::make_unique<Views>(shard.views.read([](const Views& v) { return v; }));
  std::erase_if(*next, [name](const auto& view) { return view->name == name; });
  if (group != nullptr) {
    auto view = std::make_shared<GroupView>();
    view->name = name;
    view->hash = TextHash{}(name);
    view->model = group->model;
    view->subscriptions = group->subscriptions;
    const auto at =
        std::upper_bound(next->begin(), next->end(), view->hash, [](std::size_t h, const auto& v) {
          return h < v->hash;
        });
    next->insert(at, std::move(view));
  }
  shard.views.replace(std::move(next));
}

Consumers::Membership& Consumers::membership(const net::ConnectionPtr& connection) const {
  return memberships_[connection->id() % memberships_.size()];
}

void Consumers::remember(const net::ConnectionPtr& connection, const std::string& group) {
  Membership& m = membership(connection);
  const std::scoped_lock lock(m.mutex);
  auto& groups = m.groups[connection->id()];
  if (std::find(groups.begin(), groups.end(), group) == groups.end()) {
    groups.push_back(group);
  }
}

bool Consumers::update_channel(Group& group, const Registration& who) {
  const auto [it, added] = group.channels.try_emplace(who.connection->id());
  ClientChannel& channel = it->second;
  channel.last_update_ms = who.now_ms;
  if (!added && channel.client_id == who.client_id) {
    return false;
  }
  if (!added) {
    log_warn("broker",
             "a connection changed its client id old={} new={}",
             channel.client_id,
             who.client_id);
  }
  channel.connection = who.connection;
  channel.client_id = who.client_id;
  channel.language = who.language;
  channel.version = who.version;
  return added;
}

void Consumers::update_wanted(Group& group,
                              std::uint64_t connection,
                              const proto::ConsumerData& data) {
  WantedPtr& mine = group.channels[connection].wanted;
  const std::uint64_t digest = digest_of(data);
  if (mine != nullptr && mine->digest == digest) {
    return;
  }
  for (const auto& [id, channel] : group.channels) {
    if (channel.wanted != nullptr && channel.wanted->digest == digest) {
      mine = channel.wanted;
      return;
    }
  }
  mine = make_wanted(data);
}

std::string Consumers::check_mismatch(std::string_view name, Group& group) {
  const ClientChannel* first = nullptr;
  const ClientChannel* other = nullptr;
  for (const auto& [id, channel] : group.channels) {
    if (channel.wanted == nullptr) {
      continue;
    }
    if (first == nullptr) {
      first = &channel;
    } else if (channel.wanted->digest != first->wanted->digest) {
      other = &channel;
      break;
    }
  }
  const bool mismatch = other != nullptr;
  if (mismatch == group.mismatch) {
    return {};
  }
  group.mismatch = mismatch;
  if (!mismatch) {
    mismatched_.fetch_sub(1, std::memory_order_relaxed);
    return fmt::format("members of a group subscribe the same again group=\"{}\"", name);
  }
  mismatched_.fetch_add(1, std::memory_order_relaxed);
  mismatch_total_.fetch_add(1, std::memory_order_relaxed);
  return fmt::format(
      "members of a group subscribe differently and take messages from each other group=\"{}\" "
      "client={} wants=\"{}\" other={} wants=\"{}\"",
      name,
      first->client_id,
      describe(*first->wanted),
      other->client_id,
      describe(*other->wanted));
}

void Consumers::add_members(const Group& group, Targets& targets) {
  for (const auto& [id, channel] : group.channels) {
    targets.push_back(channel.connection);
  }
}

Consumers::SubscriptionChange Consumers::update_subscriptions(Group& group,
                                                              const proto::ConsumerData& data) {
  SubscriptionChange change;
  for (const proto::SubscriptionData& wanted : data.subscriptions) {
    const auto it = group.subscriptions.find(wanted.topic);
    const bool known = it != group.subscriptions.end();
    if (known && it->second->data.sub_version >= wanted.sub_version) {
      continue;
    }
    auto subscription = std::make_shared<Subscription>();
    subscription->data = wanted;
    change.any = true;
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
    change.topics = change.topics || !known;
  }
  // Trap: topics missing in this heartbeat are removed; one group has one table (broker §10.2).
  std::vector<std::string_view> topics;
  topics.reserve(data.subscriptions.size());
  for (const proto::SubscriptionData& wanted : data.subscriptions) {
    topics.emplace_back(wanted.topic);
  }
  std::sort(topics.begin(), topics.end());
  const auto removed = std::erase_if(group.subscriptions, [&](const auto& entry) {
    return !std::binary_search(topics.begin(), topics.end(), std::string_view(entry.first));
  });
  if (removed > 0) {
    change.topics = true;
    change.any = true;
  }
  if (change.any) {
    filters_.subscribed(data);
  }
  return change;
}

void Consumers::heartbeat(const Registration& who, const proto::ConsumerData& data) {
  Targets targets;
  std::string alarm;
  bool new_channel = false;
  Shard& s = shard(data.group);
  {
    const std::scoped_lock lock(s.mutex);
    const auto [it, new_group] = s.groups.try_emplace(data.group);
    Group& group = it->second;
    const bool new_model = group.model != data.message_model;
    group.type = data.consume_type;
    group.model = data.message_model;
    group.from = data.consume_from_where;
    new_channel = update_channel(group, who);
    const SubscriptionChange change = update_subscriptions(group, data);
    if (new_group || new_model || change.any) {
      publish(s, data.group, &group);
    }
    const WantedPtr before = group.channels[who.connection->id()].wanted;
    update_wanted(group, who.connection->id(), data);
    if (before != group.channels[who.connection->id()].wanted) {
      alarm = check_mismatch(data.group, group);
    }
    if ((new_channel || change.topics) && who.notify) {
      add_members(group, targets);
    }
  }
  if (new_channel) {
    remember(who.connection, data.group);
  }
  log_alarm(alarm);
  tell(targets, data.group);
}

bool Consumers::refresh(const net::ConnectionPtr& connection,
                        std::string_view name,
                        std::int64_t now_ms) {
  Shard& s = shard(name);
  const std::scoped_lock lock(s.mutex);
  const auto group = s.groups.find(name);
  if (group == s.groups.end()) {
    return false;
  }
  const auto channel = group->second.channels.find(connection->id());
  if (channel == group->second.channels.end()) {
    return false;
  }
  channel->second.last_update_ms = now_ms;
  return true;
}

void Consumers::leave(const net::ConnectionPtr& connection, std::string_view name, bool notify) {
  Targets targets;
  std::string alarm;
  Shard& s = shard(name);
  {
    const std::scoped_lock lock(s.mutex);
    const auto it = s.groups.find(name);
    if (it == s.groups.end() || it->second.channels.erase(connection->id()) == 0) {
      return;
    }
    alarm = check_mismatch(name, it->second);
    if (it->second.channels.empty()) {
      s.groups.erase(it);
      publish(s, name, nullptr);
      filters_.group_gone(name);
    } else if (notify) {
      add_members(it->second, targets);
    }
  }
  log_alarm(alarm);
  tell(targets, name);
}

void Consumers::connection_closed(const net::ConnectionPtr& connection, bool notify) {
  std::vector<std::string> groups;
  Membership& m = membership(connection);
  {
    const std::scoped_lock lock(m.mutex);
    const auto it = m.groups.find(connection->id());
    if (it == m.groups.end()) {
      return;
    }
    groups = std::move(it->second);
    m.groups.erase(it);
  }
  for (const std::string& group : groups) {
    leave(connection, group, notify);
  }
}

std::vector<net::ConnectionPtr> Consumers::expire(std::int64_t before_ms, bool notify) {
  std::vector<net::ConnectionPtr> expired;
  for (Shard& s : shards_) {
    const std::scoped_lock lock(s.mutex);
    for (const auto& [name, group] : s.groups) {
      for (const auto& [id, channel] : group.channels) {
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
  const std::size_t hash = TextHash{}(name);
  return shards_[hash % shards_.size()].views.read([&](const Views& views) {
    PullView out;
    if (const GroupView* group = find_view(views, name, hash); group != nullptr) {
      out.online = true;
      out.model = group->model;
      const auto it = group->subscriptions.find(topic);
      out.subscription = it != group->subscriptions.end() ? it->second : nullptr;
    }
    return out;
  });
}

std::vector<std::string> Consumers::client_ids(std::string_view name) const {
  const Shard& s = shard(name);
  const std::scoped_lock lock(s.mutex);
  std::vector<std::string> ids;
  const auto it = s.groups.find(name);
  if (it != s.groups.end()) {
    for (const auto& [id, channel] : it->second.channels) {
      ids.push_back(channel.client_id);
    }
  }
  return ids;
}

bool Consumers::is_online(std::string_view name) const {
  const std::size_t hash = TextHash{}(name);
  return shards_[hash % shards_.size()].views.read(
      [&](const Views& views) { return find_view(views, name, hash) != nullptr; });
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

std::vector<ClientChannel> Consumers::channels(std::string_view name) const {
  const Shard& s = shard(name);
  const std::scoped_lock lock(s.mutex);
  std::vector<ClientChannel> out;
  const auto it = s.groups.find(name);
  if (it != s.groups.end()) {
    for (const auto& [id, channel] : it->second.channels) {
      out.push_back(channel);
    }
  }
  return out;
}

std::optional<ClientChannel> Consumers::channel(std::string_view name,
                                                std::string_view client_id) const {
  const Shard& s = shard(name);
  const std::scoped_lock lock(s.mutex);
  const auto it = s.groups.find(name);
  if (it == s.groups.end()) {
    return std::nullopt;
  }
  for (const auto& [id, channel] : it->second.channels) {
    if (channel.client_id == client_id) {
      return channel;
    }
  }
  return std::nullopt;
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
  for (const auto& [id, channel] : it->second.channels) {
    out.channels.push_back(channel);
  }
  std::sort(out.channels.begin(), out.channels.end(), [](const auto& a, const auto& b) {
    return a.client_id < b.client_id;
  });
  out.mismatch = it->second.mismatch;
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
