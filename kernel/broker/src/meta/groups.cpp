#include "meta/groups.h"

#include "meta/json_file.h"

#include "tenon/base/log.h"

#include <array>
#include <utility>

namespace tenon::broker {
namespace {

constexpr std::array<std::string_view, 7> kPredefined{"TOOLS_CONSUMER",
                                                      "FILTERSRV_CONSUMER",
                                                      "SELF_TEST_C_GROUP",
                                                      "CID_ONS-HTTP-PROXY",
                                                      "CID_ONSAPI_PULL",
                                                      "CID_ONSAPI_PERMISSION",
                                                      "CID_ONSAPI_OWNER"};

}  // namespace

Groups::Groups(const BrokerConfig& config, const Clock& clock)
    : config_(config),
      clock_(clock),
      file_(config.store_root / "config" / "subscriptionGroup.json") {
  version_.timestamp = clock.wall_ms();
}

Result<> Groups::load() {
  const std::scoped_lock lock(mutex_);
  for (const std::string_view name : kPredefined) {
    proto::SubscriptionGroupConfig g;
    g.name = name;
    put_locked(std::move(g));
  }
  TENON_TRY(file_.load([this](std::string_view text) -> Result<> {
    TENON_TRY(auto table, proto::decode_subscription_group_table(text));
    for (auto& [name, group] : table.groups) {
      if (group.name.empty()) {
        group.name = name;
      }
      put_locked(std::move(group));
    }
    version_ = table.version;
    extra_ = std::move(table.extra);
    return ok();
  }));
  published_.publish(std::make_shared<const GroupMap>(groups_));
  return ok();
}

void Groups::put_locked(proto::SubscriptionGroupConfig config) {
  std::string name = config.name;
  groups_.insert_or_assign(
      std::move(name), std::make_shared<const proto::SubscriptionGroupConfig>(std::move(config)));
}

void Groups::bump_locked() {
  version_.timestamp = clock_.wall_ms();
  ++version_.counter;
  file_.changed();
  published_.publish(std::make_shared<const GroupMap>(groups_));
}

GroupPtr Groups::find(std::string_view name) const {
  const std::scoped_lock lock(mutex_);
  const auto it = groups_.find(name);
  return it == groups_.end() ? nullptr : it->second;
}

GroupPtr Groups::find_or_create(std::string_view name) {
  GroupPtr created;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = groups_.find(name);
    if (it != groups_.end()) {
      return it->second;
    }
    if (!config_.auto_create_group && !name.starts_with("CID_RMQ_SYS_")) {
      return nullptr;
    }
    proto::SubscriptionGroupConfig g;
    g.name = name;
    put_locked(std::move(g));
    bump_locked();
    created = groups_.find(name)->second;
  }
  log_info("broker", "consumer group created group=\"{}\"", name);
  if (listener_) {
    listener_();
  }
  return created;
}

Result<> Groups::update(proto::SubscriptionGroupConfig config) {
  {
    const std::scoped_lock lock(mutex_);
    log_info("broker", "consumer group set group=\"{}\"", config.name);
    put_locked(std::move(config));
    bump_locked();
  }
  return persist();
}

Result<bool> Groups::remove(std::string_view name) {
  {
    const std::scoped_lock lock(mutex_);
    const auto it = groups_.find(name);
    if (it == groups_.end()) {
      return false;
    }
    groups_.erase(it);
    bump_locked();
  }
  log_info("broker", "consumer group deleted group=\"{}\"", name);
  TENON_TRY(persist());
  return true;
}

Result<> Groups::persist() {
  return file_.save_if_changed([this] { return proto::encode(table(), true); });
}

proto::SubscriptionGroupTable Groups::table() const {
  const std::scoped_lock lock(mutex_);
  proto::SubscriptionGroupTable t;
  t.version = version_;
  for (const auto& [name, group] : groups_) {
    t.groups.emplace(name, *group);
  }
  t.extra = extra_;
  return t;
}

}  // namespace tenon::broker
