// The topics of this broker: table, file topics.json, automatic creation (spec: broker §4, §5.2).
#pragma once

#include "meta/json_file.h"
#include "util/hashing.h"
#include "util/published.h"

#include "tenon/abi/plugin.h"
#include "tenon/base/clock.h"
#include "tenon/base/result.h"
#include "tenon/broker/config.h"
#include "tenon/proto/bodies.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace tenon::broker {

inline constexpr std::string_view kScheduleTopic = "SCHEDULE_TOPIC_XXXX";
/// Holds messages for any time; one queue.
inline constexpr std::string_view kTimerTopic = "rmq_sys_wheel_timer";
inline constexpr std::string_view kDefaultTopic = "TBW102";
inline constexpr std::string_view kOffsetMovedTopic = "OFFSET_MOVED_EVENT";
inline constexpr std::string_view kRetryPrefix = "%RETRY%";
inline constexpr std::string_view kDlqPrefix = "%DLQ%";

/// A topic as requests see it: an immutable configuration and the storage handles of its queues.
/// Handles are opened on first use and belong to this object; a changed topic is a new object.
class Topic {
 public:
  explicit Topic(proto::TopicConfig config);
  const proto::TopicConfig& config() const noexcept { return config_; }
  const std::string& name() const noexcept { return config_.name; }
  /// Queues that may be addressed: max(read, write).
  std::uint32_t queue_count() const noexcept { return queue_count_; }
  bool readable() const noexcept { return (config_.perm & proto::kPermRead) != 0; }
  bool writable() const noexcept { return (config_.perm & proto::kPermWrite) != 0; }
  bool multi_tag() const noexcept { return multi_tag_; }

  /// 0 = not opened yet. Thread: any.
  tenon_queue handle(std::uint32_t queue_id) const noexcept {
    return handles_[queue_id].load(std::memory_order_acquire);
  }
  void set_handle(std::uint32_t queue_id, tenon_queue handle) const noexcept {
    handles_[queue_id].store(handle, std::memory_order_release);
  }

 private:
  proto::TopicConfig config_;
  std::uint32_t queue_count_;
  bool multi_tag_;
  std::unique_ptr<std::atomic<tenon_queue>[]> handles_;
};
using TopicPtr = std::shared_ptr<const Topic>;
using TopicMap = TextMap<TopicPtr>;

/// Thread: any. Functions that say "persists" block on the disk.
class Topics {
 public:
  Topics(const BrokerConfig& config, const Clock& clock);

  /// The topics that every broker has, then what the file holds (which wins). Thread: start.
  Result<> load();
  const Published<TopicMap>& published() const noexcept { return published_; }
  TopicPtr find(std::string_view name) const;

  /// Automatic creation on a send (spec §5.2); persists. @return null if it may not be created
  TopicPtr create_for_send(std::string_view topic,
                           std::string_view default_topic,
                           std::int32_t wanted_queues,
                           std::int32_t sys_flag);
  /// Adds the topic if there is none of that name. Does not persist: see persist().
  TopicPtr add_if_absent(proto::TopicConfig config);
  /// Replaces or adds; persists. @return error if the file could not be written
  Result<> update(proto::TopicConfig config);
  /// Removes; persists. @return false if it was unknown
  Result<bool> remove(std::string_view name);
  /// The broker's permission, which limits that of all topics, is another one: name servers must
  /// take all of them anew.
  void permission_changed();
  /// Sets `order` of exactly the topics of the table (spec §4.3). Does not persist.
  void set_order_topics(const proto::KvTable& table);

  /// Writes the file if something changed since the last write.
  Result<> persist();

  bool is_system(std::string_view name) const;  ///< may not be created or deleted by tools
  std::set<std::string> system_topics() const { return system_; }
  static bool not_sendable(std::string_view name) noexcept;

  proto::TopicTable table() const;  ///< consistent copy with its version
  proto::DataVersion version() const;

  /// Called after each change, outside of all locks. Set before serving.
  void on_change(std::function<void()> listener) { listener_ = std::move(listener); }

 private:
  void add_builtin();
  void put_locked(proto::TopicConfig config);
  void publish_locked();
  void bump_locked();
  TopicPtr create_locked(std::string_view topic,
                         std::string_view default_topic,
                         std::int32_t wanted_queues,
                         std::int32_t sys_flag);
  void persist_or_log();

  const BrokerConfig& config_;
  const Clock& clock_;
  JsonFile file_;
  mutable std::mutex mutex_;  ///< table, version
  TopicMap topics_{};
  proto::DataVersion version_{};
  std::map<std::string, std::string> extra_{};
  Published<TopicMap> published_;
  std::set<std::string> system_{};
  std::function<void()> listener_{};
};

}  // namespace tenon::broker
