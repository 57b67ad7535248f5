// Light queues as topics: %LMQ%name has one queue and no entry in the table of topics; messages enter
// it by a property if the storage does that (spec: broker §19.10).
#pragma once

#include "append/log.h"
#include "meta/topics.h"

#include "tenon/base/config_node.h"

#include <cstdint>
#include <mutex>
#include <string_view>

namespace tenon::broker {

inline constexpr std::string_view kLightPrefix = "%LMQ%";

/// A name that can be a light queue's.
bool is_light_name(std::string_view name) noexcept;
/// The light queue of that name, 0 if no message entered it and nobody asked for it. Makes none.
tenon_queue find_light_queue(const Log& log, std::string_view name, std::int32_t queue_id) noexcept;
/// How many light queues the options of the storage allow (multi_dispatch, light_queues_max); 0 = it
/// has none.
std::uint32_t light_queues_max(const ConfigNode* storage_options);

/// Thread: any, once allow() was called.
class LightTopics {
 public:
  /// Thread: start.
  void allow(std::uint32_t max) { max_ = max; }
  /// Made at the first call for a name, and kept: a pull may wait for its first message.
  /// @return null if it is no light queue's name, or there are too many
  const Topic* find(std::string_view name);

 private:
  std::uint32_t max_ = 0;
  std::mutex mutex_;
  TopicMap topics_{};
};

}  // namespace tenon::broker
