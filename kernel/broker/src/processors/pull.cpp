#include "processors/pull.h"

#include "append/put.h"
#include "remarks.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/proto/json.h"
#include "tenon/proto/properties.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

constexpr std::int64_t kSuspendMaxMs = 3'600'000;

}  // namespace

Result<> parse_pull_header(const proto::CommandView& c, PullHeader& out) {
  TENON_TRY(out.group, need_text(c, "consumerGroup"));
  TENON_TRY(out.topic, need_text(c, "topic"));
  TENON_TRY(out.queue_id, need_int(c, "queueId"));
  TENON_TRY(out.offset, need_long(c, "queueOffset"));
  TENON_TRY(out.max_count, need_int(c, "maxMsgNums"));
  TENON_TRY(out.sys_flag, need_int(c, "sysFlag"));
  TENON_TRY(out.commit_offset, need_long(c, "commitOffset"));
  TENON_TRY(out.suspend_ms, need_long(c, "suspendTimeoutMillis"));
  TENON_TRY(out.sub_version, need_long(c, "subVersion"));
  out.subscription = c.field("subscription").value_or("");
  out.expression_type = c.field("expressionType").value_or("");
  out.max_bytes = std::max(c.field_int("maxMsgBytes").value_or(0), 0);
  return ok();
}

std::int32_t pull_code(PullStatus status, std::int64_t offset) noexcept {
  switch (status) {
    case PullStatus::kFound:
      return Code::kSuccess;
    case PullStatus::kNoMatchedMessage:
    case PullStatus::kMessageWasRemoving:
      return Code::kPullRetryImmediately;
    case PullStatus::kNoMatchedLogicQueue:
    case PullStatus::kNoMessageInQueue:
      return offset == 0 ? Code::kPullNotFound : Code::kPullOffsetMoved;
    case PullStatus::kOffsetFoundNull:
    case PullStatus::kOffsetOverflowOne:
      return Code::kPullNotFound;
    case PullStatus::kOffsetOverflowBadly:
    case PullStatus::kOffsetTooSmall:
      return Code::kPullOffsetMoved;
  }
  return Code::kSystemError;
}

PullProcessor::PullProcessor(const Services& services, StateOf state_of)
    : s_(services),
      state_of_(std::move(state_of)),
      worker_stats_(services.stats.add_thread()),
      worker_items_(services.stats.items()) {}

/// Checks 1 to 13 of broker §8.1 in Java's order.
PullProcessor::Checked PullProcessor::check(const IoState& io,
                                            const PullHeader& header,
                                            const net::ConnectionPtr& peer) const {
  Checked out;
  const auto fail = [&out](std::int32_t code, std::string remark) {
    out.code = code;
    out.remark = std::move(remark);
    return std::move(out);
  };
  if ((s_.config.permission & proto::kPermRead) == 0) {
    return fail(Code::kNoPermission, fmt::format(remark::kBrokerPullForbidden, s_.advertised.ip));
  }
  const auto group = io.groups.current().find(header.group);
  out.group =
      group != io.groups.current().end() ? group->second : s_.groups.find_or_create(header.group);
  if (out.group == nullptr) {
    return fail(Code::kSubscriptionGroupNotExist,
                fmt::format(remark::kPullGroupNotExist, header.group));
  }
  if (!out.group->consume_enable) {
    return fail(Code::kNoPermission, fmt::format(remark::kGroupNoPermission, header.group));
  }
  out.topic = io.find_topic(header.topic);
  if (out.topic == nullptr) {
    out.topic = light_topics_.find(header.topic);
  }
  if (out.topic == nullptr) {
    return fail(Code::kTopicNotExist, fmt::format(remark::kPullTopicNotExist, header.topic));
  }
  if (!out.topic->readable()) {
    return fail(Code::kNoPermission, fmt::format(remark::kTopicPullForbidden, header.topic));
  }
  const std::int32_t queues = out.topic->config().read_queue_count;
  if (header.queue_id < 0 || header.queue_id >= queues) {
    return fail(Code::kSystemError,
                fmt::format(remark::kPullQueueIdIllegal,
                            header.queue_id,
                            header.topic,
                            queues,
                            proto::to_string(peer->peer())));
  }
  check_subscription(header, out);
  if (s_.config.filter_support_retry && header.topic.starts_with(kRetryPrefix)) {
    out.filter = retry_filter(s_.consumer_filters, header.group, std::move(out.filter));
  }
  return out;
}

/// Fills the filter or the error. The expression comes with the request or from the heartbeat.
void PullProcessor::check_subscription(const PullHeader& header, Checked& out) const {
  const auto fail = [&out](std::int32_t code, std::string remark) {
    out.code = code;
    out.remark = std::move(remark);
  };
  const auto refused_type = [&](std::string_view type) {
    if (type.empty() || type == kTagType || s_.config.property_filter) {
      return false;
    }
    fail(Code::kSystemError, fmt::format(remark::kFilterNotSupported, type));
    return true;
  };
  if ((header.sys_flag & PullHeader::kSubscription) != 0) {
    if (refused_type(header.expression_type)) {
      return;
    }
    // Trap: Java filters nothing if an SQL text does not compile here; 23 is right (broker §8.1).
    auto filter = s_.filters.compiled(header.expression_type, header.subscription);
    if (filter.has_error()) {
      fail(Code::kSubscriptionParseFailed, std::string(remark::kParseSubscriptionFailed));
      return;
    }
    out.filter = std::move(filter).value();
    return;
  }
  const Consumers::PullView view = s_.consumers.pull_view(header.group, header.topic);
  if (!view.online) {
    return fail(Code::kSubscriptionNotExist, std::string(remark::kGroupInfoNotExist));
  }
  if (!out.group->consume_broadcast_enable && view.model == proto::MessageModel::kBroadcasting) {
    return fail(Code::kNoPermission, fmt::format(remark::kNoBroadcast, header.group));
  }
  if (view.subscription == nullptr) {
    return fail(Code::kSubscriptionNotExist, std::string(remark::kSubscriptionNotExist));
  }
  const Subscription& subscription = *view.subscription;
  if (subscription.data.sub_version < header.sub_version) {
    return fail(Code::kSubscriptionNotLatest, std::string(remark::kSubscriptionNotLatest));
  }
  // An expression of a kind that nobody here knows is not called wrong while such kinds are off.
  const std::string_view type = subscription.data.expression_type;
  if (subscription.filter_broken && (s_.config.property_filter || s_.filters.knows(type))) {
    return fail(Code::kFilterDataNotExist, std::string(remark::kFilterDataNotExist));
  }
  if (refused_type(type)) {
    return;
  }
  // A class filter is evaluated by the client (remoting §5.2).
  out.filter = subscription.data.class_filter_mode ? nullptr : subscription.filter;
}

void PullProcessor::handle(IoState& io, const Request& request) {
  const Caller caller{request.connection, request.command.opaque, request.command.kind, true};
  PullHeader header;
  if (auto parsed = parse_pull_header(request.command, header); parsed.has_error()) {
    answer_error(caller, Code::kSystemError, parsed.error().detail);
    return;
  }
  const Checked checked = check(io, header, request.connection);
  if (checked.code != 0) {
    answer_error(caller, checked.code, checked.remark);
    return;
  }
  const tenon_queue queue =
      s_.log.queue_of(*checked.topic, static_cast<std::uint32_t>(header.queue_id));
  PullResult result;
  s_.pulls.read({.queue = queue,
                 .offset = header.offset,
                 .max_count = header.max_count,
                 .max_bytes = header.max_bytes,
                 .filter = checked.filter.get()},
                result);
  if ((header.sys_flag & PullHeader::kCommit) != 0) {
    // Trap: also when the pull is parked, and whatever the status (broker §8.6).
    s_.offsets.commit(header.group, header.topic, header.queue_id, header.commit_offset);
  }
  if (result.need_worker) {
    to_worker(caller, header, checked, queue);
    return;
  }
  count(io, header, result);
  const std::int32_t code = pull_code(result.status, header.offset);
  if (!result.failed && code == Code::kPullNotFound &&
      (header.sys_flag & PullHeader::kSuspend) != 0) {
    park(request, header, checked, queue);
    return;
  }
  if (!result.failed && code == Code::kPullOffsetMoved) {
    report_moved(header, result.next_offset);
  }
  answer(caller, *checked.group, result, header.offset);
}

void PullProcessor::park(const Request& request,
                         const PullHeader& header,
                         const Checked& checked,
                         tenon_queue queue) {
  if (s_.holds.size() >= s_.config.parked_pull_max) {
    answer_error({request.connection, request.command.opaque, request.command.kind, true},
                 Code::kSystemBusy,
                 remark::kOverload);
    return;
  }
  auto pull = std::make_shared<ParkedPull>();
  pull->connection = request.connection;
  pull->opaque = request.command.opaque;
  pull->kind = request.command.kind;
  pull->group = header.group;
  pull->topic = header.topic;
  pull->queue_id = header.queue_id;
  pull->asked_offset = header.offset;
  pull->offset = header.offset;
  pull->max_count = header.max_count;
  pull->max_bytes = header.max_bytes;
  pull->sys_flag = header.sys_flag;
  pull->expression = header.subscription;
  pull->expression_type = header.expression_type;
  pull->sub_version = header.sub_version;
  pull->queue = queue;
  pull->filter = checked.filter;

  auto& state = request.connection->user_state;
  if (state == nullptr) {
    state = std::make_shared<ConnectionPulls>();
  }
  auto& parked = std::static_pointer_cast<ConnectionPulls>(state)->parked;
  pull->slot = parked.size();
  parked.push_back(pull);

  const std::int64_t wait_ms = s_.config.long_polling
                                   ? std::clamp<std::int64_t>(header.suspend_ms, 1, kSuspendMaxMs)
                                   : s_.config.short_polling_ms;
  net::IoThread& thread = request.connection->io_thread();
  pull->timer = thread.after(std::chrono::milliseconds(wait_ms), [this, pull, &thread] {
    if (s_.holds.take(pull)) {
      IoState& io = state_of_(thread);
      io.refresh();
      rerun(io, pull);
      pull->connection->flush();
    }
  });
  s_.holds.park(pull);
  // Trap: a message that arrived between the read and park() woke nobody: look again (broker §8.5).
  if (s_.log.bounds(queue).max_offset > header.offset && s_.holds.take(pull)) {
    rerun(state_of_(thread), pull);
  }
}

void PullProcessor::forget(const ParkedPtr& pull) {
  pull->connection->io_thread().cancel(pull->timer);
  const auto state = std::static_pointer_cast<ConnectionPulls>(pull->connection->user_state);
  if (state == nullptr) {
    return;
  }
  auto& parked = state->parked;
  if (pull->slot < parked.size() && parked[pull->slot] == pull) {
    parked[pull->slot] = std::move(parked.back());
    parked[pull->slot]->slot = pull->slot;
    parked.pop_back();
  }
}

/// The whole procedure once more, with an answer in any case and without a commit.
void PullProcessor::rerun(IoState& io, const ParkedPtr& pull) {
  forget(pull);
  if (!pull->connection->is_open()) {
    return;
  }
  const Caller caller{pull->connection, pull->opaque, pull->kind, true};
  PullHeader header;
  header.group = pull->group;
  header.topic = pull->topic;
  header.queue_id = pull->queue_id;
  header.offset = pull->offset;
  header.max_count = pull->max_count;
  header.max_bytes = pull->max_bytes;
  header.sys_flag = pull->sys_flag;
  header.subscription = pull->expression;
  header.expression_type = pull->expression_type;
  header.sub_version = pull->sub_version;
  const Checked checked = check(io, header, pull->connection);
  if (checked.code != 0) {
    answer_error(caller, checked.code, checked.remark);
    return;
  }
  const tenon_queue queue =
      s_.log.queue_of(*checked.topic, static_cast<std::uint32_t>(header.queue_id));
  PullResult result;
  s_.pulls.read({.queue = queue,
                 .offset = header.offset,
                 .max_count = header.max_count,
                 .max_bytes = header.max_bytes,
                 .filter = checked.filter.get()},
                result);
  if (result.need_worker) {
    to_worker(caller, header, checked, queue);
    return;
  }
  count(io, header, result);
  if (result.status == PullStatus::kOffsetOverflowOne && pull->offset != pull->asked_offset) {
    result.status = PullStatus::kNoMatchedMessage;  // entries were passed over while it waited
  }
  answer(caller, *checked.group, result, header.offset);
}

void PullProcessor::wake(std::vector<ParkedPtr>& woken) {
  // One post per I/O thread.
  while (!woken.empty()) {
    net::IoThread& thread = woken.back()->connection->io_thread();
    std::vector<ParkedPtr> mine;
    const auto split = std::stable_partition(woken.begin(), woken.end(), [&](const ParkedPtr& p) {
      return &p->connection->io_thread() != &thread;
    });
    mine.assign(std::make_move_iterator(split), std::make_move_iterator(woken.end()));
    woken.erase(split, woken.end());
    thread.post([this, mine = std::move(mine), &thread] {
      IoState& io = state_of_(thread);
      io.refresh();
      for (const ParkedPtr& pull : mine) {
        rerun(io, pull);
      }
      for (const ParkedPtr& pull : mine) {
        if (pull->connection->is_open()) {
          pull->connection->flush();
        }
      }
    });
  }
}

void PullProcessor::connection_closed(const net::ConnectionPtr& connection) {
  const auto state = std::static_pointer_cast<ConnectionPulls>(connection->user_state);
  if (state == nullptr) {
    return;
  }
  connection->user_state.reset();
  for (const ParkedPtr& pull : state->parked) {
    connection->io_thread().cancel(pull->timer);
    s_.holds.take(pull);
  }
  state->parked.clear();
}

void PullProcessor::to_worker(const Caller& caller,
                              const PullHeader& header,
                              const Checked& checked,
                              tenon_queue queue) {
  const std::uint64_t since_ns = s_.clock.mono_ns();
  const bool taken = s_.workers.post_ageing(
      Workers::Lane::kPull,
      [this,
       connection = caller.connection,
       opaque = caller.opaque,
       kind = caller.kind,
       offset = header.offset,
       max_count = header.max_count,
       max_bytes = header.max_bytes,
       filter = checked.filter,
       group = checked.group,
       topic = std::string(header.topic),
       queue_id = header.queue_id,
       queue,
       since_ns](const WorkerPool::Overdue* overdue) {
        const Caller later{connection, opaque, kind, false};
        if (overdue != nullptr) {
          answer_error(later, Code::kSystemBusy, overdue_remark(*overdue));
          return;
        }
        PullResult result;
        s_.pulls.read({queue, offset, max_count, max_bytes, filter.get(), true}, result);
        count_shared({group->name, topic, queue_id, result.count, result.bytes, 0, true},
                     result,
                     (s_.clock.mono_ns() - since_ns) / 1'000'000);
        answer(later, *group, result, offset);
      },
      since_ns);
  if (!taken) {
    answer_error(caller, Code::kSystemBusy, remark::kOverload);
  }
}

void PullProcessor::answer_error(const Caller& caller,
                                 std::int32_t code,
                                 std::string_view remark) const {
  std::string frame;
  std::string& out = caller.direct ? caller.connection->out() : frame;
  proto::FrameWriter::Head head;
  head.code = code;
  head.opaque = caller.opaque;
  head.flag = proto::kFlagResponse;
  head.kind = caller.kind;
  head.remark = remark;
  proto::FrameWriter writer(out, head);
  writer.empty_fields();
  writer.finish();
  if (!caller.direct) {
    caller.connection->send(std::move(frame));
  }
}

void PullProcessor::answer(const Caller& caller,
                           const proto::SubscriptionGroupConfig& group,
                           PullResult& result,
                           std::int64_t offset) const {
  if (result.failed) {
    answer_error(caller, Code::kSystemError, remark::kStoreReturnedNull);
    return;
  }
  net::OutFrame frame;
  const bool found = result.status == PullStatus::kFound;
  const bool in_place = caller.direct && !found;
  std::string& out = in_place ? caller.connection->out() : frame.head;
  proto::FrameWriter::Head head;
  head.code = pull_code(result.status, offset);
  head.opaque = caller.opaque;
  head.flag = proto::kFlagResponse;
  head.kind = caller.kind;
  head.remark = to_string(result.status);
  proto::FrameWriter writer(out, head);
  std::int64_t suggest = 0;
  if (s_.config.slave_read) {
    suggest = result.suggest_slave ? group.which_broker_when_consume_slowly : group.broker_id;
  }
  writer.field("suggestWhichBrokerId", suggest);
  writer.field("nextBeginOffset", result.next_offset);
  writer.field("minOffset", result.min_offset);
  writer.field("maxOffset", result.max_offset);
  if (!found) {
    writer.finish();
    if (!in_place) {
      caller.connection->send(std::move(frame));
    }
    return;
  }
  writer.finish_detached(result.bytes);
  for (const tenon_view& view : result.views) {
    const auto* at = reinterpret_cast<const std::byte*>(view.ptr);
    if (!frame.pieces.empty() && frame.pieces.back().data() + frame.pieces.back().size() == at) {
      frame.pieces.back() = {frame.pieces.back().data(), frame.pieces.back().size() + view.len};
    } else {
      frame.pieces.push_back({at, std::size_t{view.len}});
    }
  }
  const tenon_hold hold = result.take_hold();
  if (hold.release != nullptr) {
    frame.release = [hold] { hold.release(hold.owner, hold.id); };
  }
  caller.connection->send(std::move(frame));
}

void PullProcessor::count(IoState& io, const PullHeader& header, const PullResult& result) const {
  ThreadStats& stats = io.stats;
  if (result.status == PullStatus::kFound) {
    ThreadStats::add(stats.get_found, 1);
    ThreadStats::add(stats.get_count, result.count);
    ThreadStats::add(stats.get_bytes, result.bytes);
    // A read that did not have to wait for the disk takes no time that can be told in ms.
    io.items.got(
        {header.group, header.topic, header.queue_id, result.count, result.bytes, 0, false});
  } else {
    ThreadStats::add(stats.get_miss, 1);
  }
}

void PullProcessor::count_shared(StatsView::Got got,
                                 const PullResult& result,
                                 std::uint64_t took_ms) {
  if (result.status == PullStatus::kFound && !result.failed) {
    got.took_ms = took_ms;
    {
      const std::scoped_lock lock(worker_items_mutex_);
      worker_items_.got(got);
      ThreadStats::raise(worker_stats_.get_max_ms, took_ms);
    }
    worker_stats_.get_found.fetch_add(1, std::memory_order_relaxed);
    worker_stats_.get_count.fetch_add(result.count, std::memory_order_relaxed);
    worker_stats_.get_bytes.fetch_add(result.bytes, std::memory_order_relaxed);
  } else {
    worker_stats_.get_miss.fetch_add(1, std::memory_order_relaxed);
  }
}

/// The event message of answer 21 (spec: broker §8.4). Written by a worker.
void PullProcessor::report_moved(const PullHeader& header, std::int64_t next_offset) {
  std::string body;
  proto::JsonWriter json(body);
  json.begin_object();
  json.member("consumerGroup", header.group);
  json.key("messageQueue").begin_object();
  json.member("brokerName", s_.config.name);
  json.member("queueId", header.queue_id);
  json.member("topic", header.topic);
  json.end_object();
  json.member("offsetNew", next_offset);
  json.member("offsetRequest", header.offset);
  json.end_object();
  std::string properties;
  proto::append_property(properties, proto::prop::kKeys, header.group);
  proto::append_property(properties, proto::prop::kTags, header.group);
  const bool taken = s_.workers.post(
      Workers::Lane::kAdmin, [this, body = std::move(body), properties = std::move(properties)] {
        const TopicPtr topic = s_.topics.find(kOffsetMovedTopic);
        if (topic == nullptr) {
          return;
        }
        proto::MessageRecord m;
        m.born_ms = s_.clock.wall_ms();
        m.born_host = s_.advertised.store_host;
        m.store_host = s_.advertised.store_host;
        m.body = as_bytes(body);
        m.properties = properties;
        put_message(s_.log, *topic, m);
      });
  if (!taken) {
    log_debug("broker", "offset event dropped group=\"{}\"", header.group);
  }
}

}  // namespace tenon::broker
