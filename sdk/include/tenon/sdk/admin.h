// Administration of topics and consumer groups, and looking at messages: one method per operation,
// blocking.
#pragma once

#include "tenon/sdk/client.h"
#include "tenon/sdk/message.h"
#include "tenon/sdk/result.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::sdk {

struct BrokerInfo {
  std::string cluster{};
  std::string name{};
  std::map<std::int64_t, std::string> addresses{};  ///< id → "host:port"; 0 is the master
};
struct QueueInfo {
  std::string broker{};
  int read_queues = 0;
  int write_queues = 0;
  int permission = 0;  ///< 4 read + 2 write
};
struct RouteInfo {
  std::vector<QueueInfo> queues{};
  std::vector<BrokerInfo> brokers{};
};
struct QueueProgress {
  Queue queue{};
  std::int64_t broker_offset = 0;    ///< next offset to be written
  std::int64_t consumer_offset = 0;  ///< next offset to be consumed
  std::int64_t last_ms = 0;          ///< store time of the last consumed message
  std::int64_t lag() const noexcept { return broker_offset - consumer_offset; }
};

/// What brokers allow a consumer group. The defaults are those of brokers.
struct GroupSettings {
  std::string name{};
  bool consume = true;         ///< false: its pulls are refused
  bool broadcast = true;       ///< members may consume in broadcasting mode
  int retry_queues = 1;        ///< queues of its retry topic; 0: no retries
  int retry_max = 16;          ///< attempts before a message becomes a dead letter
  bool notify_members = true;  ///< tell members at once when one comes or goes
};
struct SubscriptionInfo {
  std::string topic{};
  std::string expression{};
  std::string kind{};  ///< TAG, SQL92
  friend bool operator==(const SubscriptionInfo&, const SubscriptionInfo&) = default;
};
struct MemberInfo {
  std::string client_id{};
  std::string address{};   ///< "ip:port"
  std::string language{};  ///< "JAVA", "GO" …
  int version = 0;         ///< of the protocol
  /// What this member subscribes itself, by topic, without its retry topic; empty and not `known` if
  /// neither the broker nor the member told.
  std::vector<SubscriptionInfo> subscriptions{};
  bool known = false;
};
struct GroupInfo {
  bool online = false;
  std::string mode{};                             ///< CLUSTERING, BROADCASTING
  std::string kind{};                             ///< CONSUME_PASSIVELY (push), CONSUME_ACTIVELY
  std::vector<MemberInfo> members{};              ///< by client id
  std::vector<SubscriptionInfo> subscriptions{};  ///< by topic: what the broker goes by
  /// Members subscribe differently: each heartbeat replaces the subscriptions of the others, and
  /// messages get lost for some of them.
  bool mismatch = false;
};

/// Thread: any; every call blocks, none on an I/O thread.
class TENON_SDK_API Admin {
 public:
  static Result<Admin> open(Client& client);
  Admin(Admin&&) noexcept;
  Admin& operator=(Admin&&) noexcept;
  ~Admin();

  /// On every master of the cluster; replaces the settings of an existing topic. Returns when the
  /// name server gives a route, at most after the timeout of a call.
  Result<void> create_topic(std::string_view cluster,
                            std::string_view topic,
                            int queues,
                            int permission = 6);
  Result<void> delete_topic(std::string_view cluster, std::string_view topic);
  Result<std::vector<std::string>> topics();
  Result<RouteInfo> route(std::string_view topic);
  Result<std::vector<BrokerInfo>> brokers();  ///< of all clusters

  Result<std::int64_t> min_offset(const Queue& queue);
  Result<std::int64_t> max_offset(const Queue& queue);
  Result<std::int64_t> offset_at(const Queue& queue, std::chrono::system_clock::time_point when);
  /// Committed offset of a group; kNotFound if there is none.
  Result<std::int64_t> committed_offset(std::string_view group, const Queue& queue);

  /// By Receipt::offset_id (asks the address inside it), or by Receipt::id if a topic is given.
  Result<MessageView> message_by_id(std::string_view id, std::string_view topic = {});
  /// By one of Message::keys, newest first. @return kNotFound if there is none
  Result<std::vector<MessageView>> messages_by_key(
      std::string_view topic,
      std::string_view key,
      int max = 32,
      std::chrono::system_clock::time_point begin = {},
      std::chrono::system_clock::time_point end = std::chrono::system_clock::time_point::max());

  /// One entry per queue that the group has an offset for.
  Result<std::vector<QueueProgress>> progress(std::string_view group);
  Result<std::vector<std::string>> group_members(std::string_view group);  ///< client ids

  /// Groups with settings on any master of the cluster, by name.
  Result<std::vector<GroupSettings>> groups(std::string_view cluster);
  /// On every master of the cluster; replaces the settings of an existing group.
  Result<void> set_group(std::string_view cluster, const GroupSettings& settings);
  /// @param with_offsets  also what the group has consumed
  Result<void> delete_group(std::string_view cluster, std::string_view group, bool with_offsets);
  /// Members and subscriptions as the first broker with members tells them.
  Result<GroupInfo> group(std::string_view group);
  /// Sets the group's offsets of a topic to the messages of a time, on every broker of the topic:
  /// through the members if there are any, otherwise in the brokers.
  /// @param when  time_point::max(): behind the last message
  Result<std::map<Queue, std::int64_t>> reset_offset(std::string_view group,
                                                     std::string_view topic,
                                                     std::chrono::system_clock::time_point when);

 private:
  explicit Admin(std::shared_ptr<detail::ClientCore> client) noexcept;
  std::shared_ptr<detail::ClientCore> client_;
};

}  // namespace tenon::sdk
