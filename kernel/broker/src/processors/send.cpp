#include "processors/send.h"

#include "processors/send_check.h"
#include "remarks.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/host/plugin_registry.h"
#include "tenon/proto/properties.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

/// Room that the copies of a half need for their count of checks and their link to the first one.
constexpr std::size_t kCheckTextBytes = 96;

/// What becomes of a wish for a time (broker §12.3); filled unless it is refused.
std::optional<Refusal> decide_wish(const Services& s,
                                   const IoState& io,
                                   const TimerWish& wish,
                                   TimerDecision& decision) {
  if (!s.config.timer_wheel || io.find_topic(kTimerTopic) == nullptr) {
    return Refusal{Code::kSystemError, fmt::format(remark::kTimerNotEnabled, s.config.timer_wheel)};
  }
  const std::int64_t max_delay_ms = s.config.timer_max_delay_sec * 1000;
  decision = decide_timer(wish, s.clock.wall_ms(), max_delay_ms);
  if (decision.fate == TimerFate::kIllegal) {
    return Refusal{Code::kMessageIllegal, fmt::format(remark::kTimerIllegal, max_delay_ms)};
  }
  return std::nullopt;
}

}  // namespace

tenon_addr to_abi(const proto::HostAddr& host) noexcept {
  tenon_addr a{};
  std::memcpy(a.ip, host.ip.data(), host.v6 ? 16 : 4);
  a.port = host.port;
  a.family = host.v6 ? 6 : 4;
  return a;
}

SendProcessor::SendProcessor(const Services& services, Again again)
    : s_(services),
      again_(std::move(again)),
      store_host_(to_abi(services.advertised.store_host)) {}

void SendProcessor::refuse(const Request& request,
                           std::int32_t code,
                           std::string_view remark) const {
  if (request.command.is_oneway()) {
    return;
  }
  proto::FrameWriter writer(request.connection->out(), answer_head(request.command, code, remark));
  writer.field("MSG_REGION", s_.config.region_id);
  writer.field_bool("TRACE_ON", s_.config.trace_on);
  writer.finish();
}

void SendProcessor::fail(const Request& request, std::string_view remark) const {
  write_reply(request.connection->out(),
              request.command,
              Reply::error(Code::kSystemError, std::string(remark)));
}

void SendProcessor::add(IoState& io, const Request& request, int attempt) {
  if (io.late_ms != 0) {
    refuse_late(
        io,
        *request.connection,
        {request.command.code, request.command.opaque, request.command.flag, request.command.kind});
    return;
  }
  if (s_.log.page_cache_busy()) {
    // Trap: this one is answered even if the request was one-way (broker §3.2).
    proto::FrameWriter(request.connection->out(),
                       answer_head(request.command, Code::kSystemBusy, remark::kRejectRequest))
        .finish();
    return;
  }
  SendHeader header;
  if (auto parsed = parse_send_header(request.command, header); parsed.has_error()) {
    fail(request, parsed.error().detail);
    return;
  }
  Target target;
  if (!check(io, request, header, target, attempt)) {
    return;
  }
  if (header.batch) {
    add_batch(io, request, header, target);
  } else if (redirect_retry(io, request, header, target, attempt)) {
    add_single(io, request, header, target);
  }
}

/// Checks 1 to 6 of broker §5.1 in Java's order. False: answered, or to be run again.
bool SendProcessor::check(
    IoState& io, const Request& request, const SendHeader& header, Target& target, int attempt) {
  const Topic* const found = io.find_topic(header.topic);
  if (const auto refusal = check_send(s_, header, found)) {
    refuse(request, refusal->code, refusal->remark);
    return false;
  }
  if (found == nullptr) {
    if (attempt > 0) {
      log_warn("broker",
               "send to an unknown topic topic={} peer={}",
               header.topic,
               proto::to_string(request.connection->peer()));
      refuse(request, Code::kTopicNotExist, topic_not_exist(header.topic).remark);
    } else {
      create_topic_then_again(request, header, attempt);
    }
    return false;
  }
  if (const auto refusal = check_queue(*found, header.queue_id, request.connection->peer())) {
    refuse(request, refusal->code, refusal->remark);
    return false;
  }
  const Topic& topic = *found;
  const proto::TopicConfig& config = topic.config();
  target.topic = &topic;
  target.queue_id = header.queue_id;
  if (header.queue_id < 0) {
    if (config.write_queue_count <= 0) {
      refuse(request, Code::kSystemError, "the topic has no queue to write to");
      return false;
    }
    target.queue_id = static_cast<std::int32_t>(
        io.next_random() % static_cast<std::uint32_t>(config.write_queue_count));
  }
  target.answer_queue_id = target.queue_id;
  return true;
}

/// A send to %RETRY%group that was repeated too often goes to the dead letters (broker §7.2).
bool SendProcessor::redirect_retry(
    IoState& io, const Request& request, const SendHeader& header, Target& target, int attempt) {
  if (!header.topic.starts_with(kRetryPrefix)) {
    return true;
  }
  const std::string_view group_name = header.topic.substr(kRetryPrefix.size());
  const GroupPtr group = s_.groups.find_or_create(group_name);
  if (group == nullptr) {
    refuse(
        request, Code::kSubscriptionGroupNotExist, fmt::format(remark::kGroupNotExist, group_name));
    return false;
  }
  constexpr std::int32_t kVersionWithMax = 121;  // V3_4_9
  const std::int32_t max = request.command.version >= kVersionWithMax && header.max_reconsume_times
                               ? *header.max_reconsume_times
                               : group->retry_max_times;
  if (header.reconsume_times < max) {
    return true;
  }
  std::string name(kDlqPrefix);
  name.append(group_name);
  const Topic* dlq = io.find_topic(name);
  if (dlq == nullptr) {
    if (attempt > 1) {
      refuse(request, Code::kSystemError, fmt::format(remark::kTopicUnknown, name));
    } else {
      create_dlq_then_again(request, std::move(name), attempt);
    }
    return false;
  }
  target.topic = dlq;
  target.queue_id = 0;
  target.dead_letter = true;
  return true;
}

tenon_record SendProcessor::base_record(const Request& request,
                                        const SendHeader& header,
                                        const Target& target) const {
  tenon_record r{};
  r.topic = host::abi_str(target.topic->name());
  r.queue_id = static_cast<std::uint32_t>(target.queue_id);
  r.queue = s_.log.queue_of(*target.topic, r.queue_id);
  r.flag = header.flag;
  r.sys_flag = header.sys_flag & ~(proto::sys_flag::kBornHostV6 | proto::sys_flag::kStoreHostV6);
  if (target.topic->multi_tag()) {
    r.sys_flag |= proto::sys_flag::kMultiTags;
  }
  r.born_ms = header.born_ms;
  r.born_host = to_abi(request.connection->peer());
  r.store_host = store_host_;
  r.reconsume_times = header.reconsume_times;
  r.count = 1;
  r.body = {reinterpret_cast<const std::uint8_t*>(request.command.body.data()),
            request.command.body.size()};
  return r;
}

/// A message that waits first lies in another topic (broker §5.5): a delay level wins over the wish
/// for a time. False: answered.
bool SendProcessor::put_off(IoState& io,
                            const Request& request,
                            const SendProperties& properties,
                            PropertyChanges& changes,
                            Target& target) {
  if (properties.delay_level <= 0) {
    return !properties.timer.any() || set_timer(io, request, properties, changes, target);
  }
  const Topic* schedule = io.find_topic(kScheduleTopic);
  const std::int32_t level = s_.levels.clamp(properties.delay_level);
  if (schedule == nullptr || level < 1) {
    refuse(request,
           Code::kMessageIllegal,
           fmt::format("delay level {} is not served by this broker", properties.delay_level));
    return false;
  }
  changes.real_topic = target.topic->name();
  changes.real_queue_id = target.queue_id;
  changes.drop_timer = true;
  target.topic = schedule;
  target.queue_id = level - 1;
  return true;
}

/// Into the timer topic, if the time is not now (broker §12.3). False: answered.
bool SendProcessor::set_timer(IoState& io,
                              const Request& request,
                              const SendProperties& properties,
                              PropertyChanges& changes,
                              Target& target) {
  TimerDecision decision;
  if (const auto refusal = decide_wish(s_, io, properties.timer, decision)) {
    refuse(request, refusal->code, refusal->remark);
    return false;
  }
  if (decision.fate == TimerFate::kNow) {
    return true;
  }
  changes.real_topic = target.topic->name();
  changes.real_queue_id = target.queue_id;
  changes.timer_out_ms = decision.out_ms;
  const std::string handle = encode_recall_handle({target.topic->name(),
                                                   s_.config.name,
                                                   decision.out_ms + 1,
                                                   std::string(properties.uniq_key)});
  char* text = io.batch.arena.take_text(handle.size());
  std::copy(handle.begin(), handle.end(), text);
  target.recall_handle = {text, handle.size()};
  target.topic = io.find_topic(kTimerTopic);
  target.queue_id = 0;
  return true;
}

bool SendProcessor::add_single(IoState& io,
                               const Request& request,
                               const SendHeader& header,
                               Target& target) {
  SendProperties properties = scan_properties(header.properties);
  if (properties.transaction) {
    return add_half(io, request, header, target, properties);
  }
  if (properties.delay_illegal) {
    refuse(request, Code::kSystemError, fmt::format("For input string: \"{}\"", properties.delay));
    return false;
  }
  PropertyChanges changes{.cluster = s_.config.cluster, .dead_letter = target.dead_letter};
  const std::int32_t transaction_type = header.sys_flag & proto::sys_flag::kTransactionMask;
  Target stored = target;
  if (!target.dead_letter &&
      (transaction_type == 0 || transaction_type == proto::sys_flag::kTransactionCommit) &&
      !put_off(io, request, properties, changes, stored)) {
    return false;
  }
  tenon_record record = base_record(request, header, stored);
  const std::string_view text = rewrite_properties(header.properties, changes, io.batch.arena);
  const std::size_t growth = changes.timer_out_ms != 0 ? kTimerGrowthBytes : 0;
  return push_checked(io, request, stored, record, properties, text, growth);
}

/// The first half of a transaction: an ordinary put into a topic that nobody consumes (§13.1).
bool SendProcessor::add_half(IoState& io,
                             const Request& request,
                             const SendHeader& header,
                             const Target& target,
                             const SendProperties& properties) {
  if (s_.config.reject_transaction_message) {
    refuse(
        request, Code::kNoPermission, fmt::format(remark::kTransactionForbidden, s_.advertised.ip));
    return false;
  }
  // The time itself is set when it is committed; who asks for the impossible is told now.
  TimerDecision at_commit;
  if (properties.timer.any()) {
    if (const auto refusal = decide_wish(s_, io, properties.timer, at_commit)) {
      refuse(request, refusal->code, refusal->remark);
      return false;
    }
  }
  Target stored = target;
  stored.topic = io.find_topic(kHalfTopic);
  stored.queue_id = 0;
  if (stored.topic == nullptr) {
    refuse(request, Code::kSystemError, fmt::format(remark::kTopicUnknown, kHalfTopic));
    return false;
  }
  const PropertyChanges changes{.cluster = s_.config.cluster,
                                .real_topic = target.topic->name(),
                                .real_queue_id = target.queue_id,
                                .dead_letter = target.dead_letter,
                                .half = true};
  tenon_record record = base_record(request, header, stored);
  // Trap: the type of a half is "not transactional", not PREPARED, or it would not be indexed (§13.1).
  record.sys_flag &= ~proto::sys_flag::kTransactionMask;
  const std::string_view text = rewrite_properties(header.properties, changes, io.batch.arena);
  return push_checked(io, request, stored, record, properties, text, kCheckTextBytes);
}

/// Adds the rewritten properties, of which `growth` bytes more must be allowed later.
bool SendProcessor::push_checked(IoState& io,
                                 const Request& request,
                                 const Target& target,
                                 tenon_record& record,
                                 const SendProperties& properties,
                                 std::string_view text,
                                 std::size_t growth) {
  if (text.size() + growth > s_.config.properties_max_bytes ||
      request.command.body.size() > s_.config.message_max_bytes) {
    refuse(request,
           Code::kMessageIllegal,
           fmt::format(remark::kMessageIllegal, s_.config.message_max_bytes));
    return false;
  }
  record.properties = {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
  record.tags_code = properties.tags.empty() ? 0 : proto::java_hash(properties.tags);
  record.keys = host::abi_str(properties.keys);
  record.uniq_key = host::abi_str(properties.uniq_key);
  push(io, request, target, record, properties.wait_stored());
  return true;
}

void SendProcessor::push(IoState& io,
                         const Request& request,
                         const Target& target,
                         const tenon_record& record,
                         bool wait) {
  const bool durable = s_.config.sync_flush && wait;
  if (durable && s_.flush_waiters.size() + io.batch.pending.size() >= s_.config.send_queue_max) {
    // Java's bound of the send queue: here the puts that wait for the disk.
    write_reply(request.connection->out(),
                request.command,
                Reply::error(Code::kSystemBusy, std::string(remark::kOverload)));
    return;
  }
  io.batch.pending.push_back({request.command.opaque,
                              request.command.kind,
                              request.command.is_oneway(),
                              target.answer_queue_id,
                              durable,
                              target.topic,
                              target.recall_handle});
  io.batch.records.push_back(record);
  if (durable) {
    io.batch.records.back().flags |= TENON_RECORD_WANT_DURABLE;
  }
}

}  // namespace tenon::broker
