#include "route_table.h"

#include <utility>

namespace tenon::namesrv {
namespace {

/// Bits of topicSysFlag.
constexpr std::int32_t kFlagUnit = 1;
constexpr std::int32_t kFlagUnitSub = 2;

proto::QueueData queue_data(const std::string& broker_name, const proto::TopicConfig& c) {
  proto::QueueData q;
  q.broker_name = broker_name;
  q.read_queue_count = c.read_queue_count;
  q.write_queue_count = c.write_queue_count;
  q.perm = c.perm;
  q.sys_flag = c.sys_flag;
  return q;
}

}  // namespace

MasterInfo RouteTable::register_broker(const Registration& r) {
  const BrokerKey& key = r.broker;
  clusters_[key.cluster].insert(key.name);
  const auto [found, created] = brokers_.try_emplace(key.name);
  Broker& broker = found->second;
  if (created) {
    broker.cluster = key.cluster;
  }
  // A change of role: the address is taken from the id that it had.
  std::erase_if(broker.addresses, [&key](const auto& entry) {
    return entry.second == key.address && entry.first != key.id;
  });
  const bool first = created || !broker.addresses.contains(key.id);
  broker.addresses[key.id] = key.address;

  static const proto::TopicTable kNone;
  const proto::TopicTable& topics = r.topics != nullptr ? *r.topics : kNone;
  const auto known = live_.find(key.address);
  const bool changed = known == live_.end() || !(known->second.version == topics.version);
  // Trap: a slave never adds topics, even when it is alone (spec: broker §21.3).
  if (key.id == 0) {
    take_topics(broker, r, changed || first);
  }
  Live& live = live_[key.address];
  live.last_ms = clock_.wall_ms();
  live.timeout_ms = r.timeout_ms > 0 ? r.timeout_ms : timeout_ms_;
  live.version = topics.version;
  live.connection = r.connection;
  live.ha_address = r.ha_address;

  MasterInfo master;
  if (key.id != 0) {
    const auto at = broker.addresses.find(0);
    if (at != broker.addresses.end()) {
      if (const auto alive = live_.find(at->second); alive != live_.end()) {
        master.address = at->second;
        master.ha_address = alive->second.ha_address;
      }
    }
  }
  return master;
}

/// A changed version overwrites what the body contains. With an unchanged one, topics are added that
/// are not known here, unless an administrator took them away: a broker that registers one new topic
/// with the version of its whole table must not hide the other topics from a name server that was
/// started since.
/// Trap: topics missing in the body stay (spec: remoting §8.1).
void RouteTable::take_topics(Broker& broker, const Registration& r, bool changed) {
  if (r.topics == nullptr) {
    return;
  }
  for (const auto& [name, config] : r.topics->topics) {
    if (!changed) {
      const auto topic = topics_.find(name);
      const bool known =
          topic != topics_.end() && topic->second.find(r.broker.name) != topic->second.end();
      if (known || broker.deleted.contains(name)) {
        continue;
      }
    }
    topics_[name][r.broker.name] = queue_data(r.broker.name, config);
    broker.deleted.erase(name);
  }
}

void RouteTable::unregister_broker(const BrokerKey& key) {
  live_.erase(key.address);
  const auto found = brokers_.find(key.name);
  if (found != brokers_.end()) {
    found->second.addresses.erase(key.id);
    drop_broker_if_empty(key.name);
  }
}

std::vector<std::string> RouteTable::connection_closed(ConnectionId connection) {
  std::vector<std::string> dropped;
  if (connection == 0) {
    return dropped;
  }
  for (auto it = live_.begin(); it != live_.end();) {
    if (it->second.connection == connection) {
      dropped.push_back(it->first);
      it = live_.erase(it);
    } else {
      ++it;
    }
  }
  for (const std::string& address : dropped) {
    drop_address(address);
  }
  return dropped;
}

std::vector<ConnectionId> RouteTable::drop_silent() {
  const std::int64_t now = clock_.wall_ms();
  std::vector<ConnectionId> connections;
  std::vector<std::string> dropped;
  for (auto it = live_.begin(); it != live_.end();) {
    if (it->second.last_ms + it->second.timeout_ms < now) {
      connections.push_back(it->second.connection);
      dropped.push_back(it->first);
      it = live_.erase(it);
    } else {
      ++it;
    }
  }
  for (const std::string& address : dropped) {
    drop_address(address);
  }
  return connections;
}

void RouteTable::drop_address(const std::string& address) {
  std::vector<std::string> names;
  for (auto& [name, broker] : brokers_) {
    if (std::erase_if(broker.addresses, [&](const auto& e) { return e.second == address; }) > 0) {
      names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    drop_broker_if_empty(name);
  }
}

/// A broker name without any address goes with all that hangs on it.
void RouteTable::drop_broker_if_empty(const std::string& name) {
  const auto found = brokers_.find(name);
  if (found == brokers_.end() || !found->second.addresses.empty()) {
    return;
  }
  const auto cluster = clusters_.find(found->second.cluster);
  if (cluster != clusters_.end()) {
    cluster->second.erase(name);
    if (cluster->second.empty()) {
      clusters_.erase(cluster);
    }
  }
  for (auto it = topics_.begin(); it != topics_.end();) {
    it->second.erase(name);
    it = it->second.empty() ? topics_.erase(it) : std::next(it);
  }
  brokers_.erase(found);
}

bool RouteTable::is_changed(std::string_view address, const proto::DataVersion& version) {
  const auto found = live_.find(address);
  if (found == live_.end() || !(found->second.version == version)) {
    return true;
  }
  found->second.last_ms = clock_.wall_ms();
  return false;
}

std::optional<proto::DataVersion> RouteTable::version_of(std::string_view address) const {
  const auto found = live_.find(address);
  if (found == live_.end()) {
    return std::nullopt;
  }
  return found->second.version;
}

void RouteTable::refresh(std::string_view address) {
  if (const auto found = live_.find(address); found != live_.end()) {
    found->second.last_ms = clock_.wall_ms();
  }
}

std::optional<proto::TopicRoute> RouteTable::route(std::string_view topic) const {
  const auto found = topics_.find(topic);
  if (found == topics_.end()) {
    return std::nullopt;
  }
  proto::TopicRoute route;
  for (const auto& [name, queues] : found->second) {
    route.queues.push_back(queues);
    if (const auto broker = brokers_.find(name); broker != brokers_.end()) {
      route.brokers.push_back({broker->second.cluster, name, broker->second.addresses});
    }
  }
  if (route.queues.empty() || route.brokers.empty()) {
    return std::nullopt;
  }
  return route;
}

proto::ClusterInfo RouteTable::cluster_info() const {
  proto::ClusterInfo info;
  for (const auto& [name, broker] : brokers_) {
    info.brokers[name] = {broker.cluster, name, broker.addresses};
  }
  info.clusters.insert(clusters_.begin(), clusters_.end());
  return info;
}

proto::BrokerData RouteTable::member_group(std::string_view cluster,
                                           std::string_view broker_name) const {
  proto::BrokerData group{std::string(cluster), std::string(broker_name), {}};
  const auto found = brokers_.find(broker_name);
  if (found != brokers_.end() && found->second.cluster == cluster) {
    group.addrs = found->second.addresses;
  }
  return group;
}

proto::TopicList RouteTable::all_topics() const {
  proto::TopicList list;
  for (const auto& [name, queues] : topics_) {
    list.topics.push_back(name);
  }
  return list;
}

proto::TopicList RouteTable::topics_of_cluster(std::string_view cluster) const {
  proto::TopicList list;
  const auto brokers = clusters_.find(cluster);
  if (brokers == clusters_.end()) {
    return list;
  }
  for (const auto& [name, queues] : topics_) {
    for (const auto& [broker, q] : queues) {
      if (brokers->second.contains(broker)) {
        list.topics.push_back(name);
        break;
      }
    }
  }
  return list;
}

proto::TopicList RouteTable::system_topics() const {
  proto::TopicList list;
  for (const auto& [cluster, brokers] : clusters_) {
    list.topics.push_back(cluster);
    list.topics.insert(list.topics.end(), brokers.begin(), brokers.end());
  }
  for (const auto& [name, broker] : brokers_) {
    if (!broker.addresses.empty()) {
      list.broker_addr = broker.addresses.begin()->second;
      break;
    }
  }
  return list;
}

proto::TopicList RouteTable::unit_topics(UnitFilter filter) const {
  proto::TopicList list;
  for (const auto& [name, queues] : topics_) {
    if (queues.empty()) {
      continue;
    }
    const std::int32_t flag = queues.begin()->second.sys_flag;
    const bool unit = (flag & kFlagUnit) != 0;
    const bool sub = (flag & kFlagUnitSub) != 0;
    const bool wanted = filter == UnitFilter::kUnit      ? unit
                        : filter == UnitFilter::kUnitSub ? sub
                                                         : sub && !unit;
    if (wanted) {
      list.topics.push_back(name);
    }
  }
  return list;
}

template <class F>
int RouteTable::for_queues_of(std::string_view broker_name, F f) {
  int count = 0;
  for (auto& [name, queues] : topics_) {
    if (const auto found = queues.find(broker_name); found != queues.end()) {
      f(found->second);
      ++count;
    }
  }
  return count;
}

int RouteTable::wipe_write_permission(std::string_view broker_name) {
  return for_queues_of(broker_name, [](proto::QueueData& q) { q.perm &= ~proto::kPermWrite; });
}

/// Trap: outright to 6, the inherit bit is lost (spec: broker §21.6).
int RouteTable::add_write_permission(std::string_view broker_name) {
  return for_queues_of(broker_name,
                       [](proto::QueueData& q) { q.perm = proto::kPermRead | proto::kPermWrite; });
}

void RouteTable::delete_topic(std::string_view topic, std::string_view cluster) {
  const auto found = topics_.find(topic);
  if (found == topics_.end()) {
    return;
  }
  Queues& queues = found->second;
  for (auto it = queues.begin(); it != queues.end();) {
    const auto broker = brokers_.find(it->first);
    const bool ours = broker != brokers_.end();
    if (cluster.empty() || (ours && broker->second.cluster == cluster)) {
      if (ours) {
        broker->second.deleted.emplace(topic);
      }
      it = queues.erase(it);
    } else {
      ++it;
    }
  }
  if (queues.empty()) {
    topics_.erase(found);
  }
}

void RouteTable::register_topic(std::string_view topic,
                                const std::vector<proto::QueueData>& queues) {
  for (const proto::QueueData& q : queues) {
    if (const auto broker = brokers_.find(q.broker_name); broker != brokers_.end()) {
      topics_[std::string(topic)][q.broker_name] = q;
      broker->second.deleted.erase(std::string(topic));
    }
  }
}

}  // namespace tenon::namesrv
