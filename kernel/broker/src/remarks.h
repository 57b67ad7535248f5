// Remark texts that users and tools know, with the Java class they come from (spec: broker §3, §5
// to §15). Everything else of the broker that goes into a remark is free text.
#pragma once

#include <string_view>

namespace tenon::broker::remark {

// NettyRemotingAbstract
inline constexpr std::string_view kOverload =
    "[OVERLOAD]system busy, start flow control for a while";
inline constexpr std::string_view kRejectRequest =
    "[REJECTREQUEST]system busy, start flow control for a while";
inline constexpr std::string_view kNotSupported = " request type {} not supported";
// BrokerFastFailure
inline constexpr std::string_view kTimeoutCleanQueue =
    "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: {}ms, size "
    "of queue: {}";
inline constexpr std::string_view kPageCacheCleanQueue =
    "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: {}ms, size "
    "of queue: {}";
// SendMessageProcessor, AbstractSendMessageProcessor
inline constexpr std::string_view kPageCacheBusy =
    "[PC_SYNCHRONIZED]broker busy, start flow control for a while";
inline constexpr std::string_view kNotYetInService = "broker unable to service, until {}";
inline constexpr std::string_view kBrokerSendForbidden =
    "the broker[{}] sending message is forbidden";
inline constexpr std::string_view kTransactionForbidden =
    "the broker[{}] sending transaction message is forbidden";
inline constexpr std::string_view kTopicSendForbidden =
    "Sending message to topic[{}] is forbidden.";
inline constexpr std::string_view kTopicNotExist =
    "topic[{}] not exist, apply first please!\nSee http://rocketmq.apache.org/docs/faq/ for "
    "further details.";
/// PullMessageProcessor has a blank before the line end, SendMessageProcessor has none.
inline constexpr std::string_view kPullTopicNotExist =
    "topic[{}] not exist, apply first please! \nSee http://rocketmq.apache.org/docs/faq/ for "
    "further details.";
inline constexpr std::string_view kQueueIdIllegal =
    "request queueId[{}] is illegal, TopicConfig [topicName={}, readQueueNums={}, "
    "writeQueueNums={}, perm={}, topicFilterType={}, topicSysFlag={}, order={}] Producer: {}";
inline constexpr std::string_view kBatchCut =
    "java.nio.BufferUnderflowException, the batch ends inside a message";
inline constexpr std::string_view kBatchTopicTooLong = "message topic length too long {}";
inline constexpr std::string_view kMessageIllegal =
    "the message is illegal, maybe msg body or properties length not matched. msg body length "
    "limit {}B, msg properties length limit 32KB.";
inline constexpr std::string_view kServiceNotAvailable =
    "service not available now. It may be caused by one of the following reasons: the broker's "
    "disk is full [{}], messages are put to the slave, message store has been shut down, etc.";
inline constexpr std::string_view kCreateFileFailed =
    "create mapped file failed, server is busy or broken.";
inline constexpr std::string_view kUnknownError = "UNKNOWN_ERROR";
inline constexpr std::string_view kGroupNotExist =
    "subscription group not exist, {} \nSee http://rocketmq.apache.org/docs/faq/ for further "
    "details.";
inline constexpr std::string_view kPullGroupNotExist =
    "subscription group [{}] does not exist, \nSee http://rocketmq.apache.org/docs/faq/ for "
    "further "
    "details.";
inline constexpr std::string_view kTopicNotWritable = "the topic[{}] sending message is forbidden";
inline constexpr std::string_view kLookMessageFailed = "look message by offset failed, {}";
// ReplyMessageProcessor
inline constexpr std::string_view kReplyToClientNull =
    "reply message properties[REPLY_TO_CLIENT] is null";
inline constexpr std::string_view kReplyClientNotFound =
    "push reply message fail, channel of <{}> not found.";
inline constexpr std::string_view kReplyPushFailed = "push reply message to {}fail.";
inline constexpr std::string_view kTimerIllegal =
    "timer message illegal, the delay time should not be bigger than the max delay {}ms; or if set "
    "del msg, the delay time should be bigger than the current time";
inline constexpr std::string_view kTimerNotEnabled =
    "accurate timer message is not enabled, timerWheelEnable is {}";
// RecallMessageProcessor
inline constexpr std::string_view kRecallForbidden = "recall failed, operation is forbidden";
inline constexpr std::string_view kRecallNotAvailable =
    "recall failed, broker service not available";
inline constexpr std::string_view kRecallTopicNotExist = "recall failed, the topic[{}] not exist";
inline constexpr std::string_view kRecallTopicNotMatch = "recall failed, topic not match";
inline constexpr std::string_view kRecallTimeInvalid = "recall failed, timestamp invalid";
inline constexpr std::string_view kRecallExecuteError = "recall failed, execute error";
// TopicValidator
inline constexpr std::string_view kSystemTopicConflict =
    "The topic[{}] is conflict with system topic.";
// PullMessageProcessor
inline constexpr std::string_view kBrokerPullForbidden =
    "the broker[{}] pulling message is forbidden";
inline constexpr std::string_view kGroupNoPermission = "subscription group no permission, {}";
inline constexpr std::string_view kTopicPullForbidden =
    "the topic[{}] pulling message is forbidden";
inline constexpr std::string_view kPullQueueIdIllegal =
    "queueId[{}] is illegal, topic:[{}] topicConfig.readQueueNums:[{}] consumer:[/{}]";
inline constexpr std::string_view kParseSubscriptionFailed =
    "parse the consumer's subscription failed";
inline constexpr std::string_view kGroupInfoNotExist =
    "the consumer's group info not exist\nSee "
    "http://rocketmq.apache.org/docs/faq/ for "
    "further details.";
inline constexpr std::string_view kNoBroadcast =
    "the consumer group[{}] can not consume by broadcast way";
inline constexpr std::string_view kSubscriptionNotExist =
    "the consumer's subscription not exist\nSee http://rocketmq.apache.org/docs/faq/ for further "
    "details.";
inline constexpr std::string_view kSubscriptionNotLatest = "the consumer's subscription not latest";
inline constexpr std::string_view kFilterDataNotExist =
    "The broker's consumer filter data is not exist!Your expression may be wrong!";
inline constexpr std::string_view kFilterNotSupported =
    "The broker does not support consumer to filter message by {}";
inline constexpr std::string_view kStoreReturnedNull = "store getMessage return null";
// EndTransactionProcessor, EndTransactionRequestHeader
inline constexpr std::string_view kHalfNotFound = "Find prepared transaction message failed";
inline constexpr std::string_view kHalfGroupWrong = "The producer group wrong";
inline constexpr std::string_view kHalfTableOffsetWrong =
    "The transaction state table offset wrong";
inline constexpr std::string_view kHalfLogOffsetWrong = "The commit log offset wrong";
inline constexpr std::string_view kTransactionStateWrong = "commitOrRollback field wrong";
inline constexpr std::string_view kTransactionOnSlave =
    "Message store is slave mode, so end transaction is forbidden. ";
inline constexpr std::string_view kResumeFailed =
    "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed.";
// ConsumerManageProcessor
inline constexpr std::string_view kNoConsumer = "no consumer for this group, {}";
inline constexpr std::string_view kOffsetNotFound =
    "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first";
// QueryMessageProcessor
inline constexpr std::string_view kQueryNotFound =
    "can not find message, maybe time range not correct";
inline constexpr std::string_view kViewNotFound = "can not find message by the offset, {}";
// AdminBrokerProcessor
/// What Java's constructor puts in and some successful answers keep (remoting §1.8).
inline constexpr std::string_view kNotSet = "not set any response code";
inline constexpr std::string_view kTopicUnknown = "topic[{}] not exist";
inline constexpr std::string_view kGroupNotOnline = "the consumer group[{}] not online";
inline constexpr std::string_view kProducerGroupUnknown = "the producer group[{}] not exist";
inline constexpr std::string_view kBlackListed = "Can not update config in black list.";
inline constexpr std::string_view kStatsUnknown = "The stats <{}> <{}> not exist";
inline constexpr std::string_view kConsumerNotOnline = "The Consumer <{}> <{}> not online";
inline constexpr std::string_view kConsumerTooOld =
    "The Consumer <{}> <{}> is too old for this request, it needs V3_1_8";
inline constexpr std::string_view kConsumerTimeout = "consumer <{}> <{}> Timeout: {}";
inline constexpr std::string_view kNoSuchQueue = "{}@{} is not exist!";
inline constexpr std::string_view kNoSuchIndex = "Index {} of {}@{} is not exist!";
// Broker2Client
inline constexpr std::string_view kResetNoGroup = "THe consumer group <{}> not exist";
inline constexpr std::string_view kResetNotOnline =
    "Consumer not online, so can not reset offset, Group: {} Topic: {} Timestamp: {}";
inline constexpr std::string_view kResetRange =
    "the offset {} is not between {} and {} of queue {}";
inline constexpr std::string_view kNobodyOnline =
    "No Any Consumer online in the consumer group: [{}]";
inline constexpr std::string_view kClientTooOld =
    "the client does not support this feature. client={} version={}";

}  // namespace tenon::broker::remark
