// What the timer properties of 5.x clients mean, and the handle with which a timer message is
// recalled (spec: broker §12.3, store §19, client §4.12). Pure functions.
#pragma once

#include "tenon/base/result.h"
#include "tenon/proto/message.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::broker {

inline constexpr std::string_view kRecallTag = "_RECALL_TAG_";
/// Free room that the properties of a timer message need for what its delivery adds.
inline constexpr std::size_t kTimerGrowthBytes = 96;

/// The three wishes of a client, in the order in which the first one counts.
struct TimerWish {
  std::string_view delay_sec{};   ///< TIMER_DELAY_SEC
  std::string_view delay_ms{};    ///< TIMER_DELAY_MS
  std::string_view deliver_ms{};  ///< TIMER_DELIVER_MS
  bool rewritten = false;  ///< TIMER_OUT_MS is there: delivered once before, no wish any more

  bool any() const noexcept {
    return !rewritten && !(delay_sec.empty() && delay_ms.empty() && deliver_ms.empty());
  }
};
enum class TimerFate : std::uint8_t {
  kNow,      ///< due already: an ordinary message
  kLater,    ///< into the timer topic
  kIllegal,  ///< not a number, or beyond the horizon
};
struct TimerDecision {
  TimerFate fate = TimerFate::kNow;
  std::int64_t out_ms = 0;  ///< TIMER_OUT_MS of a later one: a millisecond before its time
};
TimerDecision decide_timer(const TimerWish& wish,
                           std::int64_t now_ms,
                           std::int64_t max_delay_ms) noexcept;

/// A record of the timer topic, ours or a 5.x broker's.
struct TimerRecord {
  std::int64_t out_ms = 0;  ///< TIMER_OUT_MS, at a 5.x broker rounded down to a second
  std::int64_t due_ms = 0;  ///< exact as far as the record tells, never early, at most 1 s late
  std::int32_t roll_times = 0;
  std::string_view recalled{};  ///< TIMER_DEL_UNIQKEY: not a message but the recall of one
};
/// @return nullopt if it has no usable TIMER_OUT_MS. Views into `properties`.
std::optional<TimerRecord> read_timer_record(std::string_view properties,
                                             std::int64_t store_ms) noexcept;

/// When the record is looked at again: its time, a recall a little earlier, and not later than
/// `roll_ms` after it was stored, because the log does not keep it for ever.
std::int64_t look_at_ms(const TimerRecord& record, std::int64_t store_ms, std::int64_t roll_ms);

/// A record that ends the entry at `origin` of the timer queue, by delivery or by rolling, says so
/// in its prepared offset. Transactions use numbers from 0 up there.
constexpr std::int64_t ends_entry(std::int64_t origin) noexcept {
  return -1 - origin;
}
/// The same back; nullopt for any other record.
constexpr std::optional<std::int64_t> ended_entry(std::int64_t prepared_offset) noexcept {
  return prepared_offset < 0 ? std::optional(-1 - prepared_offset) : std::nullopt;
}

/// Topic and unique key of a message, as TIMER_DEL_UNIQKEY has it.
std::string recall_key(std::string_view topic, std::string_view uniq_key);

struct RecallHandle {
  std::string topic{};
  std::string broker_name{};
  std::int64_t timestamp_ms = -1;  ///< TIMER_OUT_MS + 1; -1 = not a number
  std::string uniq_key{};
};
std::string encode_recall_handle(const RecallHandle& handle);
/// @return kInvalid with Java's remark
Result<RecallHandle> decode_recall_handle(std::string_view text);

}  // namespace tenon::broker
