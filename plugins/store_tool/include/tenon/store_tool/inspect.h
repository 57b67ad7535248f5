// Every record, unit and index entry of a folder against each other (spec: store §3 to §6, §13).
#pragma once

#include "tenon/base/result.h"
#include "tenon/proto/message.h"
#include "tenon/store_tool/finding.h"
#include "tenon/store_tool/folder.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::store_tool {

/// Told how much of the work is done, in bytes; false stops it (kCancelled).
using ProgressSink = std::function<bool(std::uint64_t done, std::uint64_t total)>;

/// Delivery times of the delay levels: the tags codes of the schedule topic (spec: store §18).
class DelayTable {
 public:
  /// "1s 5s 10s": level 1 is the first. @return kInvalid naming the malformed item
  static Result<DelayTable> parse(std::string_view text);
  std::int64_t deliver_ms(std::uint32_t level, std::int64_t store_ms) const noexcept;
  /// What a queue unit of the record has when there is no extension.
  std::int64_t tags_code(const proto::MessageView& m) const noexcept;

 private:
  std::vector<std::int64_t> delays_ms_{};
};
inline constexpr std::string_view kDefaultDelayLevels =
    "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";

struct InspectOptions {
  bool check_crc = true;
  DelayTable delays{};
  std::uint32_t per_place = 10;  ///< findings of one kind and file that are passed on
  FindingSink sink{};
  ProgressSink progress{};
};

/// A queue as the log and as its files have it.
struct QueueState {
  bool in_log = false;
  std::int64_t log_first = 0;  ///< offset of its first record in the log
  std::int64_t log_next = 0;   ///< behind its last
  std::uint64_t records = 0;
  std::int64_t last_store_ms = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>>
      gaps{};  ///< offsets without a record, [first, end)
  std::int64_t file_begin = 0;
  std::int64_t file_end = 0;
  bool has_files = false;
  bool wrong = false;  ///< has to be made anew, or goes on at the next start
  /// Units before log_first that are right: [file_begin, expired_end).
  std::int64_t expired_end = 0;
};

/// Where recovery ends the log, if that is not its end.
struct LogCut {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;    ///< of data behind it
  std::uint64_t records = 0;  ///< whole records that go with it
};

struct Inspection {
  std::uint64_t log_min = 0;
  std::uint64_t log_end = 0;  ///< behind the last record
  std::uint64_t records = 0;
  std::uint64_t record_bytes = 0;
  std::uint64_t bad_records = 0;  ///< body does not fit its CRC
  std::uint64_t damages = 0;      ///< stretches without a record
  std::int64_t first_store_ms = 0;
  std::int64_t last_store_ms = 0;
  std::map<QueueKey, QueueState> queues{};
  std::uint64_t units = 0;
  std::uint64_t index_items = 0;
  bool index_wrong = false;
  std::optional<LogCut> cut{};
  std::uint64_t errors = 0;
  std::uint64_t warnings = 0;
};

/// Findings go to the sink as they come. Reads everything once; memory is some bytes for each queue.
/// @return kCancelled
Result<Inspection> inspect(const Folder& folder, const InspectOptions& options);

}  // namespace tenon::store_tool
