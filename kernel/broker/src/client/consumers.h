// Who consumes: groups, their connections and subscriptions as heartbeats tell them, and the
// notices about changed membership (spec: broker §10, remoting §5).
#pragma once

#include "meta/consumer_filters.h"
#include "pull/filter.h"
#include "util/hashing.h"

#include "tenon/net/connection.h"
#include "tenon/proto/bodies.h"
#include "tenon/proto/command.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker {

/// One process behind one connection.
struct ClientChannel {
  net::ConnectionPtr connection{};
  std::string client_id{};
  proto::Language language = proto::Language::kOther;
  std::int32_t version = 0;
  std::int64_t last_update_ms = 0;
};

/// What a group wants of one topic.
struct Subscription {
  proto::SubscriptionData data{};
  FilterPtr filter{};          ///< null: everything, unless broken
  bool filter_broken = false;  ///< the expression does not compile (answer 27)
};
using SubscriptionPtr = std::shared_ptr<const Subscription>;

/// Thread: any.
class Consumers {
 public:
  explicit Consumers(ConsumerFilters& filters)
      : filters_(filters) {}

  struct Registration {
    net::ConnectionPtr connection{};
    std::string_view client_id{};
    proto::Language language = proto::Language::kOther;
    std::int32_t version = 0;
    std::int64_t now_ms = 0;
    bool notify = true;  ///< of the group and of the broker
  };
  /// A heartbeat of one group. Tells all members, the sender included, when the membership or the
  /// set of topics changed.
  void heartbeat(const Registration& who, const proto::ConsumerData& data);
  void leave(const net::ConnectionPtr& connection, std::string_view group, bool notify);
  /// A connection is gone: it leaves every group, the rest is told.
  void connection_closed(const net::ConnectionPtr& connection, bool notify);
  /// Drops channels without heartbeat since `before_ms`. @return them, for closing
  std::vector<net::ConnectionPtr> expire(std::int64_t before_ms, bool notify);

  struct PullView {
    bool online = false;
    proto::MessageModel model = proto::MessageModel::kClustering;
    SubscriptionPtr subscription{};
  };
  PullView pull_view(std::string_view group, std::string_view topic) const;

  std::vector<std::string> client_ids(std::string_view group) const;
  bool is_online(std::string_view group) const;
  bool subscribes(std::string_view group, std::string_view topic) const;
  std::set<std::string> groups_of_topic(std::string_view topic) const;

  struct GroupInfo {
    proto::ConsumerData data{};
    std::vector<ClientChannel> channels{};
  };
  std::optional<GroupInfo> info(std::string_view group) const;

 private:
  struct Group {
    proto::ConsumeType type = proto::ConsumeType::kPassively;
    proto::MessageModel model = proto::MessageModel::kClustering;
    proto::ConsumeFromWhere from = proto::ConsumeFromWhere::kLastOffset;
    std::vector<ClientChannel> channels{};
    TextMap<SubscriptionPtr> subscriptions{};
  };
  struct Shard {
    mutable std::mutex mutex{};
    TextMap<Group> groups{};
  };
  using Targets = std::vector<net::ConnectionPtr>;

  Shard& shard(std::string_view group) const;
  static bool update_channel(Group& group, const Registration& who);
  bool update_subscriptions(Group& group, const proto::ConsumerData& data);
  void tell(const Targets& targets, std::string_view group);

  ConsumerFilters& filters_;
  mutable std::array<Shard, 16> shards_{};
  std::atomic<std::int32_t> opaque_{0};
};

}  // namespace tenon::broker
