// Administration of groups' offsets: reset 222 (220 to the clients), time span 303, correction 308,
// clone 314 (spec: broker §11, §11.1, §15.3; remoting §7.4, §7.5).
#include "processors/handlers.h"
#include "processors/store_view.h"
#include "remarks.h"

#include "tenon/base/log.h"
#include "tenon/proto/bodies_admin.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

constexpr std::int32_t kVersionReset = 28;  // V3_0_7_SNAPSHOT

struct Reset {
  std::string_view topic{};
  std::string_view group{};
  std::int64_t time_ms = -1;
  bool force = false;
  std::int32_t queue_id = -1;  ///< 5.x: one queue only
  std::int64_t offset = -1;    ///< 5.x: to this offset, whatever the time
};

Result<Reset> parse_reset(const proto::CommandView& c) {
  Reset r;
  TENON_TRY(r.topic, need_text(c, "topic"));
  TENON_TRY(r.group, need_text(c, "group"));
  TENON_TRY(r.time_ms, need_long(c, "timestamp"));
  r.force = c.field_bool("isForce").value_or(false);
  r.queue_id = c.field_int("queueId").value_or(-1);
  r.offset = c.field_long("offset").value_or(-1);
  return r;
}

/// New offset of each write queue. @return an answer if a queue has no offset of the group
std::optional<Reply> compute_reset(const Services& s,
                                   const Reset& reset,
                                   const Topic& topic,
                                   proto::QueueOffsets& out) {
  for (std::int32_t id = 0; id < topic.config().write_queue_count; ++id) {
    if (reset.queue_id >= 0 && reset.queue_id != id) {
      continue;
    }
    const tenon_queue queue = s.log.queue_of(topic, static_cast<std::uint32_t>(id));
    const std::int64_t committed = s.offsets.query(reset.group, reset.topic, id);
    if (committed < 0 && reset.offset < 0) {
      return Reply::error(Code::kSystemError, fmt::format(remark::kResetNoGroup, reset.group));
    }
    std::int64_t target = reset.offset;
    if (target < 0) {
      target = offset_by_time(s, queue, reset.time_ms);
      target = reset.force || target < committed ? target : committed;
    } else if (const auto bounds = s.log.bounds(queue);
               target < bounds.min_offset || target > bounds.max_offset) {
      return Reply::error(
          Code::kSystemError,
          fmt::format(remark::kResetRange, target, bounds.min_offset, bounds.max_offset, id));
    }
    out[{topic.name(), s.config.name, id}] = target;
  }
  return std::nullopt;
}

/// Tells the members their new offsets; they commit them. Trap: isForce is always false, whatever
/// the administrator asked (remoting §5.1).
void push_reset(const Services& s,
                const Reset& reset,
                const std::vector<ClientChannel>& members,
                const proto::QueueOffsets& offsets) {
  for (const ClientChannel& member : members) {
    proto::Command c;
    c.code = proto::RequestCode::kResetConsumerClientOffset;
    c.set("topic", reset.topic).set("group", reset.group).set("timestamp", reset.time_ms);
    c.set("isForce", "false");
    // C++ clients understand only the list, all others only the map; Java's broker goes by the
    // language of whoever asks for the reset and so misses one of them.
    c.body = proto::encode_reset_offset(offsets, member.language == proto::Language::kCpp);
    s.calls.oneway(member.connection, std::move(c));
  }
  log_info("broker",
           "offsets reset group=\"{}\" topic={} timestamp={} members={}",
           reset.group,
           reset.topic,
           reset.time_ms,
           members.size());
}

Reply reset_offset(const Services& s, const Request& request) {
  auto parsed = parse_reset(request.command);
  if (parsed.has_error()) {
    return system_error(parsed.error());
  }
  const Reset& reset = parsed.value();
  const TopicPtr topic = s.topics.find(reset.topic);
  if (topic == nullptr) {
    return Reply::error(Code::kSystemError, fmt::format(remark::kTopicUnknown, reset.topic));
  }
  if (reset.queue_id >= topic->config().write_queue_count) {
    return Reply::error(Code::kSystemError,
                        fmt::format(remark::kNoSuchQueue, reset.queue_id, reset.topic));
  }
  proto::QueueOffsets offsets;
  if (auto refused = compute_reset(s, reset, *topic, offsets)) {
    return std::move(*refused);
  }
  const std::vector<ClientChannel> members = s.consumers.channels(reset.group);
  for (const ClientChannel& member : members) {
    if (member.version < kVersionReset) {
      return Reply::error(Code::kSystemError,
                          fmt::format(remark::kClientTooOld, member.client_id, member.version));
    }
  }
  if (members.empty() && reset.offset < 0) {
    return Reply::error(
        Code::kConsumerNotOnline,
        fmt::format(remark::kResetNotOnline, reset.group, reset.topic, reset.time_ms));
  }
  // Trap: the table of the broker stays as it is, the clients commit what they were told (broker
  // §11.1). Only a 5.x tool's explicit offset of a group that is offline is set here.
  if (members.empty()) {
    for (const auto& [queue, offset] : offsets) {
      s.offsets.commit(reset.group, reset.topic, queue.queue_id, offset);
    }
  } else {
    push_reset(s, reset, members, offsets);
  }
  Reply reply = Reply::with_body(proto::encode_reset_offset(offsets, false));
  reply.remark = remark::kNotSet;
  return reply;
}

Reply time_span(const Services& s, const Request& request) {
  const auto name = need_text(request.command, "topic");
  const auto group = need_text(request.command, "group");
  if (name.has_error() || group.has_error()) {
    return system_error(name.has_error() ? name.error() : group.error());
  }
  const TopicPtr topic = s.topics.find(name.value());
  if (topic == nullptr) {
    return Reply::error(Code::kTopicNotExist, fmt::format(remark::kTopicUnknown, name.value()));
  }
  std::vector<proto::QueueTimeSpan> spans;
  for (std::int32_t id = 0; id < topic->config().write_queue_count; ++id) {
    const tenon_queue queue = s.log.queue_of(*topic, static_cast<std::uint32_t>(id));
    const tenon_queue_bounds bounds = s.log.bounds(queue);
    const std::int64_t consumed = s.offsets.query(group.value(), name.value(), id);
    proto::QueueTimeSpan& span = spans.emplace_back();
    span.queue = {topic->name(), s.config.name, id};
    span.min_ms = time_of(s, queue, bounds.min_offset);
    span.max_ms = time_of(s, queue, bounds.max_offset - 1);
    span.consume_ms = consumed > 0 ? time_of(s, queue, consumed - 1) : span.min_ms;
    if (const std::int64_t next = std::max<std::int64_t>(consumed, 0); next < bounds.max_offset) {
      const std::int64_t next_ms = time_of(s, queue, next);
      span.delay_ms = next_ms > 0 ? std::max<std::int64_t>(s.clock.wall_ms() - next_ms, 0) : 0;
    }
  }
  return Reply::with_body(proto::encode_time_spans(spans));
}

std::set<std::string> split(std::string_view list, char separator) {
  std::set<std::string> out;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(separator), list.size());
    if (end > 0) {
      out.emplace(list.substr(0, end));
    }
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

/// Smallest offset of each queue over the other groups. Trap: 4.9.8 removes the offsets of
/// filterGroups from the live table while it looks; nothing is changed here (broker §11).
Reply correction_offset(const Services& s, const Request& request) {
  const auto topic = need_text(request.command, "topic");
  if (topic.has_error()) {
    return system_error(topic.error());
  }
  const std::set<std::string> left_out =
      split(request.command.field("filterGroups").value_or(""), ',');
  std::map<std::int32_t, std::int64_t> offsets;
  for (const std::string& group : s.offsets.groups_of(topic.value())) {
    if (left_out.find(group) != left_out.end()) {
      continue;
    }
    for (const auto& [id, offset] : s.offsets.queues_of(group, topic.value())) {
      const auto [it, added] = offsets.try_emplace(id, offset);
      it->second = std::min(it->second, offset);
    }
  }
  return Reply::with_body(proto::encode_correction_offsets(offsets));
}

/// Trap: without a topic 4.9.8 clones nothing and answers 0; every topic is copied here (broker
/// §15.3).
Reply clone_offset(const Services& s, const Request& request) {
  const auto from = need_text(request.command, "srcGroup");
  const auto to = need_text(request.command, "destGroup");
  if (from.has_error() || to.has_error()) {
    return system_error(from.has_error() ? from.error() : to.error());
  }
  std::set<std::string> topics;
  if (const std::string_view one = request.command.field("topic").value_or(""); !one.empty()) {
    topics.emplace(one);
  } else {
    topics = s.offsets.topics_of(from.value());
  }
  const bool offline = request.command.field_bool("offline").value_or(false);
  for (const std::string& topic : topics) {
    const bool known = s.topics.find(topic) != nullptr;
    const bool wanted = offline || !s.consumers.is_online(from.value()) ||
                        s.consumers.subscribes(from.value(), topic);
    if (!known || !wanted) {
      log_info("broker",
               "offsets not cloned from=\"{}\" to=\"{}\" topic={} known={}",
               from.value(),
               to.value(),
               topic,
               known);
      continue;
    }
    for (const auto& [id, offset] : s.offsets.queues_of(from.value(), topic)) {
      s.offsets.commit(to.value(), topic, id, offset);
    }
  }
  return {};
}

}  // namespace

void add_group_offset_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kInvokeBrokerToResetOffset] = {Run::kAdmin,
                                          [&s](const Request& r) { return reset_offset(s, r); }};
  table[C::kQueryConsumeTimeSpan] = {Run::kAdmin,
                                     [&s](const Request& r) { return time_span(s, r); }};
  table[C::kQueryCorrectionOffset] = {Run::kAdmin,
                                      [&s](const Request& r) { return correction_offset(s, r); }};
  table[C::kCloneGroupOffset] = {Run::kAdmin,
                                 [&s](const Request& r) { return clone_offset(s, r); }};
}

}  // namespace tenon::broker
