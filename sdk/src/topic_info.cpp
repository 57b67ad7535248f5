#include "topic_info.h"

#include "tenon/proto/command.h"

#include <algorithm>

namespace tenon::sdk {
namespace {

std::uint32_t broker_index(TopicInfo& info, std::string_view name) {
  for (std::size_t i = 0; i < info.brokers.size(); ++i) {
    if (info.brokers[i].name == name) {
      return static_cast<std::uint32_t>(i);
    }
  }
  info.brokers.push_back({std::string(name), {}});
  return static_cast<std::uint32_t>(info.brokers.size() - 1);
}

/// "broker-a:2;broker-b:1": these queues, whatever permissions and masters say.
void publish_by_order_conf(TopicInfo& info, std::string_view conf) {
  while (!conf.empty()) {
    const std::size_t end = std::min(conf.find(';'), conf.size());
    const std::string_view item = conf.substr(0, end);
    conf.remove_prefix(std::min(end + 1, conf.size()));
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos) {
      continue;
    }
    const std::int32_t count = proto::parse_int(item.substr(colon + 1)).value_or(0);
    const std::uint32_t broker = broker_index(info, item.substr(0, colon));
    for (std::int32_t id = 0; id < count; ++id) {
      info.publish.push_back({broker, id});
    }
  }
}

}  // namespace

const TopicInfo::Broker* TopicInfo::broker(std::string_view name) const noexcept {
  for (const Broker& b : brokers) {
    if (b.name == name) {
      return &b;
    }
  }
  return nullptr;
}

void normalise(proto::TopicRoute& route) {
  std::stable_sort(route.queues.begin(), route.queues.end(), [](const auto& a, const auto& b) {
    return a.broker_name < b.broker_name;
  });
  std::stable_sort(route.brokers.begin(), route.brokers.end(), [](const auto& a, const auto& b) {
    return a.broker_name < b.broker_name;
  });
}

TopicInfo make_topic_info(std::string topic, proto::TopicRoute route) {
  normalise(route);
  TopicInfo info;
  info.topic = std::move(topic);
  for (const proto::BrokerData& b : route.brokers) {
    const auto master = b.addrs.find(0);
    info.brokers.push_back(
        {b.broker_name, master == b.addrs.end() ? std::string() : master->second});
  }
  if (route.order_topic_conf && !route.order_topic_conf->empty()) {
    publish_by_order_conf(info, *route.order_topic_conf);
  } else {
    for (const proto::QueueData& q : route.queues) {
      const TopicInfo::Broker* broker = info.broker(q.broker_name);
      if ((q.perm & proto::kPermWrite) == 0 || broker == nullptr || broker->master.empty()) {
        continue;
      }
      const auto index = static_cast<std::uint32_t>(broker - info.brokers.data());
      for (std::int32_t id = 0; id < q.write_queue_count; ++id) {
        info.publish.push_back({index, id});
      }
    }
  }
  // Trap: no master is needed for reading, a slave serves it; orderTopicConf is not looked at
  // (client §2.4).
  for (const proto::QueueData& q : route.queues) {
    if ((q.perm & proto::kPermRead) == 0) {
      continue;
    }
    for (std::int32_t id = 0; id < q.read_queue_count; ++id) {
      info.subscribe.push_back({info.topic, q.broker_name, id});
    }
  }
  std::sort(info.subscribe.begin(), info.subscribe.end());
  info.route = std::move(route);
  return info;
}

proto::TopicRoute route_from_template(proto::TopicRoute route, int default_queues) {
  for (proto::QueueData& q : route.queues) {
    const std::int32_t count = std::min(default_queues, q.read_queue_count);
    q.read_queue_count = count;
    q.write_queue_count = count;
  }
  route.order_topic_conf.reset();
  return route;
}

}  // namespace tenon::sdk
