// Who consumes: groups, their connections and subscriptions as heartbeats tell them, and the
// notices about changed membership (spec: broker §10, remoting §5).
#pragma once

#include "client/wanted.h"
#include "meta/consumer_filters.h"
#include "pull/filter.h"
#include "util/hashing.h"
#include "util/snapshot.h"

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
#include <unordered_map>
#include <vector>

namespace tenon::broker {

/// One process behind one connection.
struct ClientChannel {
  net::ConnectionPtr connection{};
  std::string client_id{};
  proto::Language language = proto::Language::kOther;
  std::int32_t version = 0;
  std::int64_t last_update_ms = 0;
  WantedPtr wanted{};  ///< of a consumer: what it subscribes itself
};

/// What a group wants of one topic.
struct Subscription {
  proto::SubscriptionData data{};
  FilterPtr filter{};          ///< null: everything, unless broken
  bool filter_broken = false;  ///< the expression does not compile (answer 27)
};
using SubscriptionPtr = std::shared_ptr<const Subscription>;

/// Thread: any. What every pull looks up (pull_view, is_online, subscribes) is read without a lock,
/// whatever heartbeats do meanwhile, also one whose expression is being compiled. The rest locks the
/// shard of its group (tests/bench/clients_bench).
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
  /// set of topics changed. Thread: the I/O thread of the connection.
  void heartbeat(const Registration& who, const proto::ConsumerData& data);
  /// A 5.x heartbeat without subscriptions: only shows that the client is alive.
  /// @return false if the connection is no member of the group: it must send everything
  bool refresh(const net::ConnectionPtr& connection, std::string_view group, std::int64_t now_ms);
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
  std::vector<ClientChannel> channels(std::string_view group) const;
  std::optional<ClientChannel> channel(std::string_view group, std::string_view client_id) const;

  struct GroupInfo {
    proto::ConsumerData data{};
    std::vector<ClientChannel> channels{};
    bool mismatch = false;  ///< members subscribe differently
  };
  std::optional<GroupInfo> info(std::string_view group) const;

  /// Groups whose members subscribe differently now, and how often that has begun.
  std::uint64_t mismatched_groups() const noexcept {
    return mismatched_.load(std::memory_order_relaxed);
  }
  std::uint64_t mismatch_total() const noexcept {
    return mismatch_total_.load(std::memory_order_relaxed);
  }

 private:
  struct Group {
    proto::ConsumeType type = proto::ConsumeType::kPassively;
    proto::MessageModel model = proto::MessageModel::kClustering;
    proto::ConsumeFromWhere from = proto::ConsumeFromWhere::kLastOffset;
    std::unordered_map<std::uint64_t, ClientChannel> channels{};  ///< by id of the connection
    TextMap<SubscriptionPtr> subscriptions{};
    bool mismatch = false;
  };
  /// What look-ups see of a group.
  struct GroupView {
    std::string name{};
    std::size_t hash = 0;
    proto::MessageModel model = proto::MessageModel::kClustering;
    TextMap<SubscriptionPtr> subscriptions{};
  };
  using Views = std::vector<std::shared_ptr<const GroupView>>;  ///< by hash
  struct Shard {
    mutable std::mutex mutex{};
    TextMap<Group> groups{};
    Snapshot<Views> views{};  ///< replaced with the lock
  };
  /// Which groups a connection may be in, so that its end is no walk over all groups.
  struct Membership {
    std::mutex mutex{};
    std::unordered_map<std::uint64_t, std::vector<std::string>> groups{};
  };
  using Targets = std::vector<net::ConnectionPtr>;

  Shard& shard(std::string_view group) const;
  /// The group as look-ups see it, null if it has no members; within a read of the snapshot.
  static const GroupView* find_view(const Views& views, std::string_view group, std::size_t hash);
  /// Shows look-ups what the group is now; null: that it is gone. With the shard's lock.
  static void publish(Shard& shard, std::string_view name, const Group* group);
  Membership& membership(const net::ConnectionPtr& connection) const;
  void remember(const net::ConnectionPtr& connection, const std::string& group);
  /// @return whether the connection is a new member
  static bool update_channel(Group& group, const Registration& who);
  struct SubscriptionChange {
    bool topics = false;  ///< the set of topics
    bool any = false;
  };
  SubscriptionChange update_subscriptions(Group& group, const proto::ConsumerData& data);
  static void update_wanted(Group& group,
                            std::uint64_t connection,
                            const proto::ConsumerData& data);
  /// Compares the members; with the shard's lock. @return the line to log if something changed
  std::string check_mismatch(std::string_view name, Group& group);
  static void add_members(const Group& group, Targets& targets);
  void tell(const Targets& targets, std::string_view group);

  static constexpr std::size_t kShards = 64;
  ConsumerFilters& filters_;
  mutable std::array<Shard, kShards> shards_{};
  mutable std::array<Membership, kShards> memberships_{};
  std::atomic<std::uint64_t> mismatched_{0};
  std::atomic<std::uint64_t> mismatch_total_{0};
  std::atomic<std::int32_t> opaque_{0};
};

}  // namespace tenon::broker
