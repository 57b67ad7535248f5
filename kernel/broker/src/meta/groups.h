// Consumer group settings: table and file subscriptionGroup.json (spec: broker §4.4).
#pragma once

#include "meta/json_file.h"
#include "util/hashing.h"
#include "util/published.h"

#include "tenon/base/clock.h"
#include "tenon/base/result.h"
#include "tenon/broker/config.h"
#include "tenon/proto/bodies.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace tenon::broker {

using GroupPtr = std::shared_ptr<const proto::SubscriptionGroupConfig>;
using GroupMap = TextMap<GroupPtr>;

/// Thread: any. Functions that say "persists" block on the disk.
class Groups {
 public:
  Groups(const BrokerConfig& config, const Clock& clock);

  Result<> load();  ///< Thread: start
  const Published<GroupMap>& published() const noexcept { return published_; }

  GroupPtr find(std::string_view name) const;
  /// As find(); creates the default entry where that is allowed (does not persist, but calls the
  /// change listener). @return null: answer 26
  GroupPtr find_or_create(std::string_view name);
  Result<> update(proto::SubscriptionGroupConfig config);  ///< replaces or adds; persists
  Result<bool> remove(std::string_view name);              ///< persists; false = was unknown
  Result<> persist();  ///< writes the file if something changed since the last write
  proto::SubscriptionGroupTable table() const;

  /// Called after an automatic creation, outside of all locks. Set before serving.
  void on_change(std::function<void()> listener) { listener_ = std::move(listener); }

 private:
  void put_locked(proto::SubscriptionGroupConfig config);
  void bump_locked();

  const BrokerConfig& config_;
  const Clock& clock_;
  JsonFile file_;
  mutable std::mutex mutex_;
  GroupMap groups_{};
  proto::DataVersion version_{};
  std::map<std::string, std::string> extra_{};
  Published<GroupMap> published_;
  std::function<void()> listener_{};
};

}  // namespace tenon::broker
