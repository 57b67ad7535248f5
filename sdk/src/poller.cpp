#include "poller.h"

#include "errors.h"
#include "message_block.h"
#include "observed_call.h"
#include "validate.h"

#include "tenon/base/endian.h"

#include <algorithm>
#include <future>

namespace tenon::sdk::detail {
namespace {

constexpr std::chrono::milliseconds kPullGrace{10'000};
constexpr std::chrono::milliseconds kWaitMax{30'000};
constexpr std::size_t kPullMax = 1'024;

}  // namespace

void Poller::on_messages() {
  {
    const std::scoped_lock lock(mutex_);
    ++version_;
  }
  changed_.notify_all();
}

void Poller::on_skipped(QueueState& state, std::int64_t next) {
  if (state.cache.count() == 0) {
    state.polled_offset.store(next);
  }
}

bool Poller::is_paused(const Queue& queue) const {
  const std::scoped_lock lock(mutex_);
  return paused_.count(queue) != 0;
}

std::optional<std::vector<Queue>> Poller::assigned(const std::string& topic) const {
  const std::scoped_lock lock(mutex_);
  if (!assigned_) {
    return std::nullopt;
  }
  std::vector<Queue> out;
  std::copy_if(assigned_->begin(), assigned_->end(), std::back_inserter(out), [&](const Queue& q) {
    return q.topic == topic;
  });
  return out;
}

QueueStatePtr Poller::owned(const Queue& queue) const {
  const std::scoped_lock lock(core_.mutex_);
  const auto it = core_.owned_.find(queue);
  return it == core_.owned_.end() ? nullptr : it->second;
}

/// One batch of the next queue that has something.
std::vector<MessageView> Poller::take() {
  const std::vector<QueueStatePtr> states = core_.states();
  if (states.empty()) {
    return {};
  }
  std::size_t first = 0;
  if (last_) {
    const auto after = std::find_if(
        states.begin(), states.end(), [&](const QueueStatePtr& s) { return *last_ < s->queue; });
    first = static_cast<std::size_t>(after - states.begin());
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    QueueState& state = *states[(first + i) % states.size()];
    if (state.dropped.load()) {
      continue;
    }
    std::vector<MessageView> batch = state.cache.take(options_.poll_max);
    if (batch.empty()) {
      continue;
    }
    if (const std::int64_t next = state.cache.commit_taken(); next >= 0) {
      state.polled_offset.store(next);
    }
    state.last_consume_ms.store(core_.client_.now_ms());
    core_.counters_.ok.fetch_add(batch.size(), std::memory_order_relaxed);
    last_ = state.queue;
    ObservedCall seen(core_, state.queue, batch);
    seen.end(ConsumeOutcome::kSuccess, batch.size());
    return batch;
  }
  return {};
}

void Poller::commit_in_memory() {
  for (const QueueStatePtr& state : core_.states()) {
    if (const std::int64_t offset = state->polled_offset.load(); offset >= 0) {
      state->memory_offset.store(offset);
    }
  }
}

std::vector<MessageView> Poller::poll(std::chrono::milliseconds timeout,
                                      const std::stop_token& stop) {
  if (options_.auto_commit) {
    // Trap: only what earlier polls returned (client §6).
    const std::uint64_t now = core_.client_.clock().mono_ns();
    const auto interval = static_cast<std::uint64_t>(options_.commit_interval.count()) * 1'000'000;
    if (now - committed_ns_ >= interval) {
      committed_ns_ = now;
      commit_in_memory();
    }
  }
  const auto end = std::chrono::steady_clock::now() + timeout;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested() && !core_.stopped_.load()) {
    const std::uint64_t seen = version_;
    lock.unlock();
    std::vector<MessageView> batch = take();
    lock.lock();
    if (!batch.empty()) {
      return batch;
    }
    if (!changed_.wait_until(lock, stop, end, [&] { return version_ != seen; })) {
      break;
    }
  }
  return {};
}

Result<void> Poller::commit() {
  if (core_.client_.on_own_thread()) {
    return not_here();
  }
  commit_in_memory();
  std::vector<QueueStatePtr> moved;
  for (const QueueStatePtr& state : core_.states()) {
    if (state->memory_offset.load() >= 0) {
      moved.push_back(state);
    }
  }
  if (!core_.commit_all(moved)) {
    return make_error(Errc::kTimeout, "not all brokers have confirmed the offsets");
  }
  return {};
}

Result<void> Poller::commit(const Queue& queue, std::int64_t offset) {
  if (core_.client_.on_own_thread()) {
    return not_here();
  }
  const QueueStatePtr state = owned(queue);
  if (!state || offset < 0) {
    return state ? make_error(Errc::kInvalidArgument, "the offset is negative")
                 : make_error(Errc::kNotFound, "the queue is not owned", queue.broker);
  }
  state->memory_offset.store(offset);
  if (!core_.persist_now(queue, offset)) {
    return make_error(Errc::kTimeout, "the broker has not confirmed the offset", queue.broker);
  }
  return {};
}

Result<void> Poller::not_here() const {
  return make_error(Errc::kInvalidArgument, "this call blocks: not on an I/O thread");
}

bool Poller::assigns() const {
  const std::scoped_lock lock(mutex_);
  return assigned_.has_value();
}

Result<void> Poller::assign(std::span<const Queue> queues, const Subscription& wanted) {
  if (core_.client_.on_own_thread()) {
    return not_here();
  }
  if (!assigns() && !core_.subscriptions().empty()) {
    return make_error(Errc::kConflict, "Subscribe and assign are mutually exclusive.");
  }
  const char* type = wanted.kind == FilterKind::kTag ? "TAG" : "SQL92";
  if (auto r = proto::build_subscription("any", wanted.expression, type); r.has_error()) {
    return from_base(r.error(), Errc::kInvalidArgument);
  }
  std::set<std::string> topics;
  for (const Queue& q : queues) {
    if (auto r = check_topic(q.topic); !r) {
      return r;
    }
    topics.insert(q.topic);
  }
  for (const std::string& topic : topics) {
    if (auto r = core_.client_.routes().fetch_blocking(topic); !r) {
      return std::move(r).error();
    }
  }
  // Before the subscriptions, which must not look like shared ones.
  {
    const std::scoped_lock lock(mutex_);
    assigned_.emplace(queues.begin(), queues.end());
  }
  for (const std::string& topic : topics) {
    if (auto r = core_.add_subscription(topic, wanted); !r) {
      return r;
    }
  }
  for (const auto& s : core_.subscriptions()) {
    if (topics.count(s->data.topic) == 0) {
      const std::scoped_lock lock(core_.mutex_);
      core_.subscriptions_.erase(s->data.topic);
    }
  }
  core_.client_.heartbeat_blocking();
  // On the worker, where everything else of this kind runs; lives until it has run or was dropped.
  auto settled = std::make_shared<std::promise<bool>>();
  auto done = settled->get_future();
  core_.client_.worker().post([self = core_.shared_from_this(), settled = std::move(settled)] {
    settled->set_value(self->rebalance());
  });
  try {
    if (!done.get()) {
      core_.client_.wake_rebalance();
      return make_error(Errc::kTimeout, "not all queues could be taken over yet");
    }
  } catch (const std::future_error&) {
    return make_error(Errc::kCancelled, "the client is closed");
  }
  return {};
}

Result<void> Poller::restart_at(const Queue& queue, std::int64_t offset) {
  auto fresh = std::make_shared<QueueState>(queue);
  QueueStatePtr old;
  {
    const std::scoped_lock lock(core_.mutex_);
    const auto it = core_.owned_.find(queue);
    if (it == core_.owned_.end()) {
      return make_error(Errc::kNotFound, "the queue is not owned", queue.broker);
    }
    old = it->second;
    // The answer of a pull that is under way belongs to the old state, and is ignored.
    old->dropped.store(true);
    fresh->next_offset.store(offset);
    fresh->polled_offset.store(offset);
    fresh->memory_offset.store(old->memory_offset.load());
    fresh->suggested_broker.store(old->suggested_broker.load());
    fresh->last_pull_ms.store(core_.client_.now_ms());
    fresh->pulled_steady_ms.store(core_.client_.steady_ms());
    it->second = fresh;
  }
  old->cache.clear();
  core_.pull(fresh);
  return {};
}

Result<void> Poller::seek(const Queue& queue, std::int64_t offset) {
  if (core_.client_.on_own_thread()) {
    return not_here();
  }
  if (!owned(queue)) {
    return make_error(Errc::kNotFound, "the queue is not owned", queue.broker);
  }
  const auto low = core_.ask_offset(proto::RequestCode::kGetMinOffset, queue, 0);
  const auto high = core_.ask_offset(proto::RequestCode::kGetMaxOffset, queue, 0);
  if (!low || !high) {
    return make_error(Errc::kTimeout, "the broker does not tell the offsets", queue.broker);
  }
  if (offset < *low || offset > *high) {
    return make_error(Errc::kInvalidArgument,
                      "Seek offset illegal, seek offset = " + std::to_string(offset) +
                          ", min offset = " + std::to_string(*low) +
                          ", max offset = " + std::to_string(*high),
                      queue.broker);
  }
  return restart_at(queue, offset);
}

Result<void> Poller::seek_to(const Queue& queue,
                             proto::RequestCode::Value code,
                             std::int64_t timestamp) {
  if (core_.client_.on_own_thread()) {
    return not_here();
  }
  if (!owned(queue)) {
    return make_error(Errc::kNotFound, "the queue is not owned", queue.broker);
  }
  const auto offset = ask(queue, code, timestamp);
  if (!offset) {
    return offset.error();
  }
  return restart_at(queue, *offset);
}

Result<std::int64_t> Poller::ask(const Queue& queue,
                                 proto::RequestCode::Value code,
                                 std::int64_t timestamp) {
  if (core_.client_.on_own_thread()) {
    return not_here().error();
  }
  if (core_.client_.routes().address(queue.broker, 0, false).empty()) {
    static_cast<void>(core_.client_.routes().fetch_blocking(queue.topic));
  }
  const auto offset = core_.ask_offset(code, queue, timestamp);
  if (!offset) {
    return make_error(Errc::kTimeout, "the broker does not tell the offset", queue.broker);
  }
  return *offset;
}

Result<std::int64_t> Poller::position(const Queue& queue) const {
  const QueueStatePtr state = owned(queue);
  const std::int64_t offset = state ? state->polled_offset.load() : -1;
  if (offset < 0) {
    return make_error(Errc::kNotFound, "nothing was polled from this queue", queue.broker);
  }
  return offset;
}

Result<std::int64_t> Poller::committed(const Queue& queue) {
  if (core_.client_.on_own_thread()) {
    return not_here().error();
  }
  bool is_new = false;
  if (const auto offset = core_.stored_offset(queue, is_new)) {
    return *offset;
  }
  return is_new ? make_error(Errc::kNotFound, "no offset is stored", queue.broker)
                : make_error(Errc::kTimeout, "the offset is not readable", queue.broker);
}

void Poller::pause(std::span<const Queue> queues, bool paused) {
  const std::scoped_lock lock(mutex_);
  for (const Queue& q : queues) {
    if (paused) {
      paused_.insert(q);
    } else {
      paused_.erase(q);
    }
  }
}

Result<PullResult> Poller::pull(const Queue& queue,
                                std::int64_t offset,
                                std::size_t max,
                                std::chrono::milliseconds wait,
                                const Subscription& wanted) {
  using Code = proto::ResponseCode;
  if (core_.client_.on_own_thread()) {
    return not_here().error();
  }
  if (max == 0 || max > kPullMax || wait.count() < 0 || wait > kWaitMax) {
    return make_error(Errc::kInvalidArgument, "max must be 1 to 1024, wait at most 30 s");
  }
  const char* type = wanted.kind == FilterKind::kTag ? "TAG" : "SQL92";
  auto data = proto::build_subscription(queue.topic, wanted.expression, type);
  if (data.has_error()) {
    return from_base(data.error(), Errc::kInvalidArgument);
  }
  std::string address = core_.client_.routes().address(queue.broker, 0, false);
  if (address.empty()) {
    static_cast<void>(core_.client_.routes().fetch_blocking(queue.topic));
    address = core_.client_.routes().address(queue.broker, 0, false);
  }
  if (address.empty()) {
    return make_error(
        Errc::kBrokerNotExist, "The broker[" + queue.broker + "] not exist", queue.broker);
  }
  proto::Command c = make_request(proto::RequestCode::kPullMessage);
  c.set("consumerGroup", core_.options_.group);
  c.set("topic", queue.topic);
  c.set("queueId", static_cast<std::int64_t>(queue.id));
  c.set("queueOffset", offset);
  c.set("maxMsgNums", static_cast<std::int64_t>(max));
  c.set("sysFlag", std::int64_t{wait.count() > 0 ? 6 : 4});
  c.set("commitOffset", std::int64_t{0});
  c.set("suspendTimeoutMillis", static_cast<std::int64_t>(wait.count()));
  c.set("subscription", data.value().sub_string);
  c.set("subVersion", std::int64_t{0});
  c.set("expressionType", data.value().expression_type);
  c.set("bname", queue.broker);
  auto answer = core_.client_.calls().ask(address, std::move(c), wait + kPullGrace);
  if (!answer) {
    return std::move(answer).error();
  }
  PullResult out;
  out.next_offset = answer->field_long("nextBeginOffset").value_or(offset);
  out.min_offset = answer->field_long("minOffset").value_or(0);
  out.max_offset = answer->field_long("maxOffset").value_or(0);
  switch (answer->code) {
    case Code::kSuccess: {
      auto bytes = std::make_shared<std::string>(std::move(answer->body));
      out.messages = decode_messages(as_bytes(*bytes), bytes, queue.broker, core_.client_.names());
      filter_by_tag({data.value().tags.begin(), data.value().tags.end()}, out.messages);
      out.status =
          out.messages.empty() ? PullResult::Status::kNothingWanted : PullResult::Status::kFound;
      return out;
    }
    case Code::kPullNotFound:
      out.status = PullResult::Status::kNothingNew;
      return out;
    case Code::kPullRetryImmediately:
      out.status = PullResult::Status::kNothingWanted;
      return out;
    case Code::kPullOffsetMoved:
      out.status = PullResult::Status::kOffsetIllegal;
      return out;
    default:
      return from_answer(answer->code, answer->remark, address);
  }
}

Result<void> Poller::before_stop() {
  return options_.auto_commit ? commit() : Result<void>();
}

}  // namespace tenon::sdk::detail
