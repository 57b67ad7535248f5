#include "live_config.h"

#include "meta/json_file.h"

#include "tenon/base/log.h"
#include "tenon/proto/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace tenon::broker {
namespace {

constexpr std::array<std::string_view, 3> kBlackList{
    "brokerConfigPath", "rocketmqHome", "configBlackList"};

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\f";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      out.push_back(text[i] == 't' ? '\t' : text[i] == 'n' ? '\n' : text[i]);
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

/// The first '=' or ':' that no backslash protects.
std::size_t separator_of(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == '=' || line[i] == ':') {
      return i;
    }
  }
  return std::string_view::npos;
}

std::string text_of(bool value) {
  return value ? "true" : "false";
}

}  // namespace

std::map<std::string, std::string> parse_properties(std::string_view text) {
  std::map<std::string, std::string> out;
  while (!text.empty()) {
    const std::string_view line = trim(next_line(text));
    if (line.empty() || line.front() == '#' || line.front() == '!') {
      continue;
    }
    const std::size_t at = separator_of(line);
    const std::string_view name = trim(line.substr(0, std::min(at, line.size())));
    const std::string_view value =
        at == std::string_view::npos ? std::string_view() : trim(line.substr(at + 1));
    if (!name.empty()) {
      out.insert_or_assign(unescape(name), unescape(value));
    }
  }
  return out;
}

LiveConfig::LiveConfig(BrokerConfig& config, const Clock& clock)
    : config_(config),
      clock_(clock),
      file_(config.store_root / "config" / "broker.properties") {
  version_.timestamp = clock.wall_ms();
  add_live_keys();
  add_retention_keys();
  add_fixed_keys();
}

void LiveConfig::add(std::string name,
                     std::function<std::string()> get,
                     std::function<bool(std::string_view)> set) {
  keys_.insert_or_assign(std::move(name), Key{std::move(get), std::move(set)});
}

template <class T>
void LiveConfig::add_number(std::string name, Live<T>& member, std::int64_t min, std::int64_t max) {
  add(
      std::move(name),
      [&member] { return std::to_string(member.get()); },
      [&member, min, max](std::string_view text) {
        const auto value = proto::parse_long(text);
        if (!value || *value < min || *value > max) {
          return false;
        }
        member.set(static_cast<T>(*value));
        return true;
      });
}

void LiveConfig::add_flag(std::string name, Live<bool>& member) {
  add(
      std::move(name),
      [&member] { return text_of(member.get()); },
      [&member](std::string_view text) {
        if (text != "true" && text != "false") {
          return false;
        }
        member.set(text == "true");
        return true;
      });
}

void LiveConfig::add_fixed(std::string name, std::function<std::string()> get) {
  add(std::move(name), std::move(get), {});
}

void LiveConfig::add_live_keys() {
  constexpr std::int64_t kMinuteMs = 60'000;
  BrokerConfig& c = config_;
  add_number("brokerPermission", c.permission, 0, 7);
  add_flag("traceOn", c.trace_on);
  add_flag("autoCreateTopicEnable", c.auto_create_topic);
  add_flag("autoCreateSubscriptionGroup", c.auto_create_group);
  add_flag("notifyConsumerIdsChangedEnable", c.notify_consumer_ids_changed);
  add_flag("enablePropertyFilter", c.property_filter);
  add_number("maxMessageSize", c.message_max_bytes, 1024, 15 * 1024 * 1024);
  add_number("syncFlushTimeout", c.sync_flush_timeout_ms, 100, kMinuteMs);
  add_number("osPageCacheBusyTimeOutMills", c.page_cache_busy_ms, 10, kMinuteMs);
  add_number("startAcceptSendRequestTimeStamp",
             c.accept_send_from_ms,
             0,
             std::numeric_limits<std::int64_t>::max());
  add_flag("rejectTransactionMessage", c.reject_transaction_message);
  add_flag("longPollingEnable", c.long_polling);
  add_number("shortPollingTimeMills", c.short_polling_ms, 10, kMinuteMs);
  add_number("maxTransferBytesOnMessageInMemory", c.pull_bytes_memory, 1024, 64 * 1024 * 1024);
  add_number("maxTransferCountOnMessageInMemory", c.pull_count_memory, 1, 1024);
  add_number("maxTransferBytesOnMessageInDisk", c.pull_bytes_disk, 1024, 64 * 1024 * 1024);
  add_number("maxTransferCountOnMessageInDisk", c.pull_count_disk, 1, 1024);
  add_flag("slaveReadEnable", c.slave_read);
  add_number("maxMsgsNumBatch", c.query_max, 1, 1024);
  add_number("defaultQueryMaxNum", c.unique_query_max, 1, 1024);
}

void LiveConfig::add_retention_keys() {
  RetentionConfig& r = config_.retention;
  add_number("fileReservedTime", r.file_reserved_hours, 0, 87'600);
  add_number("deleteFileBatchMax", r.delete_files_max, 1, 1000);
  add_number("diskMaxUsedSpaceRatio", r.disk_clean_pct, 10, 100);
  add_flag("cleanFileForciblyEnable", r.clean_forcibly);
  add_number("diskSpaceCleanForciblyRatio", r.disk_force_pct, 10, 100);
  add_number("diskSpaceWarningLevelRatio", r.disk_full_pct, 10, 100);
  add_fixed("cleanResourceInterval", [&r] { return std::to_string(r.round_ms); });
}

void LiveConfig::add_fixed_keys() {
  const BrokerConfig& c = config_;
  add_fixed("brokerClusterName", [&c] { return c.cluster; });
  add_fixed("brokerName", [&c] { return c.name; });
  add_fixed("brokerId", [&c] { return std::to_string(c.id); });
  add_fixed("listenPort", [&c] { return std::to_string(c.port); });
  add_fixed("brokerIP1", [&c] { return c.broker_ip1; });
  add_fixed("namesrvAddr", [&c] {
    std::string out;
    for (const std::string& address : c.namesrv) {
      out += out.empty() ? address : ";" + address;
    }
    return out;
  });
  add_fixed("storePathRootDir", [&c] { return c.store_root.string(); });
  add_fixed("regionId", [&c] { return c.region_id; });
  add_fixed("defaultTopicQueueNums", [&c] { return std::to_string(c.default_topic_queue_count); });
  add_fixed("clusterTopicEnable", [&c] { return text_of(c.cluster_topic); });
  add_fixed("brokerTopicEnable", [&c] { return text_of(c.broker_topic); });
  add_fixed("traceTopicEnable", [&c] { return text_of(c.trace_topic); });
  add_fixed("msgTraceTopicName", [&c] { return c.trace_topic_name; });
  add_fixed("flushDiskType",
            [&c] { return std::string(c.sync_flush ? "SYNC_FLUSH" : "ASYNC_FLUSH"); });
  add_fixed("messageDelayLevel", [&c] { return c.message_delay_level; });
  add_fixed("accessMessageInMemoryMaxRatio", [&c] { return std::to_string(c.memory_ratio_pct); });
  add_fixed("registerNameServerPeriod", [&c] { return std::to_string(c.register_period_ms); });
  add_fixed("registerBrokerTimeoutMills", [&c] { return std::to_string(c.register_timeout_ms); });
  add_fixed("flushConsumerOffsetInterval",
            [&c] { return std::to_string(c.flush_consumer_offset_ms); });
  add_fixed("flushDelayOffsetInterval", [&c] { return std::to_string(c.flush_delay_offset_ms); });
  add_fixed("sendThreadPoolQueueCapacity", [&c] { return std::to_string(c.send_queue_max); });
  add_fixed("pullThreadPoolQueueCapacity", [&c] { return std::to_string(c.pull_queue_max); });
  add_fixed("queryThreadPoolQueueCapacity", [&c] { return std::to_string(c.query_queue_max); });
  add_fixed("brokerRole", [] { return std::string("ASYNC_MASTER"); });
}

Result<> LiveConfig::load() {
  return load_json_file(file_, [this](std::string_view text) -> Result<> {
    const std::scoped_lock lock(mutex_);
    for (const auto& [name, value] : parse_properties(text)) {
      const auto key = keys_.find(name);
      if (key == keys_.end() || !key->second.set || !key->second.set(value)) {
        log_warn("broker",
                 "a setting changed earlier does not apply any more file={} name={} value=\"{}\"",
                 file_.string(),
                 name,
                 value);
        continue;
      }
      log_info("broker",
               "a setting changed earlier applies file={} name={} value=\"{}\"",
               file_.string(),
               name,
               value);
      changed_.insert_or_assign(name, value);
    }
    return ok();
  });
}

Result<LiveConfig::Update> LiveConfig::update(std::string_view properties) {
  const auto wanted = parse_properties(properties);
  Update out;
  for (const auto& [name, value] : wanted) {
    for (const std::string_view black : kBlackList) {
      if (name == black) {
        out.blacklisted = true;
        return out;
      }
    }
    const auto key = keys_.find(name);
    if (key != keys_.end() && !key->second.set && key->second.get() != value) {
      return Error{Errc::kInvalid,
                   fmt::format("{} cannot be changed while the broker runs; set it in the "
                               "configuration file and start again",
                               name)};
    }
  }
  const std::scoped_lock lock(mutex_);
  bool any = false;
  for (const auto& [name, value] : wanted) {
    const auto key = keys_.find(name);
    if (key == keys_.end() || !key->second.set || !key->second.set(value)) {
      log_warn("broker", "setting not changed name={} value=\"{}\"", name, value);
      continue;
    }
    log_info("broker", "setting changed name={} value=\"{}\"", name, value);
    changed_.insert_or_assign(name, value);
    out.permission_changed = out.permission_changed || name == "brokerPermission";
    any = true;
  }
  if (!any) {
    return out;
  }
  ++version_.counter;
  version_.timestamp = clock_.wall_ms();
  std::string text =
      "# Changed while the broker ran (updateBrokerConfig); wins over the configuration file.\n";
  for (const auto& [name, value] : changed_) {
    text += fmt::format("{}={}\n", name, value);
  }
  TENON_TRY(save_json_file(file_, text));
  return out;
}

std::string LiveConfig::text() const {
  std::string out;
  for (const auto& [name, key] : keys_) {
    out += fmt::format("{}={}\n", name, key.get());
  }
  return out;
}

proto::DataVersion LiveConfig::version() const {
  const std::scoped_lock lock(mutex_);
  return version_;
}

}  // namespace tenon::broker
