#include "tenon/broker/config.h"

#include "append/delay_levels.h"
#include "append/retention.h"

#include "tenon/proto/message.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace tenon::broker {
namespace {

/// Collects what is wrong, one line each.
class Checks {
 public:
  template <class T>
  void range(std::string_view key, T value, std::int64_t min, std::int64_t max) {
    const auto v = static_cast<std::int64_t>(value);
    if (v < min || v > max) {
      add(fmt::format("{} is {}, must be between {} and {}", key, v, min, max));
    }
  }
  void add(std::string text) {
    if (!problems_.empty()) {
      problems_.push_back('\n');
    }
    problems_ += text;
  }
  Result<> result() const {
    if (problems_.empty()) {
      return ok();
    }
    return Error{Errc::kInvalid, problems_};
  }

 private:
  std::string problems_{};
};

void check_names(const BrokerConfig& c, Checks& checks) {
  // Both are names of topics as well.
  for (const auto& [key, name] :
       {std::pair<std::string_view, const std::string&>{"cluster", c.cluster}, {"name", c.name}}) {
    if (key == "name" && name.empty()) {
      continue;
    }
    if (auto legal = proto::check_topic_name(name); legal.has_error()) {
      checks.add(fmt::format(
          "{} \"{}\" is not usable as a topic name: {}", key, name, legal.error().detail));
    }
  }
  for (const std::string& address : c.namesrv) {
    const auto colon = address.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
      checks.add(fmt::format("namesrv entry \"{}\" is not host:port", address));
    }
  }
}

void check_retention(const RetentionConfig& r, Checks& checks) {
  checks.range("file_reserved_hours", r.file_reserved_hours, 0, 87'600);
  checks.range("delete_files_max", r.delete_files_max, 1, 1000);
  checks.range("round_ms", r.round_ms, 10, 600'000);
  checks.range("disk_clean_pct", r.disk_clean_pct, 10, 100);
  checks.range("disk_force_pct", r.disk_force_pct, 10, 100);
  checks.range("disk_full_pct", r.disk_full_pct, 10, 100);
  if (auto hours = parse_hours(r.delete_when); hours.has_error()) {
    checks.add("delete_when: " + hours.error().detail);
  }
}

}  // namespace

Result<> validate(const BrokerConfig& c) {
  constexpr std::int64_t kMinuteMs = 60'000;
  Checks checks;
  check_names(c, checks);
  if (c.id != 0) {
    checks.add(fmt::format("id is {}, only a master (0) is served", c.id));
  }
  checks.range("permission", c.permission, 0, 7);
  checks.range("register_timeout_ms", c.register_timeout_ms, 100, kMinuteMs);
  checks.range("default_topic_queue_count", c.default_topic_queue_count, 1, 1024);
  checks.range("message_max_bytes", c.message_max_bytes, 1024, 15 * 1024 * 1024);
  checks.range("properties_max_bytes",
               c.properties_max_bytes,
               1,
               static_cast<std::int64_t>(proto::kPropertiesMaxBytes));
  checks.range("sync_flush_timeout_ms", c.sync_flush_timeout_ms, 100, kMinuteMs);
  checks.range("page_cache_busy_ms", c.page_cache_busy_ms, 10, kMinuteMs);
  checks.range("transaction_op_batch_ms", c.transaction_op_batch_ms, 0, kMinuteMs);
  checks.range("transaction_op_batch_bytes", c.transaction_op_batch_bytes, 64, 1024 * 1024);
  checks.range("transaction_queue_max", c.transaction_queue_max, 1, 10'000'000);
  checks.range("flush_delay_offset_ms", c.flush_delay_offset_ms, 100, 10 * kMinuteMs);
  checks.range("timer_max_delay_sec", c.timer_max_delay_sec, 1, 31'536'000);
  checks.range("timer_roll_window_sec", c.timer_roll_window_sec, 60, 2'592'000);
  checks.range("short_polling_ms", c.short_polling_ms, 10, kMinuteMs);
  checks.range("pull_bytes_memory", c.pull_bytes_memory, 1024, 64 * 1024 * 1024);
  checks.range("pull_count_memory", c.pull_count_memory, 1, 1024);
  checks.range("pull_bytes_disk", c.pull_bytes_disk, 1024, 64 * 1024 * 1024);
  checks.range("pull_count_disk", c.pull_count_disk, 1, 1024);
  checks.range("memory_ratio_pct", c.memory_ratio_pct, 1, 95);
  checks.range("parked_pull_max", c.parked_pull_max, 1, 10'000'000);
  checks.range("expected_filter_groups", c.expected_filter_groups, 1, 4096);
  checks.range("bloom_error_pct", c.bloom_error_pct, 1, 99);
  checks.range("filter_clean_ms", c.filter_clean_ms, 0, std::numeric_limits<std::int64_t>::max());
  checks.range("query_max", c.query_max, 1, 1024);
  checks.range("unique_query_max", c.unique_query_max, 1, 1024);
  checks.range("flush_consumer_offset_ms", c.flush_consumer_offset_ms, 100, 10 * kMinuteMs);
  checks.range("channel_expired_ms", c.channel_expired_ms, 1'000, 60 * kMinuteMs);
  checks.range("lock_expired_ms", c.lock_expired_ms, 1'000, 60 * kMinuteMs);
  checks.range("lock_orphaned_ms", c.lock_orphaned_ms, 1'000, 60 * kMinuteMs);
  checks.range("io_threads", c.io_threads, 0, 64);
  checks.range("worker_threads", c.worker_threads, 1, 64);
  checks.range("send_queue_max", c.send_queue_max, 1, 10'000'000);
  checks.range("send_queue_bytes_max", c.send_queue_bytes_max, 1 << 20, INT64_MAX);
  checks.range("wait_in_send_queue_ms", c.wait_in_send_queue_ms, 10, 10 * kMinuteMs);
  checks.range("reply_queue_max", c.reply_queue_max, 1, 10'000'000);
  checks.range("pull_queue_max", c.pull_queue_max, 1, 10'000'000);
  checks.range("query_queue_max", c.query_queue_max, 1, 10'000'000);
  checks.range("admin_queue_max", c.admin_queue_max, 1, 10'000'000);
  checks.range("wait_in_pull_queue_ms", c.wait_in_pull_queue_ms, 10, 10 * kMinuteMs);
  checks.range("wait_in_transaction_queue_ms", c.wait_in_transaction_queue_ms, 10, 10 * kMinuteMs);
  checks.range("unsent_pause_bytes", c.unsent_pause_bytes, 64 * 1024, INT64_MAX);
  checks.range("unsent_max_bytes", c.unsent_max_bytes, 1 << 20, INT64_MAX);
  checks.range("unsent_total_bytes", c.unsent_total_bytes, 1 << 20, INT64_MAX);
  checks.range("receive_total_bytes", c.receive_total_bytes, 1 << 20, INT64_MAX);
  checks.range("frame_max_bytes", c.frame_max_bytes, 64 * 1024, 64 * 1024 * 1024);
  if (c.frame_max_bytes < c.message_max_bytes) {
    checks.add("frame_max_bytes is below message_max_bytes");
  }
  check_retention(c.retention, checks);
  if (auto levels = DelayLevels::parse(c.message_delay_level); levels.has_error()) {
    checks.add("message_delay_level: " + levels.error().detail);
  }
  if (!c.broker_ip1.empty()) {
    const std::string text = c.broker_ip1.find(':') == std::string::npos
                                 ? c.broker_ip1 + ":1"
                                 : "[" + c.broker_ip1 + "]:1";
    if (auto address = proto::parse_host_addr(text); address.has_error()) {
      checks.add(fmt::format("broker_ip1 \"{}\" is not a numeric address", c.broker_ip1));
    }
  }
  return checks.result();
}

}  // namespace tenon::broker
