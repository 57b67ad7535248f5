#include "validate.h"

#include "errors.h"

#include "tenon/proto/message.h"

#include <algorithm>
#include <array>
#include <string>

namespace tenon::sdk {
namespace {

bool is_legal(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '%' ||
           c == '|' || c == '_' || c == '-';
  });
}

bool is_blank(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
  });
}

constexpr std::string_view kLegal = "^[%|a-zA-Z0-9_-]+$";

constexpr std::array<std::string_view, 6> kNotSendable{"SCHEDULE_TOPIC_XXXX",
                                                       "RMQ_SYS_TRANS_HALF_TOPIC",
                                                       "RMQ_SYS_TRANS_OP_HALF_TOPIC",
                                                       "TRANS_CHECK_MAX_TIME_TOPIC",
                                                       "SELF_TEST_TOPIC",
                                                       "OFFSET_MOVED_EVENT"};

constexpr std::array<std::string_view, 55> kReserved{"KEYS",
                                                     "TAGS",
                                                     "WAIT",
                                                     "DELAY",
                                                     "RETRY_TOPIC",
                                                     "REAL_TOPIC",
                                                     "REAL_QID",
                                                     "TRAN_MSG",
                                                     "PGROUP",
                                                     "MIN_OFFSET",
                                                     "MAX_OFFSET",
                                                     "BUYER_ID",
                                                     "ORIGIN_MESSAGE_ID",
                                                     "TRANSFER_FLAG",
                                                     "CORRECTION_FLAG",
                                                     "MQ2_FLAG",
                                                     "RECONSUME_TIME",
                                                     "MSG_REGION",
                                                     "TRACE_ON",
                                                     "UNIQ_KEY",
                                                     "MAX_RECONSUME_TIMES",
                                                     "CONSUME_START_TIME",
                                                     "TRAN_PREPARED_QUEUE_OFFSET",
                                                     "TRANSACTION_CHECK_TIMES",
                                                     "CHECK_IMMUNITY_TIME_IN_SECONDS",
                                                     "INSTANCE_ID",
                                                     "CORRELATION_ID",
                                                     "REPLY_TO_CLIENT",
                                                     "TTL",
                                                     "ARRIVE_TIME",
                                                     "PUSH_REPLY_TIME",
                                                     "CLUSTER",
                                                     "MSG_TYPE",
                                                     "INNER_MULTI_DISPATCH",
                                                     "INNER_MULTI_QUEUE_OFFSET",
                                                     "EXTEND_UNIQ_INFO",
                                                     "INNER_NUM",
                                                     "INNER_BASE",
                                                     "DUP_INFO",
                                                     "POP_CK",
                                                     "POP_CK_OFFSET",
                                                     "1ST_POP_TIME",
                                                     "PROPERTY_FORWARD_QUEUE_ID",
                                                     "REDIRECT",
                                                     "TIMER_DELAY_SEC",
                                                     "TIMER_DELAY_MS",
                                                     "TIMER_DELIVER_MS",
                                                     "TIMER_ENQUEUE_MS",
                                                     "TIMER_DEQUEUE_MS",
                                                     "TIMER_ROLL_TIMES",
                                                     "TIMER_OUT_MS",
                                                     "TIMER_DEL_UNIQKEY",
                                                     "TIMER_DELAY_LEVEL",
                                                     "DLQ_ORIGIN_TOPIC",
                                                     "DLQ_ORIGIN_MESSAGE_ID"};

bool has_separator(std::string_view text) noexcept {
  return text.find_first_of("\x01\x02") != std::string_view::npos;
}

Result<void> check_delay(const Message& m) {
  const int given = (m.delay_level != 0 ? 1 : 0) + (m.delay.count() != 0 ? 1 : 0) +
                    (m.deliver_at.has_value() ? 1 : 0);
  if (given > 1) {
    return make_error(Errc::kInvalidArgument,
                      "at most one of delay_level, delay and deliver_at may be given");
  }
  if (m.delay_level < 0 || m.delay.count() < 0) {
    return make_error(Errc::kInvalidArgument, "delay_level and delay must not be negative");
  }
  return {};
}

Result<void> check_keys_and_tag(const Message& m) {
  if (has_separator(m.tag)) {
    return make_error(Errc::kInvalidArgument, "tag contains U+0001 or U+0002");
  }
  for (const std::string& key : m.keys) {
    if (has_separator(key)) {
      return make_error(Errc::kInvalidArgument, "key contains U+0001 or U+0002");
    }
  }
  return {};
}

}  // namespace

Result<void> check_topic(std::string_view topic) {
  if (is_blank(topic)) {
    return make_error(Errc::kInvalidArgument, "The specified topic is blank");
  }
  if (topic.size() > kTopicMaxChars) {
    return make_error(Errc::kInvalidArgument,
                      "The specified topic is longer than topic max length 127.");
  }
  if (!is_legal(topic)) {
    return make_error(Errc::kInvalidArgument,
                      "The specified topic[" + std::string(topic) +
                          "] contains illegal characters, allowing only " + std::string(kLegal));
  }
  return {};
}

Result<void> check_sendable(std::string_view topic) {
  if (std::find(kNotSendable.begin(), kNotSendable.end(), topic) != kNotSendable.end()) {
    return make_error(Errc::kInvalidArgument,
                      "Sending message to topic[" + std::string(topic) + "] is forbidden.");
  }
  return {};
}

Result<void> check_group(std::string_view group) {
  if (is_blank(group)) {
    return make_error(Errc::kInvalidArgument, "the specified group is blank");
  }
  if (group.size() > kGroupMaxChars) {
    return make_error(Errc::kInvalidArgument,
                      "the specified group is longer than group max length 255.");
  }
  if (!is_legal(group)) {
    return make_error(Errc::kInvalidArgument,
                      "the specified group[" + std::string(group) +
                          "] contains illegal characters, allowing only " + std::string(kLegal));
  }
  return {};
}

bool is_reserved_property(std::string_view name) noexcept {
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

Result<void> check_message(const Message& m, std::size_t max_body_bytes) {
  if (auto r = check_topic(m.topic); !r) {
    return r;
  }
  if (auto r = check_sendable(m.topic); !r) {
    return r;
  }
  if (m.body.empty()) {
    return make_error(Errc::kMessageIllegal, "the message body length is zero");
  }
  if (m.body.size() > max_body_bytes) {
    return make_error(
        Errc::kMessageIllegal,
        "the message body size over max value, MAX: " + std::to_string(max_body_bytes));
  }
  for (const auto& [name, value] : m.properties) {
    if (is_blank(name) || is_blank(value)) {
      return make_error(Errc::kInvalidArgument,
                        "The name or value of property can not be null or blank string!");
    }
    if (is_reserved_property(name)) {
      return make_error(Errc::kInvalidArgument,
                        "The Property<" + name + "> is used by system, input another please");
    }
    // Trap: a separator inside a name or value corrupts every property behind it (client §4.2, L14).
    if (has_separator(name) || has_separator(value)) {
      return make_error(Errc::kInvalidArgument, "property " + name + " contains U+0001 or U+0002");
    }
  }
  if (auto r = check_delay(m); !r) {
    return r;
  }
  return check_keys_and_tag(m);
}

Result<void> check_properties_size(std::size_t bytes) {
  if (bytes > proto::kPropertiesMaxBytes) {
    return make_error(Errc::kMessageIllegal,
                      "the properties take " + std::to_string(bytes) +
                          " bytes, MAX: " + std::to_string(proto::kPropertiesMaxBytes));
  }
  return {};
}

}  // namespace tenon::sdk
