// Committed offsets: 14, 15, 43 (spec: broker §11, remoting §6.4).
#include "meta/light_topics.h"
#include "processors/handlers.h"
#include "remarks.h"

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

struct QueueOfGroup {
  std::string_view group{};
  std::string_view topic{};
  std::int32_t queue_id = 0;
};

Result<QueueOfGroup> parse(const Request& request) {
  QueueOfGroup q;
  TENON_TRY(q.group, need_text(request.command, "consumerGroup"));
  TENON_TRY(q.topic, need_text(request.command, "topic"));
  TENON_TRY(q.queue_id, need_int(request.command, "queueId"));
  return q;
}

/// Whether a group without an offset starts at 0: the queue is whole and its first message is in
/// memory. Trap: this decides, before consumeFromWhere, where a new group starts (broker §11).
bool starts_at_zero(const Services& s, const QueueOfGroup& q) {
  const TopicPtr topic = s.topics.find(q.topic);
  if (q.queue_id < 0) {
    return true;
  }
  const tenon_queue_bounds bounds = s.log.bounds(
      topic == nullptr ? find_light_queue(s.log, q.topic, q.queue_id)
                       : s.log.queue_of(*topic, static_cast<std::uint32_t>(q.queue_id)));
  if (bounds.max_offset == 0) {
    return true;
  }
  return bounds.min_offset <= 0 && !s.pulls.is_cold(bounds.min_phys);
}

Reply query(const Services& s, const Request& request) {
  auto parsed = parse(request);
  if (parsed.has_error()) {
    return system_error(parsed.error());
  }
  const QueueOfGroup& q = parsed.value();
  Reply reply;
  const std::int64_t offset = s.offsets.query(q.group, q.topic, q.queue_id);
  if (offset >= 0) {
    reply.field("offset", offset);
    return reply;
  }
  // 5.x clients may ask for the plain truth.
  const bool zero_allowed = request.command.field_bool("setZeroIfNotFound").value_or(true);
  if (zero_allowed && starts_at_zero(s, q)) {
    reply.field("offset", std::int64_t{0});
    return reply;
  }
  return Reply::error(Code::kQueryNotFound, std::string(remark::kOffsetNotFound));
}

Reply update(const Services& s, const Request& request) {
  auto parsed = parse(request);
  if (parsed.has_error()) {
    return system_error(parsed.error());
  }
  const auto offset = need_long(request.command, "commitOffset");
  if (offset.has_error()) {
    return system_error(offset.error());
  }
  const QueueOfGroup& q = parsed.value();
  s.offsets.commit(q.group, q.topic, q.queue_id, offset.value());
  Reply reply;
  reply.empty_fields = true;
  return reply;
}

}  // namespace

void add_consumer_offset_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kQueryConsumerOffset] = {Run::kInline, [&s](const Request& r) { return query(s, r); }};
  table[C::kUpdateConsumerOffset] = {Run::kInline, [&s](const Request& r) { return update(s, r); }};
  table[C::kGetAllConsumerOffset] = {Run::kAdmin, [&s](const Request&) {
                                       return Reply::with_body(proto::encode(s.offsets.table()));
                                     }};
}

}  // namespace tenon::broker
