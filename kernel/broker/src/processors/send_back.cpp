// CONSUMER_SEND_MSG_BACK 36: a message that could not be consumed goes to the retry topic, later to
// the dead letters (spec: broker §7.1).
#include "append/put.h"
#include "processors/handlers.h"
#include "processors/send.h"
#include "remarks.h"

#include "tenon/base/log.h"
#include "tenon/proto/properties.h"

#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <string>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

constexpr std::int32_t kVersionWithMax = 121;  // V3_4_9
constexpr std::int32_t kFirstRetryLevel = 3;

struct SendBack {
  std::int64_t offset = 0;
  std::string_view group{};
  std::int32_t delay_level = 0;
  std::optional<std::int32_t> max_reconsume_times{};
  bool unit_mode = false;
};

Result<SendBack> parse(const Request& request) {
  SendBack b;
  TENON_TRY(b.offset, need_long(request.command, "offset"));
  TENON_TRY(b.group, need_text(request.command, "group"));
  TENON_TRY(b.delay_level, need_int(request.command, "delayLevel"));
  b.max_reconsume_times = request.command.field_int("maxReconsumeTimes");
  b.unit_mode = request.command.field_bool("unitMode").value_or(false);
  return b;
}

TopicPtr ensure_dlq_topic(const Services& s, std::string_view group) {
  proto::TopicConfig config;
  config.name = std::string(kDlqPrefix) + std::string(group);
  config.read_queue_count = 1;
  config.write_queue_count = 1;
  return s.topics.add_if_absent(std::move(config));
}

/// The copy that is stored. Texts belong to `properties`.
class RetryCopy {
 public:
  RetryCopy(const Services& s, const proto::MessageView& original, const SendBack& back)
      : s_(s),
        original_(original),
        back_(back) {}

  tenon_append_result store(const Topic& retry_topic, std::int32_t max) {
    const std::int32_t times = original_.reconsume_times;
    std::int32_t level = 0;
    TopicPtr dlq;
    const Topic* target = &retry_topic;
    std::int32_t queue_id = random_queue(retry_topic);
    if (times >= max || back_.delay_level < 0) {
      dlq = ensure_dlq_topic(s_, back_.group);
      target = dlq.get();
      queue_id = 0;
    } else {
      level =
          s_.levels.clamp(back_.delay_level == 0 ? kFirstRetryLevel + times : back_.delay_level);
    }
    if (auto written = s_.topics.persist(); written.has_error()) {
      log_error("broker", "topics not written reason=\"{}\"", written.error().detail);
    }
    build_properties(level);
    return put(*target, queue_id, level);
  }

 private:
  static std::int32_t random_queue(const Topic& topic) {
    static std::atomic<std::uint32_t> turn{0};
    const auto queues = static_cast<std::uint32_t>(std::max(topic.config().write_queue_count, 1));
    return static_cast<std::int32_t>(turn.fetch_add(1, std::memory_order_relaxed) % queues);
  }

  void build_properties(std::int32_t level) {
    using namespace proto::prop;
    const std::string_view old = original_.properties;
    for (proto::PropertyIterator it(old); it.next();) {
      if (it.name() != kDelay && it.name() != kWait) {
        proto::append_property(properties_, it.name(), it.value());
      }
    }
    if (!proto::find_property(old, kRetryTopic)) {
      proto::append_property(properties_, kRetryTopic, original_.topic);
    }
    if (!proto::find_property(old, kOriginMessageId)) {
      proto::append_property(properties_,
                             kOriginMessageId,
                             proto::offset_message_id(original_.store_host, original_.phys_offset));
    }
    proto::append_property(properties_, kDelay, std::to_string(level));
    proto::append_property(properties_, kWait, "false");
  }

  tenon_append_result put(const Topic& target, std::int32_t queue_id, std::int32_t level) {
    proto::MessageRecord m;
    m.flag = original_.flag;
    m.sys_flag = original_.sys_flag;
    m.born_ms = original_.born_ms;
    m.born_host = original_.born_host;
    m.store_host = original_.store_host;
    m.reconsume_times = original_.reconsume_times + 1;
    m.body = original_.body;
    m.queue_id = queue_id;
    if (level <= 0) {
      m.properties = properties_;
      return put_message(s_.log, target, m);
    }
    delayed_ = proto::without_property(properties_, proto::prop::kRealTopic);
    delayed_ = proto::without_property(delayed_, proto::prop::kRealQueueId);
    proto::append_property(delayed_, proto::prop::kRealTopic, target.name());
    proto::append_property(delayed_, proto::prop::kRealQueueId, std::to_string(queue_id));
    m.properties = delayed_;
    m.queue_id = level - 1;
    const TopicPtr schedule = s_.topics.find(kScheduleTopic);
    if (schedule == nullptr) {
      tenon_append_result failed{};
      failed.status = static_cast<tenon_status>(Errc::kNotFound);
      return failed;
    }
    return put_message(s_.log, *schedule, m);
  }

  const Services& s_;
  const proto::MessageView& original_;
  const SendBack& back_;
  std::string properties_{};
  std::string delayed_{};
};

/// Checks 1 to 4 of broker §7.1. A reply means: answered.
std::optional<Reply> check(const Services& s,
                           const SendBack& back,
                           GroupPtr& group,
                           TopicPtr& topic) {
  group = s.groups.find_or_create(back.group);
  if (group == nullptr) {
    return Reply::error(Code::kSubscriptionGroupNotExist,
                        fmt::format(remark::kGroupNotExist, back.group));
  }
  if ((s.config.permission & proto::kPermWrite) == 0) {
    return Reply::error(Code::kNoPermission,
                        fmt::format(remark::kBrokerSendForbidden, s.advertised.ip));
  }
  if (group->retry_queue_count <= 0) {
    return Reply{};  // the documented way to switch retries off
  }
  topic = ensure_retry_topic(s, *group, back.unit_mode);
  if (!topic->writable()) {
    return Reply::error(Code::kNoPermission, fmt::format(remark::kTopicNotWritable, topic->name()));
  }
  return std::nullopt;
}

Reply send_back(const Services& s, const Request& request) {
  auto parsed = parse(request);
  if (parsed.has_error()) {
    return system_error(parsed.error());
  }
  const SendBack& back = parsed.value();
  GroupPtr group;
  TopicPtr topic;
  if (auto answered = check(s, back, group, topic)) {
    return std::move(*answered);
  }
  const auto& storage = s.log.storage();
  tenon_view view{};
  tenon_hold hold{};
  const bool found =
      back.offset >= 0 &&
      storage->message_at(
          storage.self, static_cast<std::uint64_t>(back.offset), &view, &hold, nullptr) >= 0;
  const auto release = [&hold] {
    if (hold.release != nullptr) {
      hold.release(hold.owner, hold.id);
    }
  };
  auto original = found ? proto::decode_message(
                              {reinterpret_cast<const std::byte*>(view.ptr), std::size_t{view.len}})
                        : Result<proto::MessageView>(Error{Errc::kNotFound, {}});
  if (original.has_error()) {
    release();
    return Reply::error(Code::kSystemError, fmt::format(remark::kLookMessageFailed, back.offset));
  }
  const std::int32_t max = request.command.version >= kVersionWithMax && back.max_reconsume_times
                               ? *back.max_reconsume_times
                               : group->retry_max_times;
  const std::string stat_key =
      fmt::format("{}@{}",
                  proto::find_property(original.value().properties, proto::prop::kRetryTopic)
                      .value_or(original.value().topic),
                  back.group);
  RetryCopy copy(s, original.value(), back);
  const tenon_append_result result = copy.store(*topic, max);
  release();
  if (result.status < 0) {
    return Reply::error(Code::kSystemError, std::string(put_failure(result.status, s).status_name));
  }
  s.stats.items().item(stat::kSendBackNums, stat_key).add(1);
  return {};
}

}  // namespace

void add_send_back_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kConsumerSendMsgBack] = {Run::kQuery,
                                    [&s](const Request& r) { return send_back(s, r); }};
}

}  // namespace tenon::broker
