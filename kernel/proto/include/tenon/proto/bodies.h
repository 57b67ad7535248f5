// JSON bodies of requests and answers as plain structs, in fastjson's dialect (spec: remoting §2,
// store §8): integer map keys may be unquoted, object keys are legal, enums come as name or
// ordinal, numbers as strings; unknown members are ignored, missing ones keep their default.
// Everything that reads or writes JSON in this project does it here or through proto/json.h.
#pragma once

#include "tenon/base/result.h"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::proto {

/// Topic permission bits (spec: remoting §9.7).
inline constexpr std::int32_t kPermInherit = 1;
inline constexpr std::int32_t kPermWrite = 2;
inline constexpr std::int32_t kPermRead = 4;

struct MessageQueue {
  std::string topic{};
  std::string broker_name{};
  std::int32_t queue_id = 0;
  friend auto operator<=>(const MessageQueue&,
                          const MessageQueue&) = default;  ///< Java's order: topic, broker, id
};

struct DataVersion {
  std::int64_t timestamp = 0;
  std::int64_t counter = 0;
  std::int64_t state_version = 0;  ///< 5.x only; written if it is not 0
  friend bool operator==(const DataVersion&, const DataVersion&) = default;
};
std::string encode(const DataVersion& v);
Result<DataVersion> decode_data_version(std::string_view json);

struct TopicConfig {
  std::string name{};
  std::int32_t read_queue_count = 16;
  std::int32_t write_queue_count = 16;
  std::int32_t perm = kPermRead | kPermWrite;
  std::string filter_type = "SINGLE_TAG";
  std::int32_t sys_flag = 0;
  bool order = false;
  std::map<std::string, std::string> extra{};  ///< unknown members as JSON text
  friend bool operator==(const TopicConfig&, const TopicConfig&) = default;
};

/// topics.json, answer of GET_ALL_TOPIC_CONFIG, inner part of a registration. Members that we do
/// not know are carried in `extra` as JSON text, so that rewriting a file keeps what a 5.x broker
/// put there.
struct TopicTable {
  DataVersion version{};
  std::map<std::string, TopicConfig, std::less<>> topics{};
  std::map<std::string, std::string> extra{};
};
std::string encode(const TopicTable& t, bool pretty = false);
Result<TopicTable> decode_topic_table(std::string_view json);

struct SubscriptionGroupConfig {
  std::string name{};
  bool consume_enable = true;
  bool consume_from_min_enable = true;
  bool consume_broadcast_enable = true;
  std::int32_t retry_queue_count = 1;
  std::int32_t retry_max_times = 16;
  std::int64_t broker_id = 0;
  std::int64_t which_broker_when_consume_slowly = 1;
  bool notify_consumer_ids_changed_enable = true;
  std::map<std::string, std::string> extra{};  ///< unknown members as JSON text
  friend bool operator==(const SubscriptionGroupConfig&, const SubscriptionGroupConfig&) = default;
};
struct SubscriptionGroupTable {
  DataVersion version{};
  std::map<std::string, SubscriptionGroupConfig, std::less<>> groups{};
  std::map<std::string, std::string> extra{};
};
std::string encode(const SubscriptionGroupTable& t, bool pretty = false);
Result<SubscriptionGroupTable> decode_subscription_group_table(std::string_view json);
std::string encode(const SubscriptionGroupConfig& g);
Result<SubscriptionGroupConfig> decode_subscription_group(std::string_view json);

/// consumerOffset.json: "topic@group" → queue → offset.
struct ConsumerOffsetTable {
  std::map<std::string, std::map<std::int32_t, std::int64_t>, std::less<>> offsets{};
  std::map<std::string, std::string> extra{};
};
std::string encode(const ConsumerOffsetTable& t, bool pretty = false);
Result<ConsumerOffsetTable> decode_consumer_offset_table(std::string_view json);

/// Body of REGISTER_BROKER, plain and compressed (spec: remoting §8.1).
struct RegisterBrokerBody {
  TopicTable topics{};
  std::vector<std::string> filter_servers{};
};
std::string encode(const RegisterBrokerBody& b);
/// The compressed form; topic sysFlag, order and unknown members are not carried by it.
Result<std::string> encode_compressed(const RegisterBrokerBody& b);
/// @param compressed       header field `compressed`
/// @param sender_version   below 37 the body is the bare topic table; from 413 on a compressed body
/// has a static-topic part
Result<RegisterBrokerBody> decode_register_broker_body(std::string_view body,
                                                       bool compressed,
                                                       std::int32_t sender_version);

struct QueueData {
  std::string broker_name{};
  std::int32_t read_queue_count = 0;
  std::int32_t write_queue_count = 0;
  std::int32_t perm = 0;
  std::int32_t sys_flag = 0;
  friend bool operator==(const QueueData&, const QueueData&) = default;
};
struct BrokerData {
  std::string cluster{};
  std::string broker_name{};
  std::map<std::int64_t, std::string> addrs{};
  friend bool operator==(const BrokerData&, const BrokerData&) = default;
};
struct TopicRoute {
  std::optional<std::string> order_topic_conf{};
  std::vector<QueueData> queues{};
  std::vector<BrokerData> brokers{};
  friend bool operator==(const TopicRoute&, const TopicRoute&) = default;
};
/// @param standard_json  quoted integer keys, members sorted, non-ASCII escaped; otherwise the old
/// dialect (spec: remoting §8.4)
std::string encode(const TopicRoute& r, bool standard_json);
Result<TopicRoute> decode_topic_route(std::string_view json);

struct ClusterInfo {
  std::map<std::string, BrokerData> brokers{};
  std::map<std::string, std::set<std::string>> clusters{};
};
std::string encode(const ClusterInfo& c);
Result<ClusterInfo> decode_cluster_info(std::string_view json);

struct TopicList {
  std::vector<std::string> topics{};
  std::optional<std::string> broker_addr{};
};
std::string encode(const TopicList& t);
Result<TopicList> decode_topic_list(std::string_view json);

/// {"table":{"k":"v"}}
using KvTable = std::map<std::string, std::string>;
std::string encode_kv_table(const KvTable& t);
Result<KvTable> decode_kv_table(std::string_view json);

enum class ConsumeType : std::uint8_t { kActively = 0, kPassively = 1, kPop = 2 };
enum class MessageModel : std::uint8_t { kBroadcasting = 0, kClustering = 1 };
enum class ConsumeFromWhere : std::uint8_t {
  kLastOffset = 0,
  kLastOffsetAndFromMinWhenBootFirst,
  kMinOffset,
  kMaxOffset,
  kFirstOffset,
  kTimestamp
};

struct SubscriptionData {
  std::string topic{};
  std::string sub_string = "*";
  std::set<std::string> tags{};
  std::set<std::int32_t> codes{};
  std::int64_t sub_version = 0;
  std::string expression_type = "TAG";
  bool class_filter_mode = false;
  friend bool operator==(const SubscriptionData&, const SubscriptionData&) = default;
};
std::string encode(const SubscriptionData& s);
/// Builds the tag sets of "*" or "a || b" (spec: broker §9.1). For other types only the text is
/// kept. The caller sets sub_version.
/// @return kInvalid for a tag expression without a tag ("||") and an empty expression of another
/// type, with Java's text. Thread: any.
Result<SubscriptionData> build_subscription(std::string_view topic,
                                            std::string_view expression,
                                            std::string_view type);

struct ConsumerData {
  std::string group{};
  ConsumeType consume_type = ConsumeType::kPassively;
  MessageModel message_model = MessageModel::kClustering;
  ConsumeFromWhere consume_from_where = ConsumeFromWhere::kLastOffset;
  std::vector<SubscriptionData> subscriptions{};
  bool unit_mode = false;
};
struct HeartbeatData {
  std::string client_id{};
  std::vector<std::string> producer_groups{};
  std::vector<ConsumerData> consumers{};
  bool without_sub = false;  ///< 5.x: subscriptions are left out, they have not changed
};
std::string encode(const HeartbeatData& h);
Result<HeartbeatData> decode_heartbeat(std::string_view json);

std::string encode_consumer_ids(const std::vector<std::string>& ids);  ///< {"consumerIdList":[…]}
Result<std::vector<std::string>> decode_consumer_ids(std::string_view json);

/// Body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ.
struct LockRequest {
  std::string group{};
  std::string client_id{};
  std::vector<MessageQueue> queues{};
};
std::string encode(const LockRequest& r);
Result<LockRequest> decode_lock_request(std::string_view json);
std::string encode_lock_answer(const std::vector<MessageQueue>& locked);
Result<std::vector<MessageQueue>> decode_lock_answer(std::string_view json);

/// Body of RESET_CONSUMER_CLIENT_OFFSET in both forms (object keys; list for C++ clients).
Result<std::map<MessageQueue, std::int64_t>> decode_reset_offset(std::string_view json);
std::string encode_reset_offset(const std::map<MessageQueue, std::int64_t>& t, bool as_list);

}  // namespace tenon::proto
