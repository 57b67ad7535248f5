// Brokers, topics and their queues as registered, and what is derived from them (spec: broker §21,
// remoting §8). Pure: no sockets, no locks, time from a Clock.
//
// | table    | key → value                                                             |
// |----------|-------------------------------------------------------------------------|
// | topics   | topic → broker name → queue data                                        |
// | brokers  | broker name → cluster, id → address, topics deleted by an administrator |
// | clusters | cluster → broker names                                                  |
// | live     | address → last sign of life, DataVersion, connection, HA address        |
#pragma once

#include "tenon/base/clock.h"
#include "tenon/proto/bodies.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::namesrv {

/// A connection as the table knows it; 0 is none.
using ConnectionId = std::uint64_t;

struct BrokerKey {
  std::string cluster{};
  std::string name{};
  std::string address{};
  std::int64_t id = 0;
};

struct Registration {
  BrokerKey broker{};
  std::string ha_address{};
  const proto::TopicTable* topics = nullptr;  ///< with the DataVersion
  ConnectionId connection = 0;
  std::int64_t timeout_ms = 0;  ///< of this broker; 0 = the server's
};

/// What a slave is told about its master; empty if there is none.
struct MasterInfo {
  std::string address{};
  std::string ha_address{};
};

enum class UnitFilter : std::uint8_t { kUnit, kUnitSub, kUnitSubNotUnit };

class RouteTable {
 public:
  RouteTable(const Clock& clock, std::int64_t broker_timeout_ms)
      : clock_(clock),
        timeout_ms_(broker_timeout_ms) {}

  MasterInfo register_broker(const Registration& r);
  void unregister_broker(const BrokerKey& broker);
  /// Drops the brokers that registered over this connection. Returns their addresses.
  std::vector<std::string> connection_closed(ConnectionId connection);
  /// Drops the brokers without a sign of life for too long; their connections are to be closed.
  std::vector<ConnectionId> drop_silent();

  /// Compares with the stored version of an address. An equal one is a sign of life.
  bool is_changed(std::string_view address, const proto::DataVersion& version);
  std::optional<proto::DataVersion> version_of(std::string_view address) const;
  /// A sign of life without a registration (5.x heartbeat).
  void refresh(std::string_view address);

  /// nullopt: unknown topic, or no broker of it is left.
  std::optional<proto::TopicRoute> route(std::string_view topic) const;
  proto::ClusterInfo cluster_info() const;
  proto::BrokerData member_group(std::string_view cluster, std::string_view broker_name) const;
  proto::TopicList all_topics() const;
  proto::TopicList topics_of_cluster(std::string_view cluster) const;
  proto::TopicList system_topics() const;
  proto::TopicList unit_topics(UnitFilter filter) const;

  /// Clears the write bit of all queues of a broker name. Returns the number of topics.
  int wipe_write_permission(std::string_view broker_name);
  /// Sets their permission to read and write, whatever it was.
  int add_write_permission(std::string_view broker_name);
  /// @param cluster  empty: on all brokers
  void delete_topic(std::string_view topic, std::string_view cluster);
  /// Adds queues on brokers that are known (217).
  void register_topic(std::string_view topic, const std::vector<proto::QueueData>& queues);

  std::size_t live_count() const noexcept { return live_.size(); }

 private:
  struct Broker {
    std::string cluster{};
    std::map<std::int64_t, std::string> addresses{};
    std::set<std::string, std::less<>> deleted{};  ///< topics taken away here by 216
  };
  struct Live {
    std::int64_t last_ms = 0;
    std::int64_t timeout_ms = 0;
    proto::DataVersion version{};
    ConnectionId connection = 0;
    std::string ha_address{};
  };
  using Queues = std::map<std::string, proto::QueueData, std::less<>>;  ///< by broker name

  void take_topics(Broker& broker, const Registration& r, bool changed);
  void drop_address(const std::string& address);
  void drop_broker_if_empty(const std::string& name);
  template <class F>
  int for_queues_of(std::string_view broker_name, F f);

  const Clock& clock_;
  const std::int64_t timeout_ms_;
  std::map<std::string, Queues, std::less<>> topics_{};
  std::map<std::string, Broker, std::less<>> brokers_{};
  std::map<std::string, std::set<std::string>, std::less<>> clusters_{};
  std::map<std::string, Live, std::less<>> live_{};
};

}  // namespace tenon::namesrv
