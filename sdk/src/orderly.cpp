#include "orderly.h"

#include "errors.h"
#include "message_block.h"
#include "observed_call.h"

#include "tenon/base/log.h"

#include <algorithm>
#include <map>

namespace tenon::sdk::detail {
namespace {

constexpr std::chrono::milliseconds kLockTimeout{1'000};
constexpr std::chrono::milliseconds kSoon{10};
constexpr std::chrono::milliseconds kLockAgain{3'000};
constexpr std::chrono::milliseconds kPauseMin{10};
constexpr std::chrono::milliseconds kPauseMax{30'000};

std::uint64_t ns(std::chrono::milliseconds time) noexcept {
  return static_cast<std::uint64_t>(time.count()) * 1'000'000;
}

proto::MessageQueue wire(const Queue& q) {
  return {q.topic, q.broker, q.id};
}

}  // namespace

void Orderly::submit(const QueueStatePtr& state) {
  if (!state->busy.exchange(true)) {
    core_.pool_->post([self = core_.shared_from_this(), state] { self->orderly_->run(state); });
  }
}

void Orderly::again(const QueueStatePtr& state, std::chrono::milliseconds delay) {
  core_.client_.timers().add(delay, [weak = core_.weak_from_this(), state] {
    if (const auto self = weak.lock()) {
      self->pool_->post([self, state] { self->orderly_->run(state); });
    }
  });
}

bool Orderly::holds(const QueueState& state) const {
  return state.locked.load() &&
         core_.client_.clock().mono_ns() - state.locked_ns.load() <= ns(kTrusted);
}

bool Orderly::may_leave(QueueState& state) {
  state.leaving.store(true);
  return !state.in_call.load();
}

void Orderly::run(const QueueStatePtr& state) {
  const std::uint64_t begin = core_.client_.clock().mono_ns();
  for (;;) {
    const Next next = step(state, begin);
    if (next.kind == Next::kLater) {
      again(state, next.delay);
      return;
    }
    if (next.kind == Next::kIdle) {
      state->busy.store(false);
      const bool ended = state->dropped.load() || state->leaving.load() || core_.stopped_.load();
      if (ended || state->cache.waiting() == 0 || state->busy.exchange(true)) {
        return;
      }
      // Something came between the last look and the end of the task.
    }
  }
}

Orderly::Next Orderly::step(const QueueStatePtr& state, std::uint64_t begin_ns) {
  if (state->dropped.load() || core_.stopped_.load()) {
    return {Next::kIdle};
  }
  // Trap: looked at before every batch; a lock that is not renewed belongs to somebody else soon
  // (client §5.13, D11).
  if (core_.clustering() && !holds(*state)) {
    if (state->cache.waiting() == 0) {
      return {Next::kIdle};
    }
    regain(state);
    return {Next::kLater, kLockAgain};
  }
  if (core_.client_.clock().mono_ns() - begin_ns > ns(kContinuous)) {
    return {Next::kLater, kSoon};
  }
  state->in_call.store(true);
  Next next{Next::kIdle};
  if (!state->leaving.load()) {
    next = deliver(state);
  }
  state->in_call.store(false);
  if (state->leaving.load()) {
    core_.client_.wake_rebalance();
    return {Next::kIdle};
  }
  return next;
}

Orderly::Next Orderly::deliver(const QueueStatePtr& state) {
  const std::vector<MessageView> batch = state->cache.take(core_.options_.batch_max);
  if (batch.empty()) {
    return {Next::kIdle};
  }
  state->last_consume_ms.store(core_.client_.now_ms());
  const OrderAck ack = call_listener(state->queue, batch);
  // Trap: the queue may have a new owner by now (client §11 L11).
  if (state->dropped.load()) {
    return {Next::kIdle};
  }
  return settle(*state, batch, ack);
}

OrderAck Orderly::call_listener(const Queue& queue, std::span<const MessageView> batch) noexcept {
  ObservedCall seen(core_, queue, batch);
  try {
    const OrderAck ack = core_.listeners_.orderly(batch);
    const bool again =
        ack.kind() == OrderAck::Kind::kSuspend || ack.kind() == OrderAck::Kind::kRollback;
    seen.end(ConsumeOutcome::kSuccess, again ? 0 : batch.size());
    return ack;
  } catch (const std::exception& e) {
    log_warn("sdk", "listener threw, queue is suspended what=\"{}\"", e.what());
  } catch (...) {
    log_warn("sdk", "listener threw, queue is suspended");
  }
  seen.end(ConsumeOutcome::kException, 0);
  return OrderAck::suspend();
}

std::chrono::milliseconds Orderly::pause_of(const OrderAck& ack) const {
  const auto wanted = ack.pause().count() > 0 ? ack.pause() : core_.options_.suspend_delay;
  return std::clamp(wanted, kPauseMin, kPauseMax);
}

Orderly::Next Orderly::settle(QueueState& state,
                              std::span<const MessageView> batch,
                              const OrderAck& ack) {
  const auto commit = [&] {
    // Not increase-only: nobody but this task moves it (client §5.13).
    if (const std::int64_t offset = state.cache.commit_taken(); offset >= 0) {
      state.memory_offset.store(offset);
    }
  };
  switch (ack.kind()) {
    case OrderAck::Kind::kSuccess:
    case OrderAck::Kind::kCommit:
      core_.counters_.ok.fetch_add(batch.size(), std::memory_order_relaxed);
      commit();
      return {};
    case OrderAck::Kind::kHold:
      core_.counters_.ok.fetch_add(batch.size(), std::memory_order_relaxed);
      return {};
    case OrderAck::Kind::kRollback:
      state.cache.untake(state.cache.taken());
      return {Next::kLater, pause_of(ack)};
    case OrderAck::Kind::kSuspend:
      break;
  }
  core_.counters_.failed.fetch_add(batch.size(), std::memory_order_relaxed);
  if (give_up_batch(batch)) {
    if (state.cache.taken() == batch.size()) {
      commit();  // otherwise it waits for the commit of what is held before it
    }
    return {};
  }
  state.cache.untake(batch.size());
  return {Next::kLater, pause_of(ack)};
}

/// Sends a batch that has used up its attempts to the retry topic, from where the broker moves it to
/// the dead letter queue. A batch goes as a whole, when all of it is at the limit.
/// Trap: sending some of it and putting all of it back would duplicate those (client §5.13).
/// @return false if it is to be delivered again
bool Orderly::give_up_batch(std::span<const MessageView> batch) {
  const int limit = core_.options_.max_attempts;
  const bool at_limit = limit >= 0 && core_.clustering() &&
                        std::all_of(batch.begin(), batch.end(), [limit](const MessageView& m) {
                          return m.reconsume_times() >= limit;
                        });
  if (at_limit) {
    std::size_t sent = 0;
    while (sent < batch.size() && core_.send_to_retry_topic(batch[sent])) {
      ++sent;
    }
    if (sent == batch.size()) {
      return true;
    }
  }
  for (const MessageView& m : batch) {
    MessageBlock::slot_of(m).local_retries.fetch_add(1, std::memory_order_relaxed);
  }
  return false;
}

proto::ConsumeResult Orderly::direct_result(const OrderAck& ack, bool& auto_commit) {
  switch (ack.kind()) {
    case OrderAck::Kind::kSuccess:
      return proto::ConsumeResult::kSuccess;
    case OrderAck::Kind::kSuspend:
      return proto::ConsumeResult::kLater;
    case OrderAck::Kind::kHold:
      auto_commit = false;
      return proto::ConsumeResult::kSuccess;
    case OrderAck::Kind::kCommit:
      auto_commit = false;
      return proto::ConsumeResult::kCommit;
    case OrderAck::Kind::kRollback:
      auto_commit = false;
      return proto::ConsumeResult::kRollback;
  }
  return proto::ConsumeResult::kLater;
}

// ---- the broker's locks ----

proto::Command Orderly::request(proto::RequestCode::Value code,
                                const std::vector<Queue>& queues) const {
  proto::LockRequest body;
  body.group = core_.options_.group;
  body.client_id = core_.client_.id();
  for (const Queue& q : queues) {
    body.queues.push_back(wire(q));
  }
  proto::Command c = make_request(code);
  c.body = proto::encode(body);
  return c;
}

std::vector<Queue> Orderly::lock(const std::vector<Queue>& queues) {
  std::map<std::string, std::vector<Queue>> by_broker;
  for (const Queue& q : queues) {
    by_broker[q.broker].push_back(q);
  }
  std::vector<Queue> out;
  for (const auto& [broker, of_broker] : by_broker) {
    const std::string address = core_.client_.routes().address(broker, 0, true);
    if (address.empty()) {
      continue;
    }
    auto answer = core_.client_.calls().ask_ok(
        address, request(proto::RequestCode::kLockBatchMq, of_broker), kLockTimeout);
    if (!answer) {
      log_debug("sdk", "locks refused broker={} reason=\"{}\"", broker, answer.error().text());
      continue;
    }
    const auto locked = proto::decode_lock_answer(answer->body);
    for (const Queue& q : of_broker) {
      if (locked.has_value() && std::find(locked.value().begin(), locked.value().end(), wire(q)) !=
                                    locked.value().end()) {
        out.push_back(q);
      }
    }
  }
  return out;
}

void Orderly::unlock(const std::vector<QueueStatePtr>& states, bool wait) {
  std::map<std::string, std::vector<Queue>> by_broker;
  for (const QueueStatePtr& state : states) {
    state->locked.store(false);
    by_broker[state->queue.broker].push_back(state->queue);
  }
  const bool may_wait = wait && !core_.client_.on_own_thread();
  for (const auto& [broker, queues] : by_broker) {
    const std::string address = core_.client_.routes().address(broker, 0, true);
    if (address.empty()) {
      continue;
    }
    proto::Command c = request(proto::RequestCode::kUnlockBatchMq, queues);
    if (may_wait) {
      static_cast<void>(core_.client_.calls().ask(address, std::move(c), kLockTimeout));
    } else {
      core_.client_.calls().oneway(address, std::move(c));
    }
  }
}

void Orderly::renew() {
  std::map<std::string, std::vector<QueueStatePtr>> by_broker;
  for (const QueueStatePtr& state : core_.states()) {
    by_broker[state->queue.broker].push_back(state);
  }
  for (const auto& [broker, states] : by_broker) {
    const std::string address = core_.client_.routes().address(broker, 0, true);
    if (address.empty()) {
      continue;
    }
    std::vector<Queue> queues;
    for (const QueueStatePtr& state : states) {
      queues.push_back(state->queue);
    }
    const std::uint64_t asked_ns = core_.client_.clock().mono_ns();
    core_.client_.calls().start(
        address,
        request(proto::RequestCode::kLockBatchMq, queues),
        kLockTimeout,
        [weak = core_.weak_from_this(), states = states, asked_ns](Result<proto::Command> answer) {
          const auto self = weak.lock();
          if (!self || !answer || answer->code != proto::ResponseCode::kSuccess) {
            return;  // the locks age, and are not trusted any more after a while
          }
          if (const auto locked = proto::decode_lock_answer(answer->body); locked.has_value()) {
            self->orderly_->on_lock_answer(states, asked_ns, locked.value());
          }
        });
  }
}

/// Asks for the lock of one queue again; the task looks after a while.
void Orderly::regain(const QueueStatePtr& state) {
  const std::string address = core_.client_.routes().address(state->queue.broker, 0, true);
  if (address.empty()) {
    return;
  }
  const std::uint64_t asked_ns = core_.client_.clock().mono_ns();
  core_.client_.calls().start(
      address,
      request(proto::RequestCode::kLockBatchMq, {state->queue}),
      kLockTimeout,
      [weak = core_.weak_from_this(), state, asked_ns](Result<proto::Command> answer) {
        const auto self = weak.lock();
        if (!self || !answer || answer->code != proto::ResponseCode::kSuccess) {
          return;
        }
        if (const auto locked = proto::decode_lock_answer(answer->body); locked.has_value()) {
          self->orderly_->on_lock_answer({state}, asked_ns, locked.value());
        }
      });
}

void Orderly::on_lock_answer(const std::vector<QueueStatePtr>& asked,
                             std::uint64_t asked_ns,
                             const std::vector<proto::MessageQueue>& locked) {
  for (const QueueStatePtr& state : asked) {
    if (std::find(locked.begin(), locked.end(), wire(state->queue)) != locked.end()) {
      // From the time of asking: the broker counts from a moment after that.
      state->locked_ns.store(asked_ns);
      state->locked_ms.store(core_.client_.now_ms());
      state->locked.store(true);
    } else if (!state->dropped.load()) {
      lose(state);
    }
  }
}

/// Another member has it: what is cached may be consumed there already, so the queue starts anew
/// from the stored offset when the lock is ours again.
void Orderly::lose(const QueueStatePtr& state) {
  log_warn("sdk",
           "lock lost group={} topic={} broker={} queue={}",
           core_.options_.group,
           state->queue.topic,
           state->queue.broker,
           state->queue.id);
  state->locked.store(false);
  state->dropped.store(true);
  {
    const std::scoped_lock lock(core_.mutex_);
    const auto it = core_.owned_.find(state->queue);
    if (it != core_.owned_.end() && it->second == state) {
      core_.owned_.erase(it);
    }
  }
  state->cache.clear();
  core_.pool_->look_again();
  core_.client_.wake_rebalance();
}

}  // namespace tenon::sdk::detail
