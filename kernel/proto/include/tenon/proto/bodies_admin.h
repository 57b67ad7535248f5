// JSON bodies of administration, statistics and slave synchronisation (spec: remoting §5.1, §7.4,
// §7.5, §7.6). Rules as in bodies.h: encode() writes fastjson's dialect, decode_…() is lenient and
// returns kInvalid with the reason. Thread: any.
#pragma once

#include "tenon/base/result.h"
#include "tenon/proto/bodies.h"
#include "tenon/proto/command.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::proto {

/// Queue → offset, with the queue as object key.
using QueueOffsets = std::map<MessageQueue, std::int64_t>;

/// GET_TOPIC_STATS_INFO.
struct TopicOffset {
  std::int64_t min_offset = 0;
  std::int64_t max_offset = 0;
  std::int64_t last_update_ms = 0;
  friend bool operator==(const TopicOffset&, const TopicOffset&) = default;
};
struct TopicStatsTable {
  std::map<MessageQueue, TopicOffset> offsets{};
};
std::string encode(const TopicStatsTable& t);
Result<TopicStatsTable> decode_topic_stats(std::string_view json);

/// GET_CONSUME_STATS.
struct ConsumeOffset {
  std::int64_t broker_offset = 0;
  std::int64_t consumer_offset = 0;
  std::int64_t last_ms = 0;  ///< store time of the last consumed message
  friend bool operator==(const ConsumeOffset&, const ConsumeOffset&) = default;
};
struct ConsumeStats {
  std::map<MessageQueue, ConsumeOffset> offsets{};
  double consume_tps = 0;
};
std::string encode(const ConsumeStats& s);
Result<ConsumeStats> decode_consume_stats(std::string_view json);

/// GET_CONSUMER_CONNECTION_LIST and GET_PRODUCER_CONNECTION_LIST.
struct ClientConnection {
  std::string client_id{};
  std::string client_addr{};
  Language language = Language::kJava;
  std::int32_t version = 0;
  /// What this member subscribes itself; only from a Tenon broker that was asked for it.
  std::optional<std::vector<SubscriptionData>> subscriptions{};
  friend bool operator==(const ClientConnection&, const ClientConnection&) = default;
};
struct ConsumerConnection {
  std::vector<ClientConnection> connections{};
  std::map<std::string, SubscriptionData> subscriptions{};
  ConsumeType consume_type = ConsumeType::kPassively;
  MessageModel message_model = MessageModel::kClustering;
  ConsumeFromWhere consume_from_where = ConsumeFromWhere::kLastOffset;
  std::optional<bool> mismatch{};  ///< members subscribe differently; as above
};
std::string encode(const ConsumerConnection& c);
Result<ConsumerConnection> decode_consumer_connection(std::string_view json);
struct ProducerConnection {
  std::vector<ClientConnection> connections{};
};
std::string encode(const ProducerConnection& c);
Result<ProducerConnection> decode_producer_connection(std::string_view json);

/// GET_ALL_PRODUCER_INFO: group → producers.
struct ProducerInfo {
  std::string client_id{};
  std::string remote_ip{};  ///< "/ip:port"
  Language language = Language::kJava;
  std::int32_t version = 0;
  std::int64_t last_update_ms = 0;
};
using ProducerTable = std::map<std::string, std::vector<ProducerInfo>>;
std::string encode_producer_table(const ProducerTable& t);
Result<ProducerTable> decode_producer_table(std::string_view json);

/// QUERY_TOPIC_CONSUME_BY_WHO.
struct GroupList {
  std::vector<std::string> groups{};
};
std::string encode(const GroupList& g);
Result<GroupList> decode_group_list(std::string_view json);

/// CONSUME_MESSAGE_DIRECTLY.
enum class ConsumeResult : std::uint8_t {
  kSuccess = 0,
  kLater,
  kRollback,
  kCommit,
  kThrowException,
  kReturnNull
};
struct ConsumeMessageDirectlyResult {
  bool order = false;
  bool auto_commit = true;
  ConsumeResult result = ConsumeResult::kSuccess;
  std::optional<std::string> remark{};
  std::int64_t spent_ms = 0;
};
std::string encode(const ConsumeMessageDirectlyResult& r);
Result<ConsumeMessageDirectlyResult> decode_consume_directly_result(std::string_view json);

/// GET_CONSUMER_RUNNING_INFO.
struct ProcessQueueInfo {
  std::int64_t commit_offset = 0;
  std::int64_t cached_min_offset = 0;
  std::int64_t cached_max_offset = 0;
  std::int32_t cached_count = 0;
  std::int32_t cached_mib = 0;
  std::int64_t transaction_min_offset = 0;
  std::int64_t transaction_max_offset = 0;
  std::int32_t transaction_count = 0;
  bool locked = false;
  std::int64_t try_unlock_times = 0;
  std::int64_t last_lock_ms = 0;
  bool dropped = false;
  std::int64_t last_pull_ms = 0;
  std::int64_t last_consume_ms = 0;
  friend bool operator==(const ProcessQueueInfo&, const ProcessQueueInfo&) = default;
};
struct ConsumeStatus {
  double pull_rt = 0;
  double pull_tps = 0;
  double consume_rt = 0;
  double consume_ok_tps = 0;
  double consume_failed_tps = 0;
  std::int64_t consume_failed_msgs = 0;
  friend bool operator==(const ConsumeStatus&, const ConsumeStatus&) = default;
};
struct ConsumerRunningInfo {
  std::map<std::string, std::string> properties{};
  std::vector<SubscriptionData> subscriptions{};
  std::map<MessageQueue, ProcessQueueInfo> queues{};
  std::map<std::string, ConsumeStatus> status{};
  std::optional<std::string> jstack{};
};
std::string encode(const ConsumerRunningInfo& r);
Result<ConsumerRunningInfo> decode_consumer_running_info(std::string_view json);

/// GET_CONSUMER_STATUS_FROM_CLIENT and INVOKE_BROKER_TO_GET_CONSUMER_STATUS.
struct ConsumerStatus {
  QueueOffsets queues{};
  std::map<std::string, QueueOffsets> clients{};  ///< client id → offsets
};
std::string encode(const ConsumerStatus& s);
Result<ConsumerStatus> decode_consumer_status(std::string_view json);

/// QUERY_CONSUME_TIME_SPAN.
struct QueueTimeSpan {
  MessageQueue queue{};
  std::int64_t min_ms = 0;
  std::int64_t max_ms = 0;
  std::int64_t consume_ms = 0;
  std::int64_t delay_ms = 0;
};
std::string encode_time_spans(const std::vector<QueueTimeSpan>& spans);
Result<std::vector<QueueTimeSpan>> decode_time_spans(std::string_view json);

/// VIEW_BROKER_STATS_DATA.
struct StatsItem {
  std::int64_t sum = 0;
  double tps = 0;
  double average_per_time = 0;
};
struct BrokerStatsData {
  StatsItem minute{};
  StatsItem hour{};
  StatsItem day{};
};
std::string encode(const BrokerStatsData& s);
Result<BrokerStatsData> decode_broker_stats_data(std::string_view json);

/// Body of CHECK_CLIENT_CONFIG.
struct CheckClientBody {
  std::string client_id{};
  std::string group{};
  std::optional<SubscriptionData> subscription{};
};
std::string encode(const CheckClientBody& b);
Result<CheckClientBody> decode_check_client(std::string_view json);

/// delayOffset.json and GET_ALL_DELAY_OFFSET: level → queue offset.
struct DelayOffsetTable {
  std::map<std::int32_t, std::int64_t> offsets{};
  std::map<std::string, std::string> extra{};
};
std::string encode(const DelayOffsetTable& t, bool pretty = false);
Result<DelayOffsetTable> decode_delay_offset_table(std::string_view json);

/// QUERY_CORRECTION_OFFSET: queue id → offset.
std::string encode_correction_offsets(const std::map<std::int32_t, std::int64_t>& offsets);
Result<std::map<std::int32_t, std::int64_t>> decode_correction_offsets(std::string_view json);

/// GET_BROKER_MEMBER_GROUP.
std::string encode_broker_member_group(const BrokerData& group);
Result<BrokerData> decode_broker_member_group(std::string_view json);

/// offsets.json of a broadcasting consumer (spec: client §5.4, LocalFileOffsetStore).
std::string encode_local_offsets(const QueueOffsets& offsets, bool pretty = true);
Result<QueueOffsets> decode_local_offsets(std::string_view json);

/// kvConfig.json of the name server: namespace → key → value (spec: broker §21).
using KvConfigTable = std::map<std::string, KvTable, std::less<>>;
std::string encode_kv_config_table(const KvConfigTable& t, bool pretty = false);
Result<KvConfigTable> decode_kv_config_table(std::string_view json);

/// Answer of GET_TOPIC_CONFIG.
std::string encode(const TopicConfig& c);
Result<TopicConfig> decode_topic_config(std::string_view json);

}  // namespace tenon::proto
