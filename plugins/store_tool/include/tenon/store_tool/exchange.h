// Topics from one store to another, and the log of a DLedger broker into a plain store.
//
// An exported file: a line of JSON, then records as they lie in a log, then the end mark.
//
//   {"format":"tenon-store-export/1","topics":{"T":{settings as in topics.json}}}\n
//   record …
//   4  16           length of the end mark
//   4  0xCBD43194   as a filler in the log
//   8  records before it
#pragma once

#include "tenon/base/result.h"
#include "tenon/proto/message.h"
#include "tenon/store_tool/dump.h"
#include "tenon/store_tool/inspect.h"
#include "tenon/store_tool/repair.h"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::store_tool {

struct Exchanged {
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::set<std::string> topics{};
};

/// Writes the records of the topics, in the order of the log, with their settings, to a new file.
/// The filter's topic is not looked at.
/// @return kNotFound: a topic has nothing in the store; kConflict: the file exists
Result<Exchanged> export_topics(const Folder& folder,
                                const std::set<std::string>& topics,
                                const Filter& filter,
                                const std::string& file,
                                const ProgressSink& progress);

/// Walks an exported file in memory. Thread: any, one at a time.
class ExportReader {
 public:
  /// @return kIncompatible: no exported file
  static Result<ExportReader> open(std::span<const std::uint8_t> content);
  std::string_view header() const noexcept { return header_; }
  /// The bytes of the next record; empty behind the last one.
  /// @return kCorrupt: damaged, or the end is missing
  Result<std::span<const std::uint8_t>> next();

 private:
  ExportReader(std::string_view header, std::span<const std::uint8_t> rest)
      : header_(header),
        rest_(rest) {}
  std::string_view header_;
  std::span<const std::uint8_t> rest_;
  std::uint64_t seen_ = 0;
};

struct ImportOptions {
  bool append = false;  ///< queues that have messages are continued, with the time of now
  std::set<std::string> topics{};             ///< only these; empty: all
  std::uint64_t log_file_bytes = 1ull << 30;  ///< of a new store
  std::uint64_t queue_file_bytes = 6'000'000;
  store_format::IndexShape index_shape{5'000'000, 20'000'000};
  store_format::LogFolders log_folders{};  ///< as in OpenOptions
  DelayTable delays{};
  std::int64_t wall_ms = 0;
  ProgressSink progress{};
};

/// Appends the records of an exported file to a store (made if it is not there) with their offsets and
/// times, and adds settings of topics that it does not know. Queues and index follow.
/// @return kConflict: a queue has messages (and not `append`), or a broker uses the store; kCorrupt: the
/// file or the store is damaged (the whole file is read before anything is written)
Result<Exchanged> import_topics(const std::string& root,
                                const std::string& file,
                                const ImportOptions& options);

struct DledgerOptions {
  std::uint64_t log_file_bytes = 0;  ///< 0: as the source has it
  store_format::IndexShape index_shape{5'000'000, 20'000'000};
  DelayTable delays{};
  std::int64_t wall_ms = 0;
  FindingSink sink{};
  ProgressSink progress{};
};
struct DledgerResult : Exchanged {
  std::string source{};  ///< the folder that was read: the one that is ahead
  std::int64_t end_term = -1;
  std::int64_t end_index = -1;
};
/// Makes a plain store of the log of a stopped DLedger group: messages, queue offsets, settings and
/// consumer offsets are the same, positions in the log are not. Of several folders (members of the group)
/// the one with the greatest end term and index is taken. Sources are read only.
/// @return kConflict: `to` is not empty, or a broker uses the source; kNotFound: no DLedger folder
Result<DledgerResult> import_dledger(const std::vector<std::string>& roots,
                                     const std::string& to,
                                     const DledgerOptions& options);

}  // namespace tenon::store_tool
