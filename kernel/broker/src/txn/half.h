// The records of a transaction: half, copy of a half, op, committed message (spec: broker §13, store
// §20).
#pragma once

#include "tenon/proto/message.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker {

inline constexpr std::string_view kHalfTopic = "RMQ_SYS_TRANS_HALF_TOPIC";
inline constexpr std::string_view kOpTopic = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
inline constexpr std::string_view kCheckMaxTopic = "TRANS_CHECK_MAX_TIME_TOPIC";
inline constexpr std::string_view kTransactionGroup = "CID_RMQ_SYS_TRANS";

namespace txn_prop {
/// Checks sent for this transaction. Ours counts real ones only.
inline constexpr std::string_view kCheckTimes = "TRANSACTION_CHECK_TIMES";
/// Queue offset of the transaction's first half, in every copy of it.
inline constexpr std::string_view kFirstOffset = "TRAN_PREPARED_QUEUE_OFFSET";
inline constexpr std::string_view kImmunity = "CHECK_IMMUNITY_TIME_IN_SECONDS";
}  // namespace txn_prop

/// A record of the half topic. Views into the log.
struct Half {
  proto::MessageView record{};
  std::string_view group{};
  std::string_view real_topic{};
  std::string_view uniq_key{};
  std::int32_t real_queue_id = 0;
  std::int64_t root = 0;         ///< queue offset of the first record of this transaction
  std::int64_t immunity_s = -1;  ///< -1 = absent or not a number
  std::uint32_t checks = 0;      ///< asked so often before

  bool is_copy() const noexcept { return root != record.queue_offset || checks > 0; }
};
/// @return nothing if it is no record of the half topic or lacks its real topic. Does not allocate.
std::optional<Half> read_half(const proto::MessageView& record) noexcept;

/// Properties of a copy that stands for the transaction from now on.
std::string copy_properties(const Half& half, std::uint32_t checks);
/// Properties of a half that starts anew, without its history.
std::string fresh_properties(std::string_view properties);
/// Properties of the committed message: those of the half without the link to its first record.
std::string commit_properties(const Half& half);

/// Fields that a record made of a half takes over; topic, queue and properties are the caller's.
proto::MessageRecord record_of(const proto::MessageView& view) noexcept;

/// Body of an op record: "17" as 4.x writes it, "17,18,25," as 5.x does.
std::string op_body(std::span<const std::int64_t> offsets, bool batched);
/// Reads both forms; what is no offset is left out. @return false if something was left out
bool parse_op_body(std::string_view body, std::vector<std::int64_t>& out);

}  // namespace tenon::broker
