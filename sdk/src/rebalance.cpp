// Which queues this member consumes, and where they start (spec: client §5.4 to §5.7).
#include "consumer_core.h"
#include "errors.h"
#include "orderly.h"
#include "poller.h"

#include "tenon/base/log.h"

#include <algorithm>
#include <condition_variable>
#include <random>

namespace tenon::sdk::detail {
namespace {

constexpr std::chrono::milliseconds kOffsetTimeout{5'000};
constexpr std::chrono::milliseconds kAdminTimeout{6'000};
constexpr std::int64_t kPullMaxIdleMs = 120'000;

proto::Command offset_request(proto::RequestCode::Value code,
                              std::string_view group,
                              const Queue& queue) {
  proto::Command c = make_request(code);
  c.set("consumerGroup", group);
  c.set("topic", queue.topic);
  c.set("queueId", static_cast<std::int64_t>(queue.id));
  c.set("bname", queue.broker);
  return c;
}

bool is_retry_topic(std::string_view topic) noexcept {
  return topic.starts_with("%RETRY%");
}

}  // namespace

bool ConsumerCore::rebalance() {
  if (closing_.load() || paused_.load()) {
    return true;
  }
  bool settled = true;
  std::vector<SubscriptionPtr> changed;
  for (const SubscriptionPtr& s : subscriptions()) {
    const auto wanted = wanted_queues(s->data.topic, settled);
    if (wanted && !closing_.load() && apply(s->data.topic, *wanted, settled)) {
      changed.push_back(s);
    }
  }
  drop_unsubscribed();
  // One heartbeat for all of them: each has all subscriptions in it. It goes out before any pull has
  // the new versions.
  if (!changed.empty()) {
    for (const SubscriptionPtr& s : changed) {
      s->version.store(std::max(client_.now_ms(), s->version.load()));
    }
    client_.heartbeat();
  }
  if (options_.queues_changed && !closing_.load()) {
    for (const SubscriptionPtr& s : subscriptions()) {
      tell_queues(s->data.topic);
    }
  }
  return settled;
}

void ConsumerCore::tell_queues(const std::string& topic) {
  const TopicInfoPtr info = client_.routes().cached(topic);
  if (!info || info->from_template || is_retry_topic(topic)) {
    return;
  }
  ToldQueues now;
  const NameSpace& names = client_.names();
  for (const Queue& q : info->subscribe) {
    now.all.push_back(names.unwrap(q));
  }
  for (const QueueStatePtr& state : states()) {
    if (state->queue.topic == topic) {
      now.mine.push_back(names.unwrap(state->queue));
    }
  }
  ToldQueues& before = told_[topic];
  if (now.all == before.all && now.mine == before.mine) {
    return;
  }
  before = now;
  try {
    options_.queues_changed(names.unwrap(topic), now.all, now.mine);
  } catch (const std::exception& e) {
    log_error("sdk", "queues_changed threw what=\"{}\"", e.what());
  } catch (...) {
    log_error("sdk", "queues_changed threw");
  }
}

std::optional<std::vector<Queue>> ConsumerCore::wanted_queues(const std::string& topic,
                                                              bool& settled) {
  const TopicInfoPtr info = client_.routes().cached(topic);
  if (!info || info->from_template) {
    client_.routes().fetch(topic, [](Result<TopicInfoPtr>) {});
    return std::nullopt;
  }
  if (poller_) {
    if (auto assigned = poller_->assigned(topic)) {
      return assigned;
    }
  }
  if (!clustering()) {
    return info->subscribe;
  }
  auto members = group_members(*info);
  if (!members || info->subscribe.empty()) {
    settled = settled && members.has_value();
    return std::nullopt;
  }
  // Trap: all members must sort alike: topic, broker, id; client ids as strings (client §5.6).
  std::sort(members->begin(), members->end());
  const auto self = std::find(members->begin(), members->end(), client_.id());
  if (self == members->end()) {
    // A broker does not list us: our heartbeat is missing there. Nothing is ours until it is back.
    client_.heartbeat_soon();
    settled = false;
    return std::vector<Queue>();
  }
  auto wanted = allocator_->allocate(options_.group,
                                     topic,
                                     info->subscribe,
                                     *members,
                                     static_cast<std::size_t>(self - members->begin()));
  if (!wanted) {
    log_warn("sdk",
             "allocation failed group={} topic={} reason=\"{}\"",
             options_.group,
             topic,
             wanted.error().text());
    return std::nullopt;
  }
  return std::move(*wanted);
}

/// From one broker of the topic, a random one; all of them know all members.
std::optional<std::vector<std::string>> ConsumerCore::group_members(const TopicInfo& info) {
  if (info.route.brokers.empty()) {
    return std::nullopt;
  }
  static thread_local std::mt19937 random(std::random_device{}());
  const std::size_t first = random() % info.route.brokers.size();
  for (std::size_t i = 0; i < info.route.brokers.size(); ++i) {
    const auto& broker = info.route.brokers[(first + i) % info.route.brokers.size()];
    const std::string address = client_.routes().address(broker.broker_name, 0, false);
    if (address.empty()) {
      continue;
    }
    proto::Command c = make_request(proto::RequestCode::kGetConsumerListByGroup);
    c.set("consumerGroup", options_.group);
    auto answer = client_.calls().ask_ok(address, std::move(c), client_.options().api_timeout);
    if (!answer) {
      log_debug("sdk",
                "group members unknown group={} broker={} reason=\"{}\"",
                options_.group,
                broker.broker_name,
                answer.error().text());
      if (answer.error().response >= 0) {
        client_.heartbeat_soon();
      }
      continue;
    }
    auto ids = proto::decode_consumer_ids(answer->body);
    if (ids.has_value() && !ids.value().empty()) {
      return std::move(ids).value();
    }
  }
  return std::nullopt;
}

/// @return whether queues were dropped or taken over; `settled` becomes false if one could not be
bool ConsumerCore::apply(const std::string& topic,
                         const std::vector<Queue>& wanted,
                         bool& settled) {
  std::vector<QueueStatePtr> dropped;
  std::vector<QueueStatePtr> stays;
  std::vector<Queue> added;
  const std::int64_t now = client_.steady_ms();
  {
    const std::scoped_lock lock(mutex_);
    for (auto it = owned_.begin(); it != owned_.end();) {
      const QueueStatePtr& state = it->second;
      const bool of_topic = state->queue.topic == topic;
      const bool kept = std::find(wanted.begin(), wanted.end(), state->queue) != wanted.end();
      const bool stuck =
          now - state->pulled_steady_ms.load() > kPullMaxIdleMs && !paused_.load() && !poller_;
      if (!of_topic || (kept && !stuck)) {
        if (of_topic && state->leaving.exchange(false)) {
          stays.push_back(state);
        }
        ++it;
      } else if (orderly_ && !orderly_->may_leave(*state)) {
        ++it;  // its running call ends first, then it is dropped
      } else {
        dropped.push_back(state);
        it = owned_.erase(it);
      }
    }
    for (const Queue& q : wanted) {
      if (owned_.count(q) == 0) {
        added.push_back(q);
      }
    }
  }
  for (const QueueStatePtr& state : stays) {
    orderly_->submit(state);
  }
  for (const QueueStatePtr& state : dropped) {
    drop(state, true);
  }
  return take_over(added, settled) > 0 || !dropped.empty();
}

/// @return how many queues are owned now that were not; `settled` becomes false if it is not all
std::size_t ConsumerCore::take_over(const std::vector<Queue>& added, bool& settled) {
  // Trap: locked first, then the offset is read: nobody else moves it any more (client §5.6).
  const bool lock = orderly_ && clustering();
  const std::vector<Queue> free = lock ? orderly_->lock(added) : added;
  settled = settled && free.size() == added.size();
  std::size_t taken = 0;
  for (const Queue& q : free) {
    auto state = std::make_shared<QueueState>(q);
    const auto start = start_offset(q, *state);
    if (!start || closing_.load()) {
      settled = settled && closing_.load();
      continue;
    }
    if (poller_) {
      state->memory_offset.store(-1);  // only what the program commits is written
    }
    state->next_offset.store(*start);
    state->last_pull_ms.store(client_.now_ms());
    state->pulled_steady_ms.store(client_.steady_ms());
    state->locked.store(lock);
    state->locked_ns.store(client_.clock().mono_ns());
    state->locked_ms.store(lock ? client_.now_ms() : 0);
    {
      const std::scoped_lock guard(mutex_);
      owned_[q] = state;
    }
    log_info("sdk",
             "queue owned group={} topic={} broker={} queue={} offset={}",
             options_.group,
             q.topic,
             q.broker,
             q.id,
             *start);
    pull(state);
    ++taken;
  }
  return taken;
}

void ConsumerCore::drop_unsubscribed() {
  std::vector<QueueStatePtr> dropped;
  {
    const std::scoped_lock lock(mutex_);
    for (auto it = owned_.begin(); it != owned_.end();) {
      const QueueStatePtr& state = it->second;
      if (subscriptions_.count(state->queue.topic) != 0 ||
          (orderly_ && !orderly_->may_leave(*state))) {
        ++it;
      } else {
        dropped.push_back(state);
        it = owned_.erase(it);
      }
    }
  }
  for (const QueueStatePtr& state : dropped) {
    drop(state, true);
  }
}

/// Results of running batches are ignored from now on.
void ConsumerCore::drop(const QueueStatePtr& state, bool persist_offset) {
  state->dropped.store(true);
  log_info("sdk",
           "queue given up group={} topic={} broker={} queue={}",
           options_.group,
           state->queue.topic,
           state->queue.broker,
           state->queue.id);
  const std::int64_t offset = state->memory_offset.load();
  if (persist_offset && orderly_ && clustering() && offset >= 0) {
    // Trap: the next owner reads the offset as soon as it has the lock, so it must be there
    // (client §5.6).
    persist_now(state->queue, offset);
  } else if (persist_offset) {
    persist(*state);
  }
  state->cache.clear();
  if (orderly_ && clustering()) {
    orderly_->unlock({state}, false);
  }
  pool_->look_again();
}

std::optional<std::int64_t> ConsumerCore::start_offset(const Queue& queue, QueueState& state) {
  bool is_new = false;
  const auto stored = stored_offset(queue, is_new);
  if (stored) {
    state.memory_offset.store(*stored);
    return stored;
  }
  // Trap: only "there is none" makes the group a new one; any other failure skips the queue until
  // the next rebalance, or messages are lost (client §5.4, L1).
  if (!is_new) {
    return std::nullopt;
  }
  if (std::holds_alternative<FromFirst>(options_.start)) {
    return 0;
  }
  if (std::holds_alternative<FromLast>(options_.start)) {
    return is_retry_topic(queue.topic) ? std::optional<std::int64_t>(0)
                                       : ask_offset(proto::RequestCode::kGetMaxOffset, queue, 0);
  }
  if (is_retry_topic(queue.topic)) {
    return ask_offset(proto::RequestCode::kGetMaxOffset, queue, 0);
  }
  const auto when = std::get<FromTime>(options_.start).when;
  return ask_offset(
      proto::RequestCode::kSearchOffsetByTimestamp,
      queue,
      std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count());
}

std::optional<std::int64_t> ConsumerCore::stored_offset(const Queue& queue, bool& is_new) {
  if (local_) {
    const auto offset = local_->get(queue);
    is_new = !offset.has_value();
    return offset;
  }
  const std::string address = client_.routes().address(queue.broker, 0, false);
  if (address.empty()) {
    return std::nullopt;
  }
  auto answer = client_.calls().ask(
      address,
      offset_request(proto::RequestCode::kQueryConsumerOffset, options_.group, queue),
      kOffsetTimeout);
  if (!answer) {
    log_warn("sdk",
             "offset not readable group={} topic={} queue={} reason=\"{}\"",
             options_.group,
             queue.topic,
             queue.id,
             answer.error().text());
    return std::nullopt;
  }
  if (answer->code == proto::ResponseCode::kSuccess) {
    const auto offset = answer->field_long("offset");
    if (offset && *offset >= 0) {
      return offset;
    }
    is_new = offset.has_value();
    return std::nullopt;
  }
  is_new = answer->code == proto::ResponseCode::kQueryNotFound;
  return std::nullopt;
}

std::optional<std::int64_t> ConsumerCore::ask_offset(proto::RequestCode::Value code,
                                                     const Queue& queue,
                                                     std::int64_t timestamp) {
  const std::string address = client_.routes().address(queue.broker, 0, false);
  if (address.empty()) {
    return std::nullopt;
  }
  proto::Command c = make_request(code);
  c.set("topic", queue.topic);
  c.set("queueId", static_cast<std::int64_t>(queue.id));
  c.set("bname", queue.broker);
  if (code == proto::RequestCode::kSearchOffsetByTimestamp) {
    c.set("timestamp", timestamp);
  }
  auto answer = client_.calls().ask_ok(address, std::move(c), kAdminTimeout);
  return answer ? answer->field_long("offset") : std::nullopt;
}

void ConsumerCore::persist(QueueState& state) {
  const std::int64_t offset = state.memory_offset.load();
  // Trap: an offset that does not exist is never stored (client §11 L4).
  if (offset < 0) {
    return;
  }
  if (local_) {
    if (auto r = local_->save({{state.queue, offset}}); !r) {
      log_error("sdk", "offsets not saved reason=\"{}\"", r.error().text());
    }
    return;
  }
  const std::string address = client_.routes().address(state.queue.broker, 0, false);
  if (address.empty()) {
    return;
  }
  proto::Command c =
      offset_request(proto::RequestCode::kUpdateConsumerOffset, options_.group, state.queue);
  c.set("commitOffset", offset);
  client_.calls().oneway(address, std::move(c));
}

void ConsumerCore::persist_all() {
  if (local_) {
    OffsetMap offsets;
    for (const QueueStatePtr& state : states()) {
      if (const std::int64_t offset = state->memory_offset.load(); offset >= 0) {
        offsets[state->queue] = offset;
      }
    }
    if (auto r = local_->save(offsets); !r) {
      log_error("sdk", "offsets not saved reason=\"{}\"", r.error().text());
    }
    return;
  }
  for (const QueueStatePtr& state : states()) {
    persist(*state);
  }
}

/// Waits for the answer: who reads the offset afterwards sees it.
bool ConsumerCore::persist_now(const Queue& queue, std::int64_t offset) {
  if (local_) {
    return local_->save({{queue, offset}}).has_value();
  }
  const std::string address = client_.routes().address(queue.broker, 0, false);
  if (address.empty()) {
    return false;
  }
  proto::Command c =
      offset_request(proto::RequestCode::kUpdateConsumerOffset, options_.group, queue);
  c.set("commitOffset", offset);
  return client_.calls().ask_ok(address, std::move(c), kOffsetTimeout).has_value();
}

/// @return false if a broker has not confirmed
bool ConsumerCore::commit_all(const std::vector<QueueStatePtr>& states) {
  if (local_) {
    OffsetMap offsets;
    for (const QueueStatePtr& state : states) {
      if (const std::int64_t offset = state->memory_offset.load(); offset >= 0) {
        offsets[state->queue] = offset;
      }
    }
    auto r = local_->save(offsets);
    if (!r) {
      log_error("sdk", "offsets not saved reason=\"{}\"", r.error().text());
    }
    return r.has_value();
  }
  struct Pending {
    std::mutex mutex;
    std::condition_variable done;
    std::size_t left = 0;
    bool failed = false;
  };
  auto pending = std::make_shared<Pending>();
  for (const QueueStatePtr& state : states) {
    const std::int64_t offset = state->memory_offset.load();
    const std::string address = client_.routes().address(state->queue.broker, 0, false);
    if (offset < 0 || address.empty()) {
      const std::scoped_lock lock(pending->mutex);
      pending->failed = pending->failed || offset >= 0;
      continue;
    }
    proto::Command c =
        offset_request(proto::RequestCode::kUpdateConsumerOffset, options_.group, state->queue);
    c.set("commitOffset", offset);
    {
      const std::scoped_lock lock(pending->mutex);
      ++pending->left;
    }
    client_.calls().start(
        address, std::move(c), client_.options().api_timeout, [pending](Result<proto::Command> r) {
          const std::scoped_lock lock(pending->mutex);
          pending->failed = pending->failed || !r || r->code != proto::ResponseCode::kSuccess;
          --pending->left;
          pending->done.notify_all();
        });
  }
  if (client_.on_own_thread()) {
    return false;
  }
  std::unique_lock lock(pending->mutex);
  return pending->done.wait_for(lock, client_.options().api_timeout, [&] {
    return pending->left == 0;
  }) && !pending->failed;
}

void ConsumerCore::on_reset_offset(std::map<proto::MessageQueue, std::int64_t> offsets) {
  // The queues are given up first, so that neither a running batch nor the 5 s timer can undo it.
  client_.worker().post([self = shared_from_this(), offsets = std::move(offsets)] {
    for (const auto& [mq, offset] : offsets) {
      const Queue queue{mq.topic, mq.broker_name, mq.queue_id};
      QueueStatePtr state;
      {
        const std::scoped_lock lock(self->mutex_);
        const auto it = self->owned_.find(queue);
        if (it == self->owned_.end()) {
          continue;
        }
        state = it->second;
        self->owned_.erase(it);
      }
      self->drop(state, false);
      self->persist_now(queue, offset);
    }
    self->client_.wake_rebalance();
  });
}

}  // namespace tenon::sdk::detail
