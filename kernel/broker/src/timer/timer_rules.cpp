#include "timer/timer_rules.h"

#include "tenon/proto/command.h"
#include "tenon/proto/properties.h"

#include <algorithm>
#include <array>

namespace tenon::broker {
namespace {

namespace prop = proto::prop;

constexpr std::int64_t kSecondMs = 1000;
constexpr std::int64_t kLatestMs = (std::int64_t{1} << 47) - 1;  ///< year 6429; six bytes hold it
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// `value * factor` unless that is no 64-bit number.
std::optional<std::int64_t> scaled(std::string_view text, std::int64_t factor) noexcept {
  const auto value = proto::parse_long(text);
  std::int64_t product = 0;
  if (!value || __builtin_mul_overflow(*value, factor, &product)) {
    return std::nullopt;
  }
  return product;
}

/// The wished time; nullopt if it is no number.
std::optional<std::int64_t> wished_ms(const TimerWish& wish, std::int64_t now_ms) noexcept {
  std::optional<std::int64_t> relative;
  if (!wish.delay_sec.empty()) {
    relative = scaled(wish.delay_sec, kSecondMs);
  } else if (!wish.delay_ms.empty()) {
    relative = scaled(wish.delay_ms, 1);
  } else {
    return scaled(wish.deliver_ms, 1);
  }
  std::int64_t sum = 0;
  if (!relative || __builtin_add_overflow(now_ms, *relative, &sum)) {
    return std::nullopt;
  }
  return sum;
}

int digit_of(char c) noexcept {
  const auto at = kBase64.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

/// Padding is optional, as for Java's decoder.
std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 == 0 && text.ends_with("==")) {
    text.remove_suffix(2);
  } else if (text.size() % 4 == 0 && text.ends_with('=')) {
    text.remove_suffix(1);
  }
  if (text.size() % 4 == 1) {
    return std::nullopt;
  }
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int digit = digit_of(c);
    if (digit < 0) {
      return std::nullopt;
    }
    bits = (bits << 6) | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>((bits >> count) & 0xff));
    }
  }
  return out;
}

std::string base64_encode(std::string_view text) {
  std::string out;
  out.reserve((text.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < text.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, text.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = (bits << 8) | (k < n ? static_cast<std::uint8_t>(text[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out.push_back(k <= n ? kBase64[(bits >> (18 - 6 * k)) & 63] : '=');
    }
  }
  return out;
}

}  // namespace

TimerDecision decide_timer(const TimerWish& wish,
                           std::int64_t now_ms,
                           std::int64_t max_delay_ms) noexcept {
  const auto deliver = wished_ms(wish, now_ms);
  if (!deliver) {
    return {TimerFate::kIllegal, 0};
  }
  if (*deliver <= now_ms) {
    return {};
  }
  if (*deliver - now_ms > max_delay_ms) {
    return {TimerFate::kIllegal, 0};
  }
  std::int64_t out = *deliver - 1;
  if (out % kSecondMs == 0) {
    ++out;  // whole seconds are those of a 5.x broker, which rounds down
  }
  return {TimerFate::kLater, out};
}

std::optional<TimerRecord> read_timer_record(std::string_view properties,
                                             std::int64_t store_ms) noexcept {
  TimerWish wish;
  TimerRecord r;
  std::string_view out_text;
  for (proto::PropertyIterator it(properties); it.next();) {
    const std::string_view name = it.name();
    if (!name.starts_with("TIMER_")) {
      continue;
    }
    if (name == prop::kTimerOutMs) {
      out_text = it.value();
    } else if (name == prop::kTimerDelaySec) {
      wish.delay_sec = it.value();
    } else if (name == prop::kTimerDelayMs) {
      wish.delay_ms = it.value();
    } else if (name == prop::kTimerDeliverMs) {
      wish.deliver_ms = it.value();
    } else if (name == prop::kTimerRollTimes) {
      r.roll_times = proto::parse_int(it.value()).value_or(0);
    } else if (name == prop::kTimerDelUniqKey) {
      r.recalled = it.value();
    }
  }
  const auto out = proto::parse_long(out_text);
  if (!out || *out < 0 || *out > kLatestMs) {
    return std::nullopt;
  }
  r.out_ms = *out;
  // A 5.x broker writes whole seconds, the client's wish says more. After rolling, the store time is
  // not the one that a relative wish counts from.
  const std::int64_t width = *out % kSecondMs == 0 ? kSecondMs : 1;
  const bool absolute = wish.delay_sec.empty() && wish.delay_ms.empty();
  const auto exact =
      wish.any() && (absolute || r.roll_times == 0) ? wished_ms(wish, store_ms) : std::nullopt;
  r.due_ms = std::clamp(exact.value_or(*out + width), *out + 1, *out + width);
  return r;
}

std::int64_t look_at_ms(const TimerRecord& record, std::int64_t store_ms, std::int64_t roll_ms) {
  return std::min(record.recalled.empty() ? record.due_ms : record.out_ms, store_ms + roll_ms);
}

std::string recall_key(std::string_view topic, std::string_view uniq_key) {
  std::string key(topic);
  key.push_back('+');
  key.append(uniq_key);
  return key;
}

std::string encode_recall_handle(const RecallHandle& handle) {
  return base64_encode("v1 " + handle.topic + ' ' + handle.broker_name + ' ' +
                       std::to_string(handle.timestamp_ms) + ' ' + handle.uniq_key);
}

Result<RecallHandle> decode_recall_handle(std::string_view text) {
  const Error invalid{Errc::kInvalid, "recall handle is invalid"};
  const auto plain = base64_decode(text);
  if (text.empty() || !plain) {
    return invalid;
  }
  std::array<std::string_view, 5> items{};
  std::size_t count = 0;
  for (std::string_view rest = *plain; count < items.size(); ++count) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    items[count] = rest.substr(0, end);
    if (end == rest.size()) {
      ++count;
      break;
    }
    rest.remove_prefix(end + 1);
  }
  if (count < items.size() || items[0] != "v1") {
    return invalid;
  }
  return RecallHandle{std::string(items[1]),
                      std::string(items[2]),
                      proto::parse_long(items[3]).value_or(-1),
                      std::string(items[4])};
}

}  // namespace tenon::broker
