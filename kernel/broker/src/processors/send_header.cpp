#include "processors/send_header.h"

#include "txn/half.h"

#include "tenon/proto/properties.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace tenon::broker {
namespace {

/// Copies views of header fields into the struct; remembers which required ones came.
class HeaderReader {
 public:
  explicit HeaderReader(SendHeader& out)
      : out_(out) {}

  void take(char letter, std::string_view value) {
    switch (letter) {
      case 'a':
        out_.group = value;
        break;
      case 'b':
        out_.topic = value;
        break;
      case 'c':
        out_.default_topic = value;
        break;
      case 'd':
        number(letter, value, out_.default_queue_count);
        break;
      case 'e':
        number(letter, value, out_.queue_id);
        break;
      case 'f':
        number(letter, value, out_.sys_flag);
        break;
      case 'g':
        number(letter, value, out_.born_ms);
        break;
      case 'h':
        number(letter, value, out_.flag);
        break;
      case 'i':
        out_.properties = value;
        break;
      case 'j':
        number(letter, value, out_.reconsume_times);
        break;
      case 'k':
        out_.unit_mode = is_true(value);
        break;
      case 'l': {
        std::int32_t max = 0;
        number(letter, value, max);
        out_.max_reconsume_times = max;
        break;
      }
      case 'm':
        out_.batch = is_true(value);
        break;
      default:
        return;
    }
    seen_ |= 1u << (letter - 'a');
  }

  /// The first required letter without a value; 0 if all came.
  char missing() const noexcept {
    for (const char letter : {'a', 'c', 'd', 'e', 'f', 'g', 'h'}) {
      if ((seen_ & (1u << (letter - 'a'))) == 0) {
        return letter;
      }
    }
    return 0;
  }
  char bad() const noexcept { return bad_; }

 private:
  static bool is_true(std::string_view v) noexcept {
    return v.size() == 4 && (v[0] | 0x20) == 't' && (v[1] | 0x20) == 'r' && (v[2] | 0x20) == 'u' &&
           (v[3] | 0x20) == 'e';
  }
  template <class T>
  void number(char letter, std::string_view text, T& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc{} || end != text.data() + text.size()) {
      bad_ = letter;
    }
  }

  SendHeader& out_;
  std::uint32_t seen_ = 0;
  char bad_ = 0;
};

/// Long name of a one-letter field (SendMessageRequestHeaderV2).
std::string_view long_name(char letter) {
  switch (letter) {
    case 'a':
      return "producerGroup";
    case 'b':
      return "topic";
    case 'c':
      return "defaultTopic";
    case 'd':
      return "defaultTopicQueueNums";
    case 'e':
      return "queueId";
    case 'f':
      return "sysFlag";
    case 'g':
      return "bornTimestamp";
    case 'h':
      return "flag";
    case 'i':
      return "properties";
    case 'j':
      return "reconsumeTimes";
    case 'k':
      return "unitMode";
    case 'l':
      return "maxReconsumeTimes";
    default:
      return "batch";
  }
}

char letter_of(std::string_view name) {
  for (char letter = 'a'; letter <= 'm'; ++letter) {
    if (long_name(letter) == name) {
      return letter;
    }
  }
  return 0;
}

void put(char*& at, std::string_view text) noexcept {
  std::memcpy(at, text.data(), text.size());
  at += text.size();
}

void put_property(char* begin, char*& at, std::string_view name, std::string_view value) noexcept {
  if (at != begin) {
    *at++ = proto::kPropertySeparator;
  }
  put(at, name);
  *at++ = proto::kNameValueSeparator;
  put(at, value);
}

void take_timer(std::string_view name, std::string_view value, TimerWish& wish) noexcept {
  if (name == proto::prop::kTimerDelaySec) {
    wish.delay_sec = value;
  } else if (name == proto::prop::kTimerDelayMs) {
    wish.delay_ms = value;
  } else if (name == proto::prop::kTimerDeliverMs) {
    wish.deliver_ms = value;
  } else if (name == proto::prop::kTimerOutMs) {
    wish.rewritten = true;
  }
}

bool is_timer_wish(std::string_view name) noexcept {
  return name == proto::prop::kTimerDelaySec || name == proto::prop::kTimerDelayMs ||
         name == proto::prop::kTimerDeliverMs;
}

void put_number(char* begin, char*& at, std::string_view name, std::int64_t value) noexcept {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  put_property(begin, at, name, {text, static_cast<std::size_t>(end - text)});
}

}  // namespace

Result<> parse_send_header(const proto::CommandView& command, SendHeader& out) {
  HeaderReader reader(out);
  const bool long_names = command.code == proto::RequestCode::kSendMessage ||
                          command.code == proto::RequestCode::kSendReplyMessage;
  for (const proto::Field& field : command.fields) {
    if (long_names) {
      if (const char letter = letter_of(field.key); letter != 0) {
        reader.take(letter, field.value);
      }
    } else if (field.key.size() == 1) {
      reader.take(field.key[0], field.value);
    }
  }
  if (const char bad = reader.bad(); bad != 0) {
    return Error{Errc::kInvalid,
                 fmt::format("the custom field <{}> is not a number",
                             long_names ? long_name(bad) : std::string_view(&bad, 1))};
  }
  if (const char missing = reader.missing(); missing != 0) {
    return Error{Errc::kInvalid,
                 fmt::format("the custom field <{}> is null",
                             long_names ? long_name(missing) : std::string_view(&missing, 1))};
  }
  return ok();
}

bool SendProperties::wait_stored() const noexcept {
  // Absent means true; everything but "true" in any case is false.
  return wait.empty() || (wait.size() == 4 && (wait[0] | 0x20) == 't' && (wait[1] | 0x20) == 'r' &&
                          (wait[2] | 0x20) == 'u' && (wait[3] | 0x20) == 'e');
}

SendProperties scan_properties(std::string_view text) noexcept {
  SendProperties p;
  std::string_view transaction;
  for (proto::PropertyIterator it(text); it.next();) {
    const std::string_view name = it.name();
    switch (name.size()) {
      case 4:
        if (name == proto::prop::kTags) {
          p.tags = it.value();
        } else if (name == proto::prop::kKeys) {
          p.keys = it.value();
        } else if (name == proto::prop::kWait) {
          p.wait = it.value();
        }
        break;
      case 5:
        if (name == proto::prop::kDelay) {
          p.delay = it.value();
        }
        break;
      case 8:
        if (name == proto::prop::kUniqKey) {
          p.uniq_key = it.value();
        } else if (name == proto::prop::kTransactionPrepared) {
          transaction = it.value();
        }
        break;
      case 12:
      case 14:
      case 15:
      case 16:
        take_timer(name, it.value(), p.timer);
        break;
      default:
        break;
    }
  }
  p.transaction = transaction.size() == 4 && (transaction[0] | 0x20) == 't' &&
                  (transaction[1] | 0x20) == 'r' && (transaction[2] | 0x20) == 'u' &&
                  (transaction[3] | 0x20) == 'e';
  if (!p.delay.empty()) {
    const auto level = proto::parse_int(p.delay);
    p.delay_illegal = !level.has_value();
    p.delay_level = level.value_or(0);
  }
  return p;
}

std::string_view rewrite_properties(std::string_view text,
                                    const PropertyChanges& changes,
                                    Arena& arena) {
  constexpr std::string_view kDeadLetterDelay = "-1";
  const std::size_t bound = text.size() + changes.cluster.size() + changes.real_topic.size() + 144;
  char* const begin = arena.take_text(bound);
  char* at = begin;
  const bool redirected = !changes.real_topic.empty();
  for (proto::PropertyIterator it(text); it.next();) {
    const std::string_view name = it.name();
    // Trap: a message that goes to another topic first keeps WAIT (store §3.3); a half must not be
    // delayed (broker §5.5).
    const bool drop =
        (!redirected && name == proto::prop::kWait) || name == proto::prop::kCluster ||
        ((changes.dead_letter || changes.half) && name == proto::prop::kDelay) ||
        (changes.half && (name == txn_prop::kCheckTimes || name == txn_prop::kFirstOffset)) ||
        (changes.drop_timer && is_timer_wish(name)) ||
        (redirected && (name == proto::prop::kRealTopic || name == proto::prop::kRealQueueId));
    if (!drop) {
      put_property(begin, at, name, it.value());
    }
  }
  if (changes.dead_letter && !changes.half) {
    put_property(begin, at, proto::prop::kDelay, kDeadLetterDelay);
  }
  put_property(begin, at, proto::prop::kCluster, changes.cluster);
  if (!changes.real_topic.empty()) {
    put_property(begin, at, proto::prop::kRealTopic, changes.real_topic);
    put_number(begin, at, proto::prop::kRealQueueId, changes.real_queue_id);
  }
  if (changes.timer_out_ms != 0) {
    put_number(begin, at, proto::prop::kTimerOutMs, changes.timer_out_ms);
  }
  return {begin, static_cast<std::size_t>(at - begin)};
}

}  // namespace tenon::broker
