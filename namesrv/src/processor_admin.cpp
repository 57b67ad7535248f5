// What administrators ask for: permissions, topics, key-value configuration, properties.
#include "answer.h"
#include "processor.h"

#include "tenon/base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tenon::namesrv {
namespace {

using proto::RequestCode;
using proto::ResponseCode;

/// Keys that may not be changed from outside (spec: remoting §8.8).
constexpr std::array<std::string_view, 4> kBlackList = {
    "configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"};

/// The lines `key=value` of a Java properties text; comments and blanks around are left out.
std::vector<std::pair<std::string_view, std::string_view>> properties(std::string_view text) {
  const auto trim = [](std::string_view s) {
    while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) {
      s.remove_prefix(1);
    }
    while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r')) {
      s.remove_suffix(1);
    }
    return s;
  };
  std::vector<std::pair<std::string_view, std::string_view>> out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trim(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    const std::size_t equals = line.find('=');
    if (line.empty() || line.front() == '#' || line.front() == '!' ||
        equals == std::string_view::npos) {
      continue;
    }
    out.emplace_back(trim(line.substr(0, equals)), trim(line.substr(equals + 1)));
  }
  return out;
}

}  // namespace

bool Processor::handle_admin(Request request, Answer& answer) {
  const auto field = [&request](std::string_view key) {
    return request.field(key).value_or(std::string_view{});
  };
  switch (request.code) {
    case RequestCode::kWipeWritePermOfBroker: {
      const std::unique_lock lock(mutex_);
      answer.fields.emplace_back("wipeTopicCount",
                                 std::to_string(table_.wipe_write_permission(field("brokerName"))));
      return true;
    }
    case RequestCode::kAddWritePermOfBroker: {
      const std::unique_lock lock(mutex_);
      answer.fields.emplace_back("addTopicCount",
                                 std::to_string(table_.add_write_permission(field("brokerName"))));
      return true;
    }
    case RequestCode::kDeleteTopicInNamesrv: {
      const std::unique_lock lock(mutex_);
      table_.delete_topic(field("topic"), field("clusterName"));
      return true;
    }
    case RequestCode::kPutKvConfig:
      put_kv(request, answer);
      return true;
    case RequestCode::kGetKvConfig:
      get_kv(request, answer);
      return true;
    case RequestCode::kDeleteKvConfig:
      delete_kv(request, answer);
      return true;
    case RequestCode::kGetKvlistByNamespace:
      list_kv(request, answer);
      return true;
    case RequestCode::kUpdateNamesrvConfig:
      update_config(request, answer);
      return true;
    case RequestCode::kGetNamesrvConfig:
      get_config(answer);
      return true;
    default:
      return false;
  }
}

void Processor::put_kv(Request request, Answer& answer) {
  const auto space = request.field("namespace");
  const auto key = request.field("key");
  if (!space || !key) {
    answer.fail(ResponseCode::kSystemError, "namespace or key is null");
    return;
  }
  const auto saved = kv_.put(*space, *key, request.field("value").value_or(std::string_view{}));
  if (!saved) {
    log_error("ns", "key-value configuration not saved: {}", saved.error().detail);
    answer.fail(ResponseCode::kSystemError, saved.error().detail);
  }
}

void Processor::get_kv(Request request, Answer& answer) {
  answer.has_header = true;
  const std::string_view space = request.field("namespace").value_or(std::string_view{});
  const std::string_view key = request.field("key").value_or(std::string_view{});
  if (auto value = kv_.get(space, key)) {
    answer.fields.emplace_back("value", std::move(*value));
  } else {
    answer.fail(ResponseCode::kQueryNotFound,
                fmt::format("No config item, Namespace: {} Key: {}", space, key));
  }
}

void Processor::delete_kv(Request request, Answer& answer) {
  const auto saved = kv_.erase(request.field("namespace").value_or(std::string_view{}),
                               request.field("key").value_or(std::string_view{}));
  if (!saved) {
    log_error("ns", "key-value configuration not saved: {}", saved.error().detail);
    answer.fail(ResponseCode::kSystemError, saved.error().detail);
  }
}

void Processor::list_kv(Request request, Answer& answer) {
  const std::string_view space = request.field("namespace").value_or(std::string_view{});
  if (const auto table = kv_.list(space)) {
    answer.body = proto::encode_kv_table(*table);
  } else {
    answer.fail(ResponseCode::kQueryNotFound, fmt::format("No config item, Namespace: {}", space));
  }
}

/// Only orderMessageEnable has an effect at run time; other keys are accepted without one, as Java
/// accepts them.
void Processor::update_config(Request request, Answer& answer) {
  const auto lines = properties(as_text(request.body));
  for (const auto& [key, value] : lines) {
    if (std::find(kBlackList.begin(), kBlackList.end(), key) != kBlackList.end()) {
      answer.fail(ResponseCode::kNoPermission, "Can not update config in black list.");
      return;
    }
  }
  for (const auto& [key, value] : lines) {
    if (key == "orderMessageEnable") {
      order_enabled_.store(value == "true", std::memory_order_relaxed);
      log_info("ns", "configuration changed orderMessageEnable={}", value);
    } else {
      log_warn("ns", "configuration key has no effect at run time key={}", key);
    }
  }
}

void Processor::get_config(Answer& answer) {
  answer.body = fmt::format(
      "listenPort={}\n"
      "kvConfigPath={}\n"
      "orderMessageEnable={}\n"
      "clusterTest=false\n"
      "productEnvName=center\n"
      "scanNotActiveBrokerInterval={}\n"
      "serverChannelMaxIdleTimeSeconds={}\n",
      port_,
      config_.kv_config_path,
      order_enabled_.load(std::memory_order_relaxed),
      config_.scan_interval_ms,
      config_.idle_timeout_ms / 1000);
}

}  // namespace tenon::namesrv
