// The endless chain of pulls of each owned queue (spec: client §5.8, §5.9).
#include "consumer_core.h"
#include "errors.h"
#include "message_block.h"
#include "observed_call.h"
#include "orderly.h"
#include "poller.h"

#include "tenon/base/log.h"

namespace tenon::sdk::detail {
namespace {

constexpr std::chrono::milliseconds kFlowDelay{50};
constexpr std::chrono::milliseconds kPausedDelay{1'000};
constexpr std::chrono::milliseconds kBusyDelay{20};
constexpr std::chrono::milliseconds kPullTimeout{30'000};
constexpr std::int64_t kSuspendMs = 15'000;
constexpr std::int64_t kPollSuspendMs = 20'000;

constexpr std::int32_t kCommit = 1;
constexpr std::int32_t kSuspend = 2;
constexpr std::int32_t kWithSubscription = 4;
constexpr std::int32_t kLite = 16;

}  // namespace

void ConsumerCore::pull_later(const QueueStatePtr& state, std::chrono::milliseconds delay) {
  client_.timers().add(delay, [weak = weak_from_this(), state] {
    if (const auto self = weak.lock()) {
      self->pull(state);
    }
  });
}

void ConsumerCore::pull(const QueueStatePtr& state) {
  if (state->dropped.load() || closing_.load()) {
    return;
  }
  state->last_pull_ms.store(client_.now_ms());
  state->pulled_steady_ms.store(client_.steady_ms());
  if (paused_.load() || (poller_ && poller_->is_paused(state->queue))) {
    pull_later(state, kPausedDelay);
    return;
  }
  const FlowLimits limits{
      options_.cached_max_messages, options_.cached_max_mib, options_.cached_max_span};
  if (check_flow(state->cache, limits) != FlowControl::kGo) {
    pull_later(state, kFlowDelay);
    return;
  }
  const SubscriptionPtr wanted = subscription(state->queue.topic);
  if (!wanted || (orderly_ && clustering() && !orderly_->holds(*state))) {
    pull_later(state, options_.pull_error_delay);
    return;
  }
  send_pull(state, *wanted);
}

void ConsumerCore::send_pull(const QueueStatePtr& state, const SubscriptionState& subscription) {
  const std::string address =
      client_.routes().address(state->queue.broker, state->suggested_broker.load(), false);
  if (address.empty()) {
    pull_later(state, options_.pull_error_delay);
    return;
  }
  const std::int64_t commit = clustering() && !poller_ ? state->memory_offset.load() : 0;
  const bool to_master = address == client_.routes().address(state->queue.broker, 0, true);
  std::int32_t flags = kSuspend;
  if (clustering() && commit > 0 && to_master) {
    flags |= kCommit;
  }
  if (poller_) {
    flags |= kWithSubscription | kLite;
  }
  const auto encode = [&](std::string& out, std::int32_t opaque) {
    proto::FrameWriter::Head head;
    head.code = proto::RequestCode::kPullMessage;
    head.opaque = opaque;
    head.language = proto::Language::kCpp;
    proto::FrameWriter w(out, head);
    w.field("consumerGroup", options_.group);
    w.field("topic", state->queue.topic);
    w.field("queueId", state->queue.id);
    w.field("queueOffset", state->next_offset.load());
    w.field("maxMsgNums", static_cast<std::int64_t>(options_.pull_batch));
    w.field("sysFlag", flags);
    w.field("commitOffset", commit);
    w.field("suspendTimeoutMillis", poller_ ? kPollSuspendMs : kSuspendMs);
    if (poller_) {
      w.field("subscription", subscription.data.sub_string);
    }
    w.field("subVersion", subscription.version.load());
    w.field("expressionType", subscription.data.expression_type);
    w.field("bname", state->queue.broker);
    w.finish();
  };
  client_.rpc().call(address,
                     net::RpcEncoder(std::cref(encode)),
                     kPullTimeout,
                     [weak = weak_from_this(), state](tenon::Result<net::RpcAnswer> answer) {
                       if (const auto self = weak.lock()) {
                         self->on_pull(state, std::move(answer));
                       }
                     });
}

void ConsumerCore::on_pull(const QueueStatePtr& state, tenon::Result<net::RpcAnswer> answer) {
  using Code = proto::ResponseCode;
  if (state->dropped.load() || closing_.load()) {
    return;
  }
  if (answer.has_error()) {
    if (answer.error().code != tenon::Errc::kCancelled) {
      pull_later(state, options_.pull_error_delay);
    }
    return;
  }
  const proto::CommandView& response = *answer.value().command;
  const auto next = response.field_long("nextBeginOffset");
  if (const auto suggested = response.field_long("suggestWhichBrokerId")) {
    state->suggested_broker.store(*suggested);
  }
  const bool known = response.code == Code::kSuccess || response.code == Code::kPullNotFound ||
                     response.code == Code::kPullRetryImmediately ||
                     response.code == Code::kPullOffsetMoved;
  if (known && next) {
    if (response.code == Code::kSuccess) {
      state->next_offset.store(*next);
      on_found(state, response, answer.value().keep);
      return;
    }
    if (response.code == Code::kPullOffsetMoved) {
      if (poller_) {
        log_warn("sdk",
                 "offset illegal, corrected group={} topic={} queue={} corrected={}",
                 options_.group,
                 state->queue.topic,
                 state->queue.id,
                 *next);
        state->next_offset.store(*next);
        poller_->on_skipped(*state, *next);
        pull(state);
        return;
      }
      on_illegal_offset(state, *next);
      return;
    }
    state->next_offset.store(*next);
    if (poller_) {
      poller_->on_skipped(*state, *next);
      pull(state);
      return;
    }
    // Trap: progress over messages that do not match, but only when nothing is unfinished
    // (client §5.9, L3).
    if (state->cache.count() == 0) {
      state->advance(*next);
    }
    pull(state);
    return;
  }
  if (response.code == Code::kFlowControl) {
    pull_later(state, kBusyDelay);
    return;
  }
  if (response.code == Code::kSubscriptionNotExist ||
      response.code == Code::kSubscriptionNotLatest ||
      response.code == Code::kSubscriptionGroupNotExist) {
    client_.heartbeat_soon();  // the broker was restarted or does not know our change yet
  }
  log_debug("sdk",
            "pull refused topic={} queue={} code={} remark=\"{}\"",
            state->queue.topic,
            state->queue.id,
            response.code,
            response.remark);
  pull_later(state, options_.pull_error_delay);
}

void ConsumerCore::on_found(const QueueStatePtr& state,
                            const proto::CommandView& response,
                            const net::BufferRef& keep) {
  std::vector<MessageView> messages =
      decode_messages(response.body, keep, state->queue.broker, client_.names());
  if (const SubscriptionPtr wanted = subscription(state->queue.topic)) {
    filter_by_tag(wanted->tags, messages);
  }
  filter_by_hooks(options_.hooks, messages);
  if (!messages.empty()) {
    state->cache.put(messages);
    if (orderly_) {
      orderly_->submit(state);
    } else if (poller_) {
      poller_->on_messages();
    } else {
      pool_->submit(std::move(messages), state);
    }
  } else if (poller_) {
    poller_->on_skipped(*state, state->next_offset.load());
  } else if (state->cache.count() == 0) {
    state->advance(state->next_offset.load());
  }
  if (options_.pull_interval.count() > 0) {
    pull_later(state, options_.pull_interval);
  } else {
    pull(state);
  }
}

/// The queue starts anew at the offset that the broker named (as 5.3.3: at once, not after 10 s).
void ConsumerCore::on_illegal_offset(const QueueStatePtr& state, std::int64_t next) {
  log_warn("sdk",
           "offset illegal, corrected group={} topic={} queue={} offset={} corrected={}",
           options_.group,
           state->queue.topic,
           state->queue.id,
           state->next_offset.load(),
           next);
  // Trap: cached messages may still be in work; their results must not be committed (client §11
  // L10).
  state->dropped.store(true);
  client_.worker().post([self = shared_from_this(), state, next] {
    {
      const std::scoped_lock lock(self->mutex_);
      const auto it = self->owned_.find(state->queue);
      if (it == self->owned_.end() || it->second != state) {
        return;
      }
    }
    const bool stored = self->persist_now(state->queue, next);
    {
      const std::scoped_lock lock(self->mutex_);
      self->owned_.erase(state->queue);
    }
    state->cache.clear();
    self->pool_->look_again();
    if (!stored) {
      log_warn("sdk", "corrected offset not stored topic={}", state->queue.topic);
    }
    self->client_.wake_rebalance();
  });
}

}  // namespace tenon::sdk::detail
