#include "meta/light_topics.h"

#include "tenon/base/log.h"
#include "tenon/host/plugin_registry.h"
#include "tenon/proto/message.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>

namespace tenon::broker {

bool is_light_name(std::string_view name) noexcept {
  return name.starts_with(kLightPrefix) && name.size() > kLightPrefix.size() &&
         name.size() <= proto::kTopicMaxBytes && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

tenon_queue find_light_queue(const Log& log,
                             std::string_view name,
                             std::int32_t queue_id) noexcept {
  tenon_queue queue = 0;
  const auto& storage = log.storage();
  if (queue_id != 0 || !is_light_name(name) ||
      storage->open_queue(storage.self, host::abi_str(name), 0, 0, &queue, nullptr) < 0) {
    return 0;
  }
  return queue;
}

std::uint32_t light_queues_max(const ConfigNode* storage_options) {
  constexpr std::int64_t kDefault = 20'000;  // maxLmqConsumeQueueNum
  if (storage_options == nullptr) {
    return 0;
  }
  const ConfigNode* on = storage_options->find("multi_dispatch");
  const auto* yes = on == nullptr ? nullptr : std::get_if<bool>(&on->value);
  if (yes == nullptr || !*yes) {
    return 0;
  }
  const ConfigNode* max = storage_options->find("light_queues_max");
  const auto* number = max == nullptr ? nullptr : std::get_if<std::int64_t>(&max->value);
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(
      number == nullptr ? kDefault : *number, 0, std::numeric_limits<std::int32_t>::max()));
}

const Topic* LightTopics::find(std::string_view name) {
  if (max_ == 0 || !is_light_name(name)) {
    return nullptr;
  }
  const std::scoped_lock lock(mutex_);
  if (const auto known = topics_.find(name); known != topics_.end()) {
    return known->second.get();
  }
  if (topics_.size() >= max_) {
    log_debug("broker", "too many light queues topic={}", name);
    return nullptr;
  }
  proto::TopicConfig config;
  config.name = std::string(name);
  config.read_queue_count = 1;
  config.write_queue_count = 1;
  auto topic = std::make_shared<const Topic>(std::move(config));
  return topics_.emplace(topic->name(), topic).first->second.get();
}

}  // namespace tenon::broker
