#include "processors/send_check.h"

#include "remarks.h"

#include "tenon/proto/properties.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <time.h>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

/// "yyyyMMddHHmmssSSS" in local time (UtilAll.timeMillisToHumanString3).
std::string human_time(std::int64_t ms) {
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm tm{};
  ::localtime_r(&seconds, &tm);
  return fmt::format("{:%Y%m%d%H%M%S}{:03d}", tm, ms % 1000);
}

/// "RW-" (PermName.perm2String).
std::string perm_text(std::int32_t perm) {
  std::string text = "---";
  text[0] = (perm & proto::kPermRead) != 0 ? 'R' : '-';
  text[1] = (perm & proto::kPermWrite) != 0 ? 'W' : '-';
  text[2] = (perm & proto::kPermInherit) != 0 ? 'X' : '-';
  return text;
}

}  // namespace

std::optional<Refusal> check_send(const Services& s, const SendHeader& header, const Topic* topic) {
  const BrokerConfig& config = s.config;
  if (config.accept_send_from_ms > 0 && s.clock.wall_ms() < config.accept_send_from_ms) {
    return Refusal{Code::kSystemError,
                   fmt::format(remark::kNotYetInService, human_time(config.accept_send_from_ms))};
  }
  // Trap: the broker's write permission counts for order topics only, the topic's never.
  if ((config.permission & proto::kPermWrite) == 0 && topic != nullptr && topic->config().order) {
    return Refusal{Code::kNoPermission, fmt::format(remark::kBrokerSendForbidden, s.advertised.ip)};
  }
  if (auto legal = proto::check_topic_name(header.topic); legal.has_error()) {
    return Refusal{Code::kSystemError, legal.error().detail};
  }
  if (Topics::not_sendable(header.topic)) {
    return Refusal{Code::kNoPermission, fmt::format(remark::kTopicSendForbidden, header.topic)};
  }
  return std::nullopt;
}

std::optional<Refusal> check_queue(const Topic& topic,
                                   std::int32_t queue_id,
                                   const proto::HostAddr& peer) {
  // Trap: queues between the write and the read count are accepted (broker §5.1).
  if (queue_id < static_cast<std::int32_t>(topic.queue_count())) {
    return std::nullopt;
  }
  const proto::TopicConfig& config = topic.config();
  return Refusal{Code::kSystemError,
                 fmt::format(remark::kQueueIdIllegal,
                             queue_id,
                             config.name,
                             config.read_queue_count,
                             config.write_queue_count,
                             perm_text(config.perm),
                             config.filter_type,
                             config.sys_flag,
                             config.order,
                             proto::to_string(peer))};
}

Refusal topic_not_exist(std::string_view topic) {
  return {Code::kTopicNotExist, fmt::format(remark::kTopicNotExist, topic)};
}

}  // namespace tenon::broker
