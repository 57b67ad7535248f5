#include "config/broker_keys.h"

// One function per table of the file, in the order of the struct.

namespace tenon::app {
namespace {

using broker::BrokerConfig;

// A new member changes this number: give it a key below, print configs/broker.toml anew, and change
// the number.
static_assert(sizeof(BrokerConfig) == 776, "every member of BrokerConfig needs a key");

void describe_identity(config::Visitor& v, BrokerConfig& c) {
  v.key("cluster", &c.cluster, {.doc = "Name of the cluster.", .rocketmq = "brokerClusterName"});
  v.key("name",
        &c.name,
        {.doc = "Name of this broker, shared by a master and its slaves. Empty: the host's name.",
         .rocketmq = "brokerName"});
  v.key("id",
        &c.id,
        {.doc = "0 is the master; slaves are not served yet.",
         .rocketmq = "brokerId",
         .min = 0,
         .max = 0});
  v.key("listen_host",
        &c.listen_host,
        {.doc = "Address that is listened on: numeric IPv4 or IPv6.", .rocketmq = "bindAddress"});
  v.key("port",
        &c.port,
        {.doc = "Port for clients. 0: chosen by the system.", .rocketmq = "listenPort"});
  v.key(
      "fast_port",
      &c.fast_port,
      {.doc = "Also listen on port - 2, which old tools and clients with vipChannelEnabled use."});
  v.key("broker_ip1",
        &c.broker_ip1,
        {.doc = "Address that clients are told. Empty: listen_host if that is one address, else "
                "the first IPv4 address that is not loopback.",
         .rocketmq = "brokerIP1"});
  v.key(
      "namesrv", &c.namesrv, {.doc = "host:port of every name server.", .rocketmq = "namesrvAddr"});
  v.key("store_root",
        &c.store_root,
        {.doc = "Folder of all data of this broker.", .rocketmq = "storePathRootDir"});
  v.key("region_id", &c.region_id, {.doc = "Told to producers.", .rocketmq = "regionId"});
  v.key("trace_on", c.trace_on.plain(), {.doc = "Told to producers.", .rocketmq = "traceOn"});
  v.key("permission",
        c.permission.plain(),
        {.doc = "4 read + 2 write; limits what topics allow.",
         .rocketmq = "brokerPermission",
         .min = 0,
         .max = 7});
}

void describe_registration(config::Visitor& v, BrokerConfig& c) {
  v.key("register_period_ms",
        &c.register_period_ms,
        {.doc = "How often the name servers are told about topics.",
         .rocketmq = "registerNameServerPeriod",
         .min = 10'000,
         .max = 60'000});
  v.key("register_timeout_ms",
        &c.register_timeout_ms,
        {.doc = "How long one registration may take.",
         .rocketmq = "registerBrokerTimeoutMills",
         .min = 100,
         .max = 60'000});
}

void describe_topics(config::Visitor& v, BrokerConfig& c) {
  v.key("auto_create_topic",
        c.auto_create_topic.plain(),
        {.doc = "A send to an unknown topic creates it.", .rocketmq = "autoCreateTopicEnable"});
  v.key("default_topic_queue_count",
        &c.default_topic_queue_count,
        {.doc = "Queues of the topic that new ones are created like.",
         .rocketmq = "defaultTopicQueueNums",
         .min = 1,
         .max = 1024});
  v.key("cluster_topic",
        &c.cluster_topic,
        {.doc = "Have a topic called like the cluster.", .rocketmq = "clusterTopicEnable"});
  v.key("broker_topic",
        &c.broker_topic,
        {.doc = "Have a topic called like the broker.", .rocketmq = "brokerTopicEnable"});
  v.key(
      "auto_create_group",
      c.auto_create_group.plain(),
      {.doc = "An unknown consumer group is created.", .rocketmq = "autoCreateSubscriptionGroup"});
  v.key("trace_topic",
        &c.trace_topic,
        {.doc = "Have the topic for message traces.", .rocketmq = "traceTopicEnable"});
  v.key("trace_topic_name",
        &c.trace_topic_name,
        {.doc = "Name of that topic.", .rocketmq = "msgTraceTopicName"});
  v.key("notify_consumer_ids_changed",
        c.notify_consumer_ids_changed.plain(),
        {.doc = "Tell the members of a group at once when one comes or goes.",
         .rocketmq = "notifyConsumerIdsChangedEnable"});
  v.key("property_filter",
        c.property_filter.plain(),
        {.doc = "Allow subscriptions of kind SQL92 (a filter plug-in must offer it).",
         .rocketmq = "enablePropertyFilter"});
  v.key("filter_support_retry",
        &c.filter_support_retry,
        {.doc = "Such a subscription also judges messages that come back for a retry.",
         .rocketmq = "filterSupportRetry"});
  v.key("calc_filter_bitmap",
        &c.calc_filter_bitmap,
        {.doc = "Note with each message which groups want it, so that pulls of the others need not "
                "look at it. The storage must keep such bit maps (queue_ext of tenon.store.file).",
         .rocketmq = "enableCalcFilterBitMap"});
  v.key("expected_filter_groups",
        &c.expected_filter_groups,
        {.doc = "Groups of a topic that such a bit map is made for.",
         .rocketmq = "expectConsumerNumUseFilter",
         .min = 1,
         .max = 4096});
  v.key("bloom_error_pct",
        &c.bloom_error_pct,
        {.doc = "Messages in a hundred that a pull may look at in vain all the same.",
         .rocketmq = "maxErrorRateOfBloomFilter",
         .min = 1,
         .max = 99});
  v.key("filter_clean_ms",
        &c.filter_clean_ms,
        {.doc = "An expression that nobody subscribes with is forgotten after this time.",
         .rocketmq = "filterDataCleanTimeSpan",
         .min = 0});
}

void describe_send(config::Visitor& v, BrokerConfig& c) {
  v.key("message_max_bytes",
        c.message_max_bytes.plain(),
        {.doc = "Largest body.", .rocketmq = "maxMessageSize", .min = 1024, .max = 15 << 20});
  v.key("properties_max_bytes",
        &c.properties_max_bytes,
        {.doc = "Largest properties text.", .min = 1, .max = 32767});
  v.key("sync_flush",
        &c.sync_flush,
        {.doc = "A send is answered after the disk has it.",
         .rocketmq = "flushDiskType = SYNC_FLUSH"});
  v.key("sync_flush_timeout_ms",
        c.sync_flush_timeout_ms.plain(),
        {.doc = "How long a send waits for that.",
         .rocketmq = "syncFlushTimeout",
         .min = 100,
         .max = 60'000});
  v.key("page_cache_busy_ms",
        c.page_cache_busy_ms.plain(),
        {.doc = "Sends are refused while an append takes longer.",
         .rocketmq = "osPageCacheBusyTimeOutMills",
         .min = 10,
         .max = 60'000});
  v.key("accept_send_from_ms",
        c.accept_send_from_ms.plain(),
        {.doc = "Sends before this time are refused.",
         .rocketmq = "startAcceptSendRequestTimeStamp",
         .unit = "ms since 1970 UTC",
         .min = 0});
  v.key("store_reply",
        &c.store_reply,
        {.doc = "Replies to request messages are stored, too.",
         .rocketmq = "storeReplyMessageEnable"});
  v.key("message_delay_level",
        &c.message_delay_level,
        {.doc = "Delays of the levels 1, 2, … of delayed messages and retries.",
         .rocketmq = "messageDelayLevel"});
  v.key("flush_delay_offset_ms",
        &c.flush_delay_offset_ms,
        {.doc = "How often the progress of delayed messages is written.",
         .rocketmq = "flushDelayOffsetInterval",
         .min = 100,
         .max = 600'000});
}

void describe_transactions(config::Visitor& v, BrokerConfig& c) {
  v.key("reject_transaction_message",
        c.reject_transaction_message.plain(),
        {.doc = "Refuse transactional messages.", .rocketmq = "rejectTransactionMessage"});
  v.key("transaction_op_batch_ms",
        &c.transaction_op_batch_ms,
        {.doc = "Collect decisions for so long and write them as one record, which a RocketMQ 4 "
                "broker that opens the store cannot read. 0: one record each.",
         .rocketmq = "transactionOpBatchInterval",
         .min = 0,
         .max = 60'000});
  v.key("transaction_op_batch_bytes",
        &c.transaction_op_batch_bytes,
        {.doc = "Write them earlier when there are so many.",
         .rocketmq = "transactionOpMsgMaxSize",
         .min = 64,
         .max = 1 << 20});
  v.key("transaction_commit_exhausted",
        &c.transaction_commit_exhausted,
        {.doc = "Let the check plug-in commit a transaction that no producer decided."});
  v.key("transaction_queue_max",
        &c.transaction_queue_max,
        {.doc = "Decisions of producers that wait for a thread.",
         .rocketmq = "endTransactionThreadPoolQueueCapacity",
         .min = 1,
         .max = 10'000'000});
}

void describe_timer(config::Visitor& v, BrokerConfig& c) {
  v.key("timer_wheel",
        &c.timer_wheel,
        {.doc = "Deliver messages at any time that a 5.x client asks for.",
         .rocketmq = "timerWheelEnable"});
  v.key("recall_message",
        &c.recall_message,
        {.doc = "Allow to recall such a message before its time.",
         .rocketmq = "recallMessageEnable"});
  v.key("timer_max_delay_sec",
        &c.timer_max_delay_sec,
        {.doc = "How far ahead that time may be.",
         .rocketmq = "timerMaxDelaySec",
         .min = 1,
         .max = 31'536'000});
  v.key(
      "timer_roll_window_sec",
      &c.timer_roll_window_sec,
      {.doc = "A message that waits longer is stored again so often, and at least after two thirds "
              "of the time that the log is kept.",
       .rocketmq = "timerRollWindowSlot",
       .min = 60,
       .max = 2'592'000});
}

void describe_disk(config::Visitor& v, broker::RetentionConfig& c) {
  v.key("disk_clean_pct",
        c.disk_clean_pct.plain(),
        {.doc = "Above this disk use expired files are deleted at any hour.",
         .rocketmq = "diskMaxUsedSpaceRatio",
         .min = 10,
         .max = 100});
  v.key("clean_forcibly",
        c.clean_forcibly.plain(),
        {.doc = "Allow the next key to delete what has not expired.",
         .rocketmq = "cleanFileForciblyEnable"});
  v.key("disk_force_pct",
        c.disk_force_pct.plain(),
        {.doc = "Above this disk use the oldest files are deleted whatever their age.",
         .rocketmq = "diskSpaceCleanForciblyRatio",
         .min = 10,
         .max = 100});
  v.key("disk_full_pct",
        c.disk_full_pct.plain(),
        {.doc = "Above this disk use messages are refused. 100: until the disk has no space.",
         .rocketmq = "diskSpaceWarningLevelRatio",
         .min = 10,
         .max = 100});
}

void describe_retention(config::Visitor& v, broker::RetentionConfig& c) {
  v.key("file_reserved_hours",
        c.file_reserved_hours.plain(),
        {.doc = "A file of the log is kept this long after its last change.",
         .rocketmq = "fileReservedTime",
         .min = 0,
         .max = 87'600});
  v.key("delete_when",
        &c.delete_when,
        {.doc = "Local hours in which expired files are deleted, separated by semicolons.",
         .rocketmq = "deleteWhen"});
  v.key("delete_files_max",
        c.delete_files_max.plain(),
        {.doc = "Most files deleted in one round.",
         .rocketmq = "deleteFileBatchMax",
         .min = 1,
         .max = 1000});
  v.key("round_ms",
        &c.round_ms,
        {.doc = "Between two looks at files and disk.",
         .rocketmq = "cleanResourceInterval",
         .min = 10,
         .max = 600'000});
  describe_disk(v, c);
}

void describe_pull(config::Visitor& v, BrokerConfig& c) {
  v.key("long_polling",
        c.long_polling.plain(),
        {.doc = "A pull without messages waits as long as its client wants.",
         .rocketmq = "longPollingEnable"});
  v.key("short_polling_ms",
        c.short_polling_ms.plain(),
        {.doc = "How long it waits otherwise.",
         .rocketmq = "shortPollingTimeMills",
         .min = 10,
         .max = 60'000});
  v.key("pull_bytes_memory",
        c.pull_bytes_memory.plain(),
        {.doc = "Most of one answer from recent messages.",
         .rocketmq = "maxTransferBytesOnMessageInMemory",
         .unit = "bytes",
         .min = 1024,
         .max = 64 << 20});
  v.key("pull_count_memory",
        c.pull_count_memory.plain(),
        {.doc = "Most messages of it.",
         .rocketmq = "maxTransferCountOnMessageInMemory",
         .min = 1,
         .max = 1024});
  v.key("pull_bytes_disk",
        c.pull_bytes_disk.plain(),
        {.doc = "Most of one answer from old messages.",
         .rocketmq = "maxTransferBytesOnMessageInDisk",
         .unit = "bytes",
         .min = 1024,
         .max = 64 << 20});
  v.key("pull_count_disk",
        c.pull_count_disk.plain(),
        {.doc = "Most messages of it.",
         .rocketmq = "maxTransferCountOnMessageInDisk",
         .min = 1,
         .max = 1024});
  v.key("memory_ratio_pct",
        &c.memory_ratio_pct,
        {.doc = "Messages within this part of the memory behind the end count as recent.",
         .rocketmq = "accessMessageInMemoryMaxRatio",
         .unit = "percent",
         .min = 1,
         .max = 95});
  v.key("memory_bytes",
        &c.memory_bytes,
        {.doc = "Memory for that rule. 0: the machine's.", .min = 0});
  v.key("slave_read",
        c.slave_read.plain(),
        {.doc = "Let consumers that are far behind read from a slave.",
         .rocketmq = "slaveReadEnable"});
  v.key("parked_pull_max",
        &c.parked_pull_max,
        {.doc = "Pulls that may wait at the same time.",
         .rocketmq = "pullThreadPoolQueueCapacity",
         .min = 1,
         .max = 10'000'000});
}

void describe_query(config::Visitor& v, BrokerConfig& c) {
  v.key("query_max",
        c.query_max.plain(),
        {.doc = "Most messages found by a key.",
         .rocketmq = "maxMsgsNumBatch",
         .min = 1,
         .max = 1024});
  v.key("unique_query_max",
        c.unique_query_max.plain(),
        {.doc = "Most messages found by a unique key.",
         .rocketmq = "defaultQueryMaxNum",
         .min = 1,
         .max = 1024});
  v.key("flush_consumer_offset_ms",
        &c.flush_consumer_offset_ms,
        {.doc = "How often consumers' offsets are written.",
         .rocketmq = "flushConsumerOffsetInterval",
         .min = 100,
         .max = 600'000});
}

void describe_clients(config::Visitor& v, BrokerConfig& c) {
  v.key("channel_expired_ms",
        &c.channel_expired_ms,
        {.doc = "A client without heartbeat is forgotten after this time.",
         .min = 1000,
         .max = 3'600'000});
  v.key("lock_expired_ms",
        &c.lock_expired_ms,
        {.doc = "A queue lock of an ordered consumer lapses after this time.",
         .rocketmq = "rocketmq.broker.rebalance.lockMaxLiveTime",
         .min = 1000,
         .max = 3'600'000});
  v.key("lock_orphaned_ms",
        &c.lock_orphaned_ms,
        {.doc = "The same if its client is gone, which may consume on for a while.",
         .min = 1000,
         .max = 3'600'000});
  v.key("idle_connection_ms",
        &c.idle_connection_ms,
        {.doc = "A connection without traffic is closed after this time. 0: never.",
         .rocketmq = "serverChannelMaxIdleTimeSeconds",
         .min = 0});
  v.key("connection_max", &c.connection_max, {.doc = "Further connections are refused.", .min = 1});
  v.key("unsent_pause_bytes",
        &c.unsent_pause_bytes,
        {.doc = "A connection with more bytes unsent is not read until it has less.",
         .min = 64 << 10});
  v.key("unsent_max_bytes",
        &c.unsent_max_bytes,
        {.doc = "A connection with more bytes unsent is closed.", .min = 1 << 20});
  v.key("unsent_total_bytes",
        &c.unsent_total_bytes,
        {.doc = "Bytes unsent of all connections together; above, each may have 64 KiB.",
         .min = 1 << 20});
  v.key("receive_total_bytes",
        &c.receive_total_bytes,
        {.doc = "All requests above 64 KiB together that are not complete; further ones wait.",
         .min = 1 << 20});
  v.key("frame_max_bytes",
        &c.frame_max_bytes,
        {.doc = "Largest request; a larger one closes the connection.",
         .rocketmq = "com.rocketmq.remoting.frameMaxLength",
         .min = 1 << 16,
         .max = 64 << 20});
}

void describe_threads(config::Visitor& v, BrokerConfig& c) {
  v.key("io_threads",
        &c.io_threads,
        {.doc = "Threads for the network. 0: as many as cores that the process may use, at most 4.",
         .min = 0,
         .max = 64});
  v.key("worker_threads",
        &c.worker_threads,
        {.doc = "Threads of each of: reads from disk, queries, administration.",
         .min = 1,
         .max = 64});
  v.key("send_queue_max",
        &c.send_queue_max,
        {.doc = "Sends that wait for the log or the disk; beyond, they are refused as busy.",
         .rocketmq = "sendThreadPoolQueueCapacity",
         .min = 1,
         .max = 10'000'000});
  v.key("send_queue_bytes_max",
        &c.send_queue_bytes_max,
        {.doc = "Memory of the sends that wait for the log.", .unit = "bytes", .min = 1 << 20});
  v.key("fast_failure",
        &c.fast_failure,
        {.doc = "Sends that waited too long are refused as busy.",
         .rocketmq = "brokerFastFailureEnable"});
  v.key("wait_in_send_queue_ms",
        &c.wait_in_send_queue_ms,
        {.doc = "A send that waited longer, for the log or unread, is refused as busy.",
         .rocketmq = "waitTimeMillsInSendQueue",
         .min = 10,
         .max = 600'000});
  v.key("reply_queue_max",
        &c.reply_queue_max,
        {.doc = "Replies that wait until their requesters have taken them.",
         .rocketmq = "replyThreadPoolQueueCapacity",
         .min = 1,
         .max = 10'000'000});
  v.key("pull_queue_max",
        &c.pull_queue_max,
        {.doc = "Pulls that wait for the disk.",
         .rocketmq = "pullThreadPoolQueueCapacity",
         .min = 1,
         .max = 10'000'000});
  v.key("query_queue_max",
        &c.query_queue_max,
        {.doc = "Queries that wait for a thread.",
         .rocketmq = "queryThreadPoolQueueCapacity",
         .min = 1,
         .max = 10'000'000});
  v.key("admin_queue_max",
        &c.admin_queue_max,
        {.doc = "Administrative requests that wait for a thread.",
         .rocketmq = "adminBrokerThreadPoolQueueCapacity",
         .min = 1,
         .max = 10'000'000});
  v.key("wait_in_pull_queue_ms",
        &c.wait_in_pull_queue_ms,
        {.doc = "A pull that waited longer for a thread is answered as busy.",
         .rocketmq = "waitTimeMillsInPullQueue",
         .min = 10,
         .max = 600'000});
  v.key("wait_in_transaction_queue_ms",
        &c.wait_in_transaction_queue_ms,
        {.doc = "The end of a transaction that waited longer for a thread is answered as busy.",
         .rocketmq = "waitTimeMillsInTransactionQueue",
         .min = 10,
         .max = 600'000});
}

}  // namespace

void describe(config::Visitor& v, BrokerConfig& c) {
  v.table("broker", "Who the broker is and where it is found.", [&] { describe_identity(v, c); });
  v.table("registration", "How the name servers are told.", [&] { describe_registration(v, c); });
  v.table("topics", "Topics and groups.", [&] { describe_topics(v, c); });
  v.table("send", "Messages that come in.", [&] { describe_send(v, c); });
  v.table("transactions", "Transactional messages.", [&] { describe_transactions(v, c); });
  v.table("timer", "Messages for any time.", [&] { describe_timer(v, c); });
  v.table("retention", "When messages are deleted.", [&] { describe_retention(v, c.retention); });
  v.table("pull", "Messages that go out.", [&] { describe_pull(v, c); });
  v.table("query", "Queries and consumers' offsets.", [&] { describe_query(v, c); });
  v.table("clients", "Connections.", [&] { describe_clients(v, c); });
  v.table("threads", "Threads and their queues.", [&] { describe_threads(v, c); });
}

}  // namespace tenon::app
