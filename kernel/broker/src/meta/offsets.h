// Committed offsets of consumer groups: table and file consumerOffset.json (spec: broker §11), with
// light queues also lmqConsumerOffset.json, which a Java broker with enableLmq has instead (store §8).
#pragma once

#include "meta/json_file.h"
#include "util/hashing.h"

#include "tenon/base/result.h"
#include "tenon/proto/bodies.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace tenon::broker {

/// Thread: any.
class Offsets {
 public:
  explicit Offsets(const std::filesystem::path& store_root);

  /// Reads and writes lmqConsumerOffset.json too. Before load(). Thread: start
  void keep_light_file() { light_ = true; }
  Result<> load();  ///< Thread: start

  /// Trap: unconditional, may go backwards (broker §11). Does not allocate for a known queue.
  void commit(std::string_view group,
              std::string_view topic,
              std::int32_t queue_id,
              std::int64_t offset);
  std::int64_t query(std::string_view group,
                     std::string_view topic,
                     std::int32_t queue_id) const;  ///< -1 = none
  /// Committed offsets of one group and topic by queue; empty = none.
  std::map<std::int32_t, std::int64_t> queues_of(std::string_view group,
                                                 std::string_view topic) const;
  std::set<std::string> topics_of(std::string_view group) const;
  std::set<std::string> groups_of(std::string_view topic) const;
  void remove_group(std::string_view group);

  proto::ConsumerOffsetTable table() const;
  /// Writes the files if something changed since the last write; blocks on the disk.
  Result<> persist();

 private:
  using QueueOffsets = std::map<std::int32_t, std::int64_t>;
  struct Shard {
    mutable std::mutex mutex{};
    TextMap<QueueOffsets> offsets{};  ///< by topic@group
  };
  Shard& shard(std::string_view key) const;
  void changed() noexcept;
  Result<> load_light();
  std::string light_text() const;

  const std::filesystem::path config_;  ///< folder of the files
  JsonFile file_;
  JsonFile light_file_;
  bool light_ = false;
  mutable std::array<Shard, 16> shards_{};
  std::map<std::string, std::string> extra_{};
};

}  // namespace tenon::broker
