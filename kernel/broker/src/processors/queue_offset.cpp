// Offsets and times of queues: 29, 30, 31, 32 (spec: broker §15.2, remoting §6.5).
#include "meta/light_topics.h"
#include "processors/handlers.h"

namespace tenon::broker {
namespace {

/// The queue a request names; 0 if topic or queue are unknown: all answers are 0 then.
/// Trap: looking must not create anything, however many names a client tries (broker §15.2).
Result<tenon_queue> queue_of(const Services& s, const Request& request) {
  TENON_TRY(const auto name, need_text(request.command, "topic"));
  TENON_TRY(const auto id, need_int(request.command, "queueId"));
  const TopicPtr topic = s.topics.find(name);
  if (topic == nullptr) {
    return find_light_queue(s.log, name, id);
  }
  if (id < 0 || id >= static_cast<std::int32_t>(topic->queue_count())) {
    return tenon_queue{0};
  }
  return s.log.queue_of(*topic, static_cast<std::uint32_t>(id));
}

Reply max_offset(const Services& s, const Request& request) {
  const auto queue = queue_of(s, request);
  if (queue.has_error()) {
    return system_error(queue.error());
  }
  Reply reply;
  reply.field("offset", s.log.bounds(queue.value()).max_offset);
  return reply;
}

Reply min_offset(const Services& s, const Request& request) {
  const auto queue = queue_of(s, request);
  if (queue.has_error()) {
    return system_error(queue.error());
  }
  Reply reply;
  reply.field("offset", s.log.bounds(queue.value()).min_offset);
  return reply;
}

Reply search_by_time(const Services& s, const Request& request) {
  const auto queue = queue_of(s, request);
  if (queue.has_error()) {
    return system_error(queue.error());
  }
  const auto time = need_long(request.command, "timestamp");
  if (time.has_error()) {
    return system_error(time.error());
  }
  std::uint32_t boundary = TENON_BOUNDARY_NEAREST;
  const std::string_view wanted = request.command.field("boundaryType").value_or("");
  if (wanted == "lower" || wanted == "LOWER") {
    boundary = TENON_BOUNDARY_LOWER;
  } else if (wanted == "upper" || wanted == "UPPER") {
    boundary = TENON_BOUNDARY_UPPER;
  }
  std::int64_t offset = 0;
  const auto& storage = s.log.storage();
  if (queue.value() == 0 || storage->offset_by_time == nullptr ||
      storage->offset_by_time(
          storage.self, queue.value(), time.value(), boundary, &offset, nullptr) < 0) {
    offset = 0;
  }
  Reply reply;
  reply.field("offset", offset);
  return reply;
}

Reply earliest_time(const Services& s, const Request& request) {
  const auto queue = queue_of(s, request);
  if (queue.has_error()) {
    return system_error(queue.error());
  }
  std::int64_t ms = -1;
  const auto& storage = s.log.storage();
  const tenon_queue_bounds bounds = s.log.bounds(queue.value());
  if (queue.value() == 0 || storage->time_of == nullptr ||
      storage->time_of(storage.self, queue.value(), bounds.min_offset, &ms, nullptr) < 0) {
    ms = -1;
  }
  Reply reply;
  reply.field("timestamp", ms);
  return reply;
}

}  // namespace

void add_queue_offset_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kGetMaxOffset] = {Run::kInline, [&s](const Request& r) { return max_offset(s, r); }};
  table[C::kGetMinOffset] = {Run::kInline, [&s](const Request& r) { return min_offset(s, r); }};
  table[C::kSearchOffsetByTimestamp] = {Run::kQuery,
                                        [&s](const Request& r) { return search_by_time(s, r); }};
  table[C::kGetEarliestMsgStoretime] = {Run::kQuery,
                                        [&s](const Request& r) { return earliest_time(s, r); }};
}

}  // namespace tenon::broker
