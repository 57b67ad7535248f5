#include "meta/topics.h"

#include "meta/json_file.h"

#include "tenon/base/log.h"
#include "tenon/proto/topics.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tenon::broker {
namespace {

constexpr std::array<std::string_view, 7> kNotSendable{"SCHEDULE_TOPIC_XXXX",
                                                       "rmq_sys_wheel_timer",
                                                       "RMQ_SYS_TRANS_HALF_TOPIC",
                                                       "RMQ_SYS_TRANS_OP_HALF_TOPIC",
                                                       "TRANS_CHECK_MAX_TIME_TOPIC",
                                                       "SELF_TEST_TOPIC",
                                                       "OFFSET_MOVED_EVENT"};

/// Queues for which a Topic keeps handles; nobody needs more, and a hostile updateTopic must not
/// cost gigabytes.
constexpr std::uint32_t kQueuesMax = 65'536;

proto::TopicConfig make(std::string_view name, std::int32_t queues, std::int32_t perm) {
  proto::TopicConfig c;
  c.name = name;
  c.read_queue_count = queues;
  c.write_queue_count = queues;
  c.perm = perm;
  return c;
}

}  // namespace

Topic::Topic(proto::TopicConfig config)
    : config_(std::move(config)),
      queue_count_(static_cast<std::uint32_t>(std::clamp<std::int64_t>(
          std::max(config_.read_queue_count, config_.write_queue_count), 0, kQueuesMax))),
      multi_tag_(config_.filter_type == "MULTI_TAG"),
      handles_(std::make_unique<std::atomic<tenon_queue>[]>(std::max(queue_count_, 1u))) {}

Topics::Topics(const BrokerConfig& config, const Clock& clock)
    : config_(config),
      clock_(clock),
      file_(config.store_root / "config" / "topics.json") {
  version_.timestamp = clock.wall_ms();
  system_.insert(proto::kSystemTopics.begin(), proto::kSystemTopics.end());
}

void Topics::add_builtin() {
  put_locked(make("SELF_TEST_TOPIC", 1, 6));
  if (config_.auto_create_topic) {
    put_locked(make(kDefaultTopic, config_.default_topic_queue_count, 7));
  }
  put_locked(make("BenchmarkTest", 1024, 6));
  put_locked(make(config_.cluster, 16, config_.cluster_topic ? 7 : 1));
  put_locked(make(config_.name, 1, config_.broker_topic ? 7 : 1));
  put_locked(make(kOffsetMovedTopic, 1, 6));
  put_locked(make(kScheduleTopic, 18, 6));
  if (config_.timer_wheel) {
    put_locked(make(kTimerTopic, 1, 6));
  }
  if (config_.trace_topic) {
    put_locked(make(config_.trace_topic_name, 1, 6));
    system_.insert(config_.trace_topic_name);
  }
  put_locked(make(config_.cluster + "_REPLY_TOPIC", 1, 6));
  system_.insert(config_.cluster);
  system_.insert(config_.name);
  system_.insert(config_.cluster + "_REPLY_TOPIC");
}

Result<> Topics::load() {
  const std::scoped_lock lock(mutex_);
  add_builtin();
  // Trap: the file adds over the built-in entries, so persisted settings win (broker §4.1).
  TENON_TRY(file_.load([this](std::string_view text) -> Result<> {
    TENON_TRY(auto table, proto::decode_topic_table(text));
    for (auto& [name, config] : table.topics) {
      if (config.name.empty()) {
        config.name = name;
      }
      put_locked(std::move(config));
    }
    version_ = table.version;
    extra_ = std::move(table.extra);
    return ok();
  }));
  publish_locked();
  return ok();
}

void Topics::put_locked(proto::TopicConfig config) {
  std::string name = config.name;
  topics_.insert_or_assign(std::move(name), std::make_shared<const Topic>(std::move(config)));
}

void Topics::publish_locked() {
  published_.publish(std::make_shared<const TopicMap>(topics_));
}

void Topics::bump_locked() {
  version_.timestamp = clock_.wall_ms();
  ++version_.counter;
  file_.changed();
  publish_locked();
}

TopicPtr Topics::find(std::string_view name) const {
  const std::scoped_lock lock(mutex_);
  const auto it = topics_.find(name);
  return it == topics_.end() ? nullptr : it->second;
}

TopicPtr Topics::create_locked(std::string_view topic,
                               std::string_view default_topic,
                               std::int32_t wanted_queues,
                               std::int32_t sys_flag) {
  const auto from = topics_.find(default_topic);
  if (from != topics_.end()) {
    const proto::TopicConfig& base = from->second->config();
    // Trap: a persisted TBW102 must not create anything once automatic creation is off (§4.1).
    const bool allowed = default_topic != kDefaultTopic || config_.auto_create_topic;
    if (allowed && (base.perm & proto::kPermInherit) != 0) {
      proto::TopicConfig c;
      c.name = topic;
      c.read_queue_count = std::max(0, std::min(wanted_queues, base.write_queue_count));
      c.write_queue_count = c.read_queue_count;
      c.perm = base.perm & ~proto::kPermInherit;
      c.filter_type = base.filter_type;
      c.sys_flag = sys_flag;
      put_locked(std::move(c));
      bump_locked();
      return topics_.find(topic)->second;
    }
  }
  if (topic.starts_with(kRetryPrefix)) {
    proto::TopicConfig c = make(topic, 1, 6);
    c.sys_flag = sys_flag;
    put_locked(std::move(c));
    bump_locked();
    return topics_.find(topic)->second;
  }
  return nullptr;
}

TopicPtr Topics::create_for_send(std::string_view topic,
                                 std::string_view default_topic,
                                 std::int32_t wanted_queues,
                                 std::int32_t sys_flag) {
  TopicPtr created;
  bool fresh = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = topics_.find(topic);
    if (it != topics_.end()) {
      created = it->second;
    } else {
      created = create_locked(topic, default_topic, wanted_queues, sys_flag);
      if (created == nullptr) {
        return nullptr;
      }
      fresh = true;
      log_info("broker",
               "topic created by a send topic={} queues={} from={}",
               topic,
               created->config().write_queue_count,
               default_topic);
    }
  }
  // Also when another thread created it a moment ago: its file may not be written yet, and no send
  // may be acknowledged before.
  persist_or_log();
  if (fresh && listener_) {
    listener_();
  }
  return created;
}

TopicPtr Topics::add_if_absent(proto::TopicConfig config) {
  TopicPtr result;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = topics_.find(config.name);
    if (it != topics_.end()) {
      return it->second;
    }
    const std::string name = config.name;
    put_locked(std::move(config));
    bump_locked();
    result = topics_.find(name)->second;
    log_info(
        "broker", "topic created topic={} queues={}", name, result->config().write_queue_count);
  }
  if (listener_) {
    listener_();
  }
  return result;
}

Result<> Topics::update(proto::TopicConfig config) {
  {
    const std::scoped_lock lock(mutex_);
    log_info("broker",
             "topic set topic={} read_queues={} write_queues={} perm={}",
             config.name,
             config.read_queue_count,
             config.write_queue_count,
             config.perm);
    put_locked(std::move(config));
    bump_locked();
  }
  auto written = persist();
  if (listener_) {
    listener_();
  }
  return written;
}

Result<bool> Topics::remove(std::string_view name) {
  {
    const std::scoped_lock lock(mutex_);
    const auto it = topics_.find(name);
    if (it == topics_.end()) {
      return false;
    }
    topics_.erase(it);
    bump_locked();
  }
  log_info("broker", "topic deleted topic={}", name);
  TENON_TRY(persist());
  return true;
}

void Topics::permission_changed() {
  {
    const std::scoped_lock lock(mutex_);
    bump_locked();
  }
  if (listener_) {
    listener_();
  }
}

void Topics::set_order_topics(const proto::KvTable& table) {
  const std::scoped_lock lock(mutex_);
  std::vector<proto::TopicConfig> changed;
  for (const auto& [name, topic] : topics_) {
    const bool order = table.find(name) != table.end();
    if (topic->config().order != order) {
      changed.push_back(topic->config());
      changed.back().order = order;
    }
  }
  if (changed.empty()) {
    return;
  }
  for (auto& config : changed) {
    put_locked(std::move(config));
  }
  bump_locked();
}

Result<> Topics::persist() {
  return file_.save_if_changed([this] { return proto::encode(table(), true); });
}

void Topics::persist_or_log() {
  if (auto written = persist(); written.has_error()) {
    log_error("broker", "topics not written reason=\"{}\"", written.error().detail);
  }
}

bool Topics::is_system(std::string_view name) const {
  return proto::is_system_topic(name) || system_.find(std::string(name)) != system_.end();
}

bool Topics::not_sendable(std::string_view name) noexcept {
  return std::find(kNotSendable.begin(), kNotSendable.end(), name) != kNotSendable.end();
}

proto::TopicTable Topics::table() const {
  const std::scoped_lock lock(mutex_);
  proto::TopicTable t;
  t.version = version_;
  for (const auto& [name, topic] : topics_) {
    t.topics.emplace(name, topic->config());
  }
  t.extra = extra_;
  return t;
}

proto::DataVersion Topics::version() const {
  const std::scoped_lock lock(mutex_);
  return version_;
}

}  // namespace tenon::broker
