// Settings of a broker. Plain values with defaults; whoever reads a configuration file fills them
// in. Names in brackets are RocketMQ's. Ranges are checked by validate().
#pragma once

#include "tenon/base/live.h"
#include "tenon/base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tenon::broker {

/// When messages are deleted, and when a disk counts as full. All comparisons of disk use are strict.
struct RetentionConfig {
  Live<std::int64_t> file_reserved_hours{72};  ///< [fileReservedTime] age of a log file; 0..87600
  std::string delete_when = "04";              ///< [deleteWhen] local hours, with semicolons; the
                                               ///< value at start, see Retention
  Live<std::uint32_t> delete_files_max{10};    ///< [deleteFileBatchMax] in one round; 1..1000
  std::int64_t round_ms = 10'000;              ///< [cleanResourceInterval] 10..600000
  Live<std::uint32_t> disk_clean_pct{75};      ///< [diskMaxUsedSpaceRatio] 10..100
  Live<bool> clean_forcibly{true};             ///< [cleanFileForciblyEnable]
  Live<std::uint32_t> disk_force_pct{85};      ///< [diskSpaceCleanForciblyRatio] 10..100
  Live<std::uint32_t> disk_full_pct{90};       ///< [diskSpaceWarningLevelRatio] 10..100; 100 = off
};

/// Values are immutable after start, except those that are Live: administrators change them.
struct BrokerConfig {
  // Identity and addresses.
  std::string cluster = "DefaultCluster";  ///< [brokerClusterName] also the name of a topic
  std::string name{};                      ///< [brokerName] empty = host name; also a topic
  std::int64_t id = 0;                     ///< [brokerId] 0 = master
  std::string listen_host = "0.0.0.0";     ///< [bindAddress] numeric IPv4 or IPv6 address
  std::uint16_t port = 10911;              ///< [listenPort] 0 = chosen by the system
  bool fast_port = true;     ///< also listen on port - 2 (not with port 0), as old tools expect
  std::string broker_ip1{};  ///< [brokerIP1] advertised address; empty = listen_host if it is one
                             ///< address, else the first non-loopback IPv4
  std::vector<std::string> namesrv{};          ///< [namesrvAddr] host:port of every name server
  std::filesystem::path store_root = "store";  ///< [storePathRootDir] folder of all data
  std::string region_id = "DefaultRegion";     ///< [regionId] told to producers
  Live<bool> trace_on{true};                   ///< [traceOn] told to producers
  Live<std::int32_t> permission{6};  ///< [brokerPermission] 4 read + 2 write; mask of all topics

  // Registration with name servers.
  std::int64_t register_period_ms = 30'000;  ///< [registerNameServerPeriod] 10000..60000, clamped
  std::int64_t register_timeout_ms = 6'000;  ///< [registerBrokerTimeoutMills] 100..60000

  // Topics and groups.
  Live<bool> auto_create_topic{true};                    ///< [autoCreateTopicEnable]
  std::int32_t default_topic_queue_count = 8;            ///< [defaultTopicQueueNums] 1..1024
  bool cluster_topic = true;                             ///< [clusterTopicEnable]
  bool broker_topic = true;                              ///< [brokerTopicEnable]
  Live<bool> auto_create_group{true};                    ///< [autoCreateSubscriptionGroup]
  bool trace_topic = false;                              ///< [traceTopicEnable]
  std::string trace_topic_name = "RMQ_SYS_TRACE_TOPIC";  ///< [msgTraceTopicName]
  Live<bool> notify_consumer_ids_changed{true};          ///< [notifyConsumerIdsChangedEnable]
  Live<bool> property_filter{false};                     ///< [enablePropertyFilter] allow SQL92
  bool filter_support_retry = false;          ///< [filterSupportRetry] also retried messages
  bool calc_filter_bitmap = false;            ///< [enableCalcFilterBitMap]
  std::uint32_t expected_filter_groups = 32;  ///< [expectConsumerNumUseFilter] 1..4096
  std::uint32_t bloom_error_pct = 20;         ///< [maxErrorRateOfBloomFilter] 1..99
  std::int64_t filter_clean_ms = 86'400'000;  ///< [filterDataCleanTimeSpan] not below 0

  // Sending.
  Live<std::uint32_t> message_max_bytes{4u * 1024 *
                                        1024};  ///< [maxMessageSize] body; 1 KiB..15 MiB
  std::uint32_t properties_max_bytes = 32767;   ///< not above 32767
  bool sync_flush = false;                      ///< [flushDiskType=SYNC_FLUSH] answer after fsync
  Live<std::int64_t> sync_flush_timeout_ms{5'000};  ///< [syncFlushTimeout] 100..60000
  Live<std::int64_t> page_cache_busy_ms{1'000};     ///< [osPageCacheBusyTimeOutMills] 10..60000
  bool store_reply = true;                          ///< [storeReplyMessageEnable]
  Live<std::int64_t> accept_send_from_ms{0};        ///< [startAcceptSendRequestTimeStamp] epoch ms
  Live<bool> reject_transaction_message{false};     ///< [rejectTransactionMessage]
  std::int64_t transaction_op_batch_ms = 0;  ///< [transactionOpBatchInterval] 0 = each decision at
                                             ///< once, as 4.x does and reads; 0..60000
  std::uint32_t transaction_op_batch_bytes = 4'096;  ///< [transactionOpMsgMaxSize] 64..1 MiB
  bool transaction_commit_exhausted = false;         ///< a check plug-in may commit by itself
  std::uint32_t transaction_queue_max = 100'000;     ///< [endTransactionThreadPoolQueueCapacity]
  std::string message_delay_level =
      "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";  ///< [messageDelayLevel]
  std::int64_t flush_delay_offset_ms = 10'000;  ///< [flushDelayOffsetInterval] 100..600000

  // Messages for any time.
  bool timer_wheel = true;                       ///< [timerWheelEnable]
  bool recall_message = false;                   ///< [recallMessageEnable] may they be recalled
  std::int64_t timer_max_delay_sec = 3'456'000;  ///< [timerMaxDelaySec] 40 days; 1..31536000
  std::int64_t timer_roll_window_sec = 172'800;  ///< [timerRollWindowSlot] at most two thirds of
                                                 ///< the time the log is kept; 60..2592000

  RetentionConfig retention{};

  // Pulling.
  Live<bool> long_polling{true};                   ///< [longPollingEnable]
  Live<std::int64_t> short_polling_ms{1'000};      ///< [shortPollingTimeMills] 10..60000
  Live<std::uint32_t> pull_bytes_memory{262'144};  ///< [maxTransferBytesOnMessageInMemory]
  Live<std::uint32_t> pull_count_memory{32};       ///< [maxTransferCountOnMessageInMemory] 1..1024
  Live<std::uint32_t> pull_bytes_disk{65'536};     ///< [maxTransferBytesOnMessageInDisk]
  Live<std::uint32_t> pull_count_disk{8};          ///< [maxTransferCountOnMessageInDisk] 1..1024
  std::uint32_t memory_ratio_pct = 40;             ///< [accessMessageInMemoryMaxRatio] 1..95
  std::uint64_t memory_bytes = 0;                  ///< RAM for the rule above; 0 = of the machine
  Live<bool> slave_read{false};                    ///< [slaveReadEnable]
  std::uint32_t parked_pull_max = 100'000;         ///< [pullThreadPoolQueueCapacity] 1..10000000

  // Queries and offsets.
  Live<std::int32_t> query_max{64};               ///< [maxMsgsNumBatch] 1..1024
  Live<std::int32_t> unique_query_max{32};        ///< [defaultQueryMaxNum] 1..1024
  std::int64_t flush_consumer_offset_ms = 5'000;  ///< [flushConsumerOffsetInterval] 100..600000

  // Clients.
  std::int64_t channel_expired_ms = 120'000;  ///< consumers and producers without heartbeat
  std::int64_t lock_expired_ms = 60'000;      ///< [rocketmq.broker.rebalance.lockMaxLiveTime]
  std::int64_t lock_orphaned_ms = 60'000;     ///< the same for the lock of a client that is gone

  // Threads, queues, connections.
  std::uint32_t io_threads = 0;      ///< 0 = cores, at most 4; 1..64
  std::uint32_t worker_threads = 2;  ///< of each of: cold reads, queries, administration; 1..64
  std::uint32_t send_queue_max = 10'000;  ///< [sendThreadPoolQueueCapacity] waiting for flush
  std::uint64_t send_queue_bytes_max = 256u * 1024 * 1024;  ///< of sends that wait for the log
  bool fast_failure = true;                                 ///< [brokerFastFailureEnable]
  std::int64_t wait_in_send_queue_ms = 200;  ///< [waitTimeMillsInSendQueue] 10..600000
  std::uint32_t reply_queue_max = 10'000;    ///< [replyThreadPoolQueueCapacity] waiting for clients
  std::uint32_t pull_queue_max = 100'000;    ///< [pullThreadPoolQueueCapacity] cold reads
  std::uint32_t query_queue_max = 20'000;    ///< [queryThreadPoolQueueCapacity]
  std::uint32_t admin_queue_max = 10'000;    ///< [adminBrokerThreadPoolQueueCapacity]
  std::int64_t wait_in_pull_queue_ms = 5'000;  ///< [waitTimeMillsInPullQueue] 10..600000
  std::int64_t wait_in_transaction_queue_ms =
      3'000;                                  ///< [waitTimeMillsInTransactionQueue] 10..600000
  std::int64_t idle_connection_ms = 120'000;  ///< [serverChannelMaxIdleTimeSeconds] 0 = never
  std::uint32_t connection_max = 100'000;     ///< further connections are refused
  std::uint64_t unsent_pause_bytes = 8u * 1024 * 1024;      ///< a connection with more is not read
  std::uint64_t unsent_max_bytes = 256u * 1024 * 1024;      ///< a connection with more is closed
  std::uint64_t unsent_total_bytes = 1024u * 1024 * 1024;   ///< of all; above, 64 KiB each
  std::uint64_t receive_total_bytes = 1024u * 1024 * 1024;  ///< of all unfinished large requests
  std::uint32_t frame_max_bytes = 16u * 1024 * 1024;  ///< [com.rocketmq.remoting.frameMaxLength]
};

/// Checks all ranges at once. @return kInvalid with one line per problem
Result<> validate(const BrokerConfig& config);

}  // namespace tenon::broker
