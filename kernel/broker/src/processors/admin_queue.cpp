// Looking into queues and housekeeping: 306, 316, 321, 329 (spec: broker §15.3; remoting §7.4,
// §7.8).
#include "meta/light_topics.h"
#include "processors/handlers.h"
#include "remarks.h"

#include "tenon/base/log.h"
#include "tenon/proto/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

constexpr std::size_t kEntriesMax = 10'000;  ///< of one answer

std::vector<tenon_index_entry> read_entries(const Services& s,
                                            tenon_queue queue,
                                            std::int64_t from,
                                            std::size_t count) {
  std::vector<tenon_index_entry> out;
  const auto& storage = s.log.storage();
  while (out.size() < count) {
    std::vector<tenon_index_entry> part(std::min<std::size_t>(count - out.size(), 256));
    std::size_t n = 0;
    std::int64_t next = from;
    tenon_hold hold{};
    const tenon_status status = storage->index_read(storage.self,
                                                    queue,
                                                    from,
                                                    part.data(),
                                                    sizeof(tenon_index_entry),
                                                    part.size(),
                                                    &n,
                                                    &next,
                                                    &hold);
    if (hold.release != nullptr) {
      hold.release(hold.owner, hold.id);
    }
    if (status < 0 || n == 0) {
      break;
    }
    for (std::size_t i = 0; i < n; ++i) {
      part[i].bitmap = {};  // a view of the hold
    }
    out.insert(out.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(n));
    from += static_cast<std::int64_t>(n);
  }
  return out;
}

struct Dump {
  std::string_view topic{};
  std::int32_t queue_id = 0;
  std::int64_t index = 0;
  std::int32_t count = 0;
  std::string_view group{};
};

Result<Dump> parse_dump(const proto::CommandView& c) {
  Dump d;
  TENON_TRY(d.topic, need_text(c, "topic"));
  TENON_TRY(d.queue_id, need_int(c, "queueId"));
  TENON_TRY(d.index, need_long(c, "index"));
  TENON_TRY(d.count, need_int(c, "count"));
  d.group = c.field("consumerGroup").value_or("");
  return d;
}

/// Whether the subscription takes each entry; only asked for expressions that are no tags.
std::vector<std::uint8_t> evaluate(const Subscription& subscription,
                                   const std::vector<tenon_index_entry>& entries) {
  std::vector<std::uint8_t> verdicts(entries.size(), Filter::kNo);
  if (subscription.filter != nullptr && subscription.data.expression_type != kTagType) {
    subscription.filter->match_index(entries.data(), entries.size(), verdicts.data());
  }
  return verdicts;
}

Reply query_queue(const Services& s, const Request& request) {
  auto parsed = parse_dump(request.command);
  if (parsed.has_error()) {
    return system_error(parsed.error());
  }
  const Dump& d = parsed.value();
  const TopicPtr topic = s.topics.find(d.topic);
  const bool known = topic != nullptr && d.queue_id >= 0 &&
                     d.queue_id < static_cast<std::int32_t>(topic->queue_count());
  const tenon_queue queue = known ? s.log.queue_of(*topic, static_cast<std::uint32_t>(d.queue_id))
                                  : find_light_queue(s.log, d.topic, d.queue_id);
  if (!known && queue == 0) {
    return Reply::error(Code::kSystemError, fmt::format(remark::kNoSuchQueue, d.queue_id, d.topic));
  }
  const tenon_queue_bounds bounds = s.log.bounds(queue);
  if (d.index < bounds.min_offset || d.index >= bounds.max_offset) {
    Reply reply;
    reply.remark = fmt::format(remark::kNoSuchIndex, d.index, d.queue_id, d.topic);
    return reply;
  }
  const auto entries = read_entries(
      s,
      queue,
      d.index,
      std::min<std::size_t>(static_cast<std::size_t>(std::max(d.count, 0)), kEntriesMax));
  SubscriptionPtr subscription;
  if (!d.group.empty()) {
    subscription = s.consumers.pull_view(d.group, d.topic).subscription;
  }
  const std::vector<std::uint8_t> verdicts =
      subscription == nullptr ? std::vector<std::uint8_t>(entries.size(), Filter::kNo)
                              : evaluate(*subscription, entries);
  std::string body;
  proto::JsonWriter w(body);
  w.begin_object();
  if (!d.group.empty()) {
    w.member("filterData", "null");
  }
  w.member("maxQueueIndex", bounds.max_offset).member("minQueueIndex", bounds.min_offset);
  w.key("queueData").begin_array();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    w.begin_object()
        .member("eval", verdicts[i] == Filter::kYes)
        .member("physicOffset", static_cast<std::int64_t>(entries[i].phys))
        .member("physicSize", static_cast<std::int64_t>(entries[i].bytes))
        .member("tagsCode", entries[i].tags_code)
        .end_object();
  }
  w.end_array();
  if (subscription != nullptr) {
    w.key("subscriptionData").raw(proto::encode(subscription->data));
  }
  w.end_object();
  Reply reply = Reply::with_body(std::move(body));
  reply.remark = remark::kNotSet;
  return reply;
}

/// Queues of topics that are not in the table.
Reply clean_unused(const Services& s) {
  const auto& storage = s.log.storage();
  if (storage->drop_topics == nullptr) {
    return {};
  }
  const proto::TopicTable table = s.topics.table();
  std::vector<tenon_str> keep;
  for (const auto& [topic, config] : table.topics) {
    keep.push_back(host::abi_str(topic));
  }
  // Queues of these may exist without a topic in the table (broker §15.3).
  for (const std::string_view name : {std::string_view("RMQ_SYS_TRANS_HALF_TOPIC"),
                                      std::string_view("RMQ_SYS_TRANS_OP_HALF_TOPIC"),
                                      std::string_view("rmq_sys_wheel_timer"),
                                      kScheduleTopic}) {
    if (table.topics.find(name) == table.topics.end()) {
      keep.push_back(host::abi_str(name));
    }
  }
  std::uint32_t dropped = 0;
  host::ErrorBuffer error;
  const tenon_status status =
      storage->drop_topics(storage.self, keep.data(), keep.size(), &dropped, error.raw());
  if (status < 0) {
    return system_error(error.make_error(status, "clean unused topics"));
  }
  log_info("broker", "queues of unknown topics removed queues={}", dropped);
  return {};
}

}  // namespace

void add_queue_admin_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kQueryConsumeQueue] = {Run::kAdmin,
                                  [&s](const Request& r) { return query_queue(s, r); }};
  table[C::kCleanUnusedTopic] = {Run::kAdmin, [&s](const Request&) { return clean_unused(s); }};
  // A queue ends where the log begins at any time: the storage cuts it when it deletes a file.
  table[C::kCleanExpiredConsumequeue] = {Run::kInline, [](const Request&) { return Reply{}; }};
  table[C::kDeleteExpiredCommitlog] = {Run::kInline, [&s](const Request&) {
                                         s.retention.trigger();
                                         return Reply{};
                                       }};
}

}  // namespace tenon::broker
