// The properties text of a message: name U+0001 value U+0002 name U+0001 value … (spec: remoting
// §9.2, store §3.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::proto {

inline constexpr char kNameValueSeparator = '\x01';
inline constexpr char kPropertySeparator = '\x02';

/// Property names (spec: remoting §9.2).
namespace prop {
inline constexpr std::string_view kKeys = "KEYS";
inline constexpr std::string_view kTags = "TAGS";
inline constexpr std::string_view kWait = "WAIT";
inline constexpr std::string_view kDelay = "DELAY";
inline constexpr std::string_view kRetryTopic = "RETRY_TOPIC";
inline constexpr std::string_view kRealTopic = "REAL_TOPIC";
inline constexpr std::string_view kRealQueueId = "REAL_QID";
inline constexpr std::string_view kTransactionPrepared = "TRAN_MSG";
inline constexpr std::string_view kProducerGroup = "PGROUP";
inline constexpr std::string_view kUniqKey = "UNIQ_KEY";
inline constexpr std::string_view kOriginMessageId = "ORIGIN_MESSAGE_ID";
inline constexpr std::string_view kReconsumeTime = "RECONSUME_TIME";
inline constexpr std::string_view kMaxReconsumeTimes = "MAX_RECONSUME_TIMES";
inline constexpr std::string_view kConsumeStartTime = "CONSUME_START_TIME";
inline constexpr std::string_view kMinOffset = "MIN_OFFSET";
inline constexpr std::string_view kMaxOffset = "MAX_OFFSET";
inline constexpr std::string_view kCluster = "CLUSTER";
inline constexpr std::string_view kMsgRegion = "MSG_REGION";
inline constexpr std::string_view kTraceSwitch = "TRACE_ON";
inline constexpr std::string_view kInstanceId = "INSTANCE_ID";
inline constexpr std::string_view kCorrelationId = "CORRELATION_ID";
inline constexpr std::string_view kReplyToClient = "REPLY_TO_CLIENT";
inline constexpr std::string_view kTtl = "TTL";
inline constexpr std::string_view kMsgType = "MSG_TYPE";
inline constexpr std::string_view kInnerMultiDispatch = "INNER_MULTI_DISPATCH";
inline constexpr std::string_view kInnerMultiQueueOffset = "INNER_MULTI_QUEUE_OFFSET";
inline constexpr std::string_view kTimerDelaySec = "TIMER_DELAY_SEC";
inline constexpr std::string_view kTimerDelayMs = "TIMER_DELAY_MS";
inline constexpr std::string_view kTimerDeliverMs = "TIMER_DELIVER_MS";
inline constexpr std::string_view kTimerOutMs = "TIMER_OUT_MS";
inline constexpr std::string_view kTimerEnqueueMs = "TIMER_ENQUEUE_MS";
inline constexpr std::string_view kTimerDequeueMs = "TIMER_DEQUEUE_MS";
inline constexpr std::string_view kTimerRollTimes = "TIMER_ROLL_TIMES";
inline constexpr std::string_view kTimerDelUniqKey = "TIMER_DEL_UNIQKEY";
}  // namespace prop

/// Walks a properties text in place by the decoder's rules: items shorter than three characters,
/// empty names and empty values are skipped. `for (PropertyIterator it(text); it.next();)
/// use(it.name(), it.value());` Does not allocate. Thread: any.
class PropertyIterator {
 public:
  explicit PropertyIterator(std::string_view text) noexcept
      : rest_(text) {}
  bool next() noexcept;
  std::string_view name() const noexcept { return name_; }
  std::string_view value() const noexcept { return value_; }

 private:
  std::string_view rest_;
  std::string_view name_{};
  std::string_view value_{};
};

/// Last non-empty value of a property; nullopt if absent. Does not allocate.
std::optional<std::string_view> find_property(std::string_view text,
                                              std::string_view name) noexcept;

/// Appends one property, with a separator before it if `text` is not empty and does not end with
/// one. Empty values are skipped.
void append_property(std::string& text, std::string_view name, std::string_view value);

/// Copy of `text` without the property `name`. Order of the others is kept, the trailing separator
/// dropped.
std::string without_property(std::string_view text, std::string_view name);

using PropertyList = std::vector<std::pair<std::string, std::string>>;
PropertyList decode_properties(std::string_view text);  ///< later duplicates replace earlier ones
std::string encode_properties(const PropertyList& properties);

/// Java's String.hashCode of a UTF-8 text (computed over its UTF-16 code units). Invalid bytes
/// count as U+FFFD. Thread: any.
std::int32_t java_hash(std::string_view utf8) noexcept;

/// Tags code of a message: hash of TAGS, 0 without (spec: store §5.1; single-tag rule).
std::int64_t tags_code_of(std::string_view properties) noexcept;

}  // namespace tenon::proto
