// Figures of a store without reading it whole.
#pragma once

#include "tenon/store_tool/folder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::store_tool {

struct QueueStat {
  std::uint32_t id = 0;
  std::int64_t min_offset = 0;  ///< first message that the log still has
  std::int64_t max_offset = 0;  ///< behind the last
};
struct TopicStat {
  std::string topic{};
  std::vector<QueueStat> queues{};
  std::uint64_t messages() const noexcept;
};
struct Stat {
  std::uint64_t log_min = 0;
  std::uint64_t log_end = 0;
  std::int64_t first_store_ms = 0;  ///< 0 without messages
  std::int64_t last_store_ms = 0;
  std::uint64_t queue_bytes = 0;  ///< of all files, as they are long
  std::uint64_t ext_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t index_items = 0;
  std::uint64_t disk_bytes = 0;  ///< blocks that log, queues and index take
  std::vector<TopicStat> topics{};
};
/// Reads the last log file and a few pages of every queue.
Stat stat_of(const Folder& folder);

}  // namespace tenon::store_tool
