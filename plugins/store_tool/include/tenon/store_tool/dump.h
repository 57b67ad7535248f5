// Messages, units and index entries one by one, as they are stored.
#pragma once

#include "tenon/base/result.h"
#include "tenon/store_tool/folder.h"
#include "tenon/store_tool/inspect.h"
#include "tenon/store_tool/log_walk.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

namespace tenon::store_tool {

/// What is wanted; bounds are included.
struct Filter {
  std::string topic{};  ///< empty: all
  std::optional<std::uint32_t> queue_id{};
  std::int64_t from_offset = 0;
  std::int64_t to_offset = std::numeric_limits<std::int64_t>::max();
  std::int64_t from_ms = std::numeric_limits<std::int64_t>::min();
  std::int64_t to_ms = std::numeric_limits<std::int64_t>::max();
  std::string key{};  ///< one of KEYS, or UNIQ_KEY; empty: all
  bool scan = false;  ///< read the log, whatever queues and index say
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
};
bool matches(const Filter& filter, const proto::MessageView& m);

/// False stops.
using MessageSink = std::function<bool(const proto::MessageView&)>;
/// Of a key with its topic through the index, of a topic through its queues, else (and with `scan`)
/// in the order of the log. Half and rollback messages are in the log only.
/// @return how many
std::uint64_t dump_messages(const Folder& folder,
                            const Filter& filter,
                            const MessageSink& sink,
                            const ProgressSink& progress = {});

struct UnitLine {
  const QueueFiles* queue = nullptr;
  std::int64_t offset = 0;
  store_format::Unit unit{};
  std::optional<store_format::ExtUnit> ext{};
};
/// By topic, queue and offset; times and keys are not looked at.
std::uint64_t dump_units(const Folder& folder,
                         const Filter& filter,
                         const std::function<bool(const UnitLine&)>& sink);

struct IndexLine {
  const IndexFileView* file = nullptr;
  std::uint32_t number = 0;
  std::uint32_t slot = 0;
  store_format::IndexItem item{};
  std::int64_t store_ms = 0;  ///< to the second
};
/// With topic and key, only entries of that hash; by time. Other members are not looked at.
std::uint64_t dump_index(const Folder& folder,
                         const Filter& filter,
                         const std::function<bool(const IndexLine&)>& sink);

}  // namespace tenon::store_tool
