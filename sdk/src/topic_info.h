// What a route means for us: queues to send to, queues to read from (spec: client §2.4 to §2.6).
#pragma once

#include "tenon/proto/bodies.h"
#include "tenon/sdk/message.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::sdk {

struct TopicInfo {
  struct Broker {
    std::string name{};
    std::string master{};  ///< "host:port", empty if the route has none
  };
  struct PublishQueue {
    std::uint32_t broker = 0;  ///< index into brokers
    std::int32_t id = 0;
  };
  std::string topic{};
  proto::TopicRoute route{};
  std::vector<Broker> brokers{};
  std::vector<PublishQueue> publish{};
  std::vector<Queue> subscribe{};  ///< sorted
  bool from_template =
      false;  ///< the topic does not exist yet, this is the route it will be made by

  Queue queue_at(std::size_t index) const {
    return {topic, brokers[publish[index].broker].name, publish[index].id};
  }
  const Broker* broker(std::string_view name) const noexcept;
};
using TopicInfoPtr = std::shared_ptr<const TopicInfo>;

TopicInfo make_topic_info(std::string topic, proto::TopicRoute route);

/// Route of a topic that does not exist yet, from the route of the topic it will be created like:
/// min(default_queues, read queues) queues per broker.
proto::TopicRoute route_from_template(proto::TopicRoute route, int default_queues);

/// Sorts what a name server may list in any order, so that equal routes compare equal.
void normalise(proto::TopicRoute& route);

}  // namespace tenon::sdk
