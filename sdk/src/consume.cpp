// Listener calls and what follows from their result (spec: client §5.11, §5.12).
#include "consumer_core.h"
#include "errors.h"
#include "message_block.h"
#include "message_text.h"
#include "observed_call.h"
#include "orderly.h"
#include "producer_core.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/proto/bodies_admin.h"
#include "tenon/proto/properties.h"

namespace tenon::sdk::detail {
namespace {

constexpr std::chrono::milliseconds kSendBackTimeout{5'000};
constexpr std::chrono::milliseconds kLocalRetryDelay{5'000};
constexpr std::chrono::milliseconds kRetryTopicDelay{1'000};
constexpr int kRetryTopicLooks = 5;
constexpr int kExpiredLevel = 3;
constexpr int kExpiredPerRun = 16;

}  // namespace

Ack ConsumerCore::call_listener(const Queue& queue, std::span<const MessageView> batch) noexcept {
  ObservedCall seen(*this, queue, batch);
  try {
    const Ack ack = listeners_.concurrent(batch);
    seen.end(ConsumeOutcome::kSuccess, ack.done(batch.size()));
    return ack;
  } catch (const std::exception& e) {
    log_warn("sdk", "listener threw, message comes again what=\"{}\"", e.what());
  } catch (...) {
    log_warn("sdk", "listener threw, message comes again");
  }
  seen.end(ConsumeOutcome::kException, 0);
  return Ack::retry();
}

void ConsumerCore::consume(const QueueStatePtr& state, std::span<const MessageView> batch) {
  if (state->dropped.load()) {
    return;
  }
  const auto keep = shared_from_this();  // the listener may destroy the consumer
  // Trap: not by the wall clock; one that is set forward would send back all that is in work.
  state->cache.mark_started(batch, client_.steady_ms());
  state->last_consume_ms.store(client_.now_ms());
  const Ack ack = call_listener(state->queue, batch);
  // Trap: the queue may have a new owner by now; committing for it would move the group's offset
  // (client §11 L11).
  if (state->dropped.load()) {
    return;
  }
  const std::size_t done = ack.done(batch.size());
  counters_.ok.fetch_add(done, std::memory_order_relaxed);
  if (done == batch.size() || !clustering()) {
    if (done < batch.size()) {
      log_warn("sdk", "broadcast messages failed and are dropped count={}", batch.size() - done);
    }
    if (const std::int64_t offset = state->cache.remove(batch); offset >= 0) {
      state->advance(offset);
    }
    return;
  }
  counters_.failed.fetch_add(batch.size() - done, std::memory_order_relaxed);
  std::vector<MessageView> finished(batch.begin(),
                                    batch.begin() + static_cast<std::ptrdiff_t>(done));
  std::vector<MessageView> again;
  for (const MessageView& m : batch.subspan(done)) {
    // clean_expired() may have sent it back already.
    if (!state->cache.contains(m.queue_offset()) || send_back(m, ack.delay_level())) {
      finished.push_back(m);
    } else {
      again.push_back(m);
    }
  }
  const std::int64_t offset = state->cache.remove(finished);
  if (offset >= 0 && !state->dropped.load()) {
    state->advance(offset);
  }
  if (!again.empty()) {
    // They stay in the cache and hold the offset.
    client_.timers().add(kLocalRetryDelay, [weak = weak_from_this(), state, again] {
      const auto self = weak.lock();
      if (self && !state->dropped.load()) {
        self->pool_->submit(again, state);
      }
    });
  }
}

bool ConsumerCore::send_back(const MessageView& message, int delay_level) {
  const std::string address = client_.routes().address(message.broker(), 0, true);
  if (!address.empty()) {
    proto::Command c = make_request(proto::RequestCode::kConsumerSendMsgBack);
    c.set("offset", message.physical_offset());
    c.set("group", options_.group);
    c.set("delayLevel", static_cast<std::int64_t>(delay_level));
    c.set("originMsgId", message.id());
    c.set("originTopic", client_.names().wrap(message.topic()));
    c.set("unitMode", std::string_view("false"));
    c.set("maxReconsumeTimes", static_cast<std::int64_t>(options_.max_attempts));
    c.set("bname", message.broker());
    auto r = client_.calls().ask_ok(address, std::move(c), kSendBackTimeout);
    if (r) {
      look_for_retry_topic();
      return true;
    }
    log_warn("sdk",
             "send back refused, sent to the retry topic instead id={} reason=\"{}\"",
             message.id(),
             r.error().text());
  }
  return send_to_retry_topic(message);
}

/// The retry topic of a new group is made by its first heartbeat, after its first member looked for
/// the route, and the next look may be half a minute away. A route that is found wakes the rebalance.
void ConsumerCore::look_for_retry_topic() {
  if (client_.routes().cached("%RETRY%" + options_.group) == nullptr &&
      !looking_for_retry_topic_.exchange(true)) {
    look_again(kRetryTopicLooks);
  }
}

void ConsumerCore::look_again(int looks) {
  client_.routes().fetch("%RETRY%" + options_.group,
                         [weak = weak_from_this(), looks](const Result<TopicInfoPtr>& r) {
                           const auto self = weak.lock();
                           if (!self) {
                             return;
                           }
                           if (r || looks <= 1) {
                             self->looking_for_retry_topic_ = false;
                             return;
                           }
                           self->client_.timers().add(kRetryTopicDelay, [weak, looks] {
                             if (const auto consumer = weak.lock()) {
                               consumer->look_again(looks - 1);
                             }
                           });
                         });
}

/// A new message with the same body and id to %RETRY%<group>, on any broker.
bool ConsumerCore::send_to_retry_topic(const MessageView& message) {
  auto producer = client_.inner_producer();
  if (!producer) {
    return false;
  }
  const proto::MessageView& m = MessageBlock::slot_of(message).m;
  const std::int32_t times = message.reconsume_times();
  RawMessage raw;
  raw.topic = "%RETRY%" + options_.group;
  raw.body = std::string(as_text(m.body));
  raw.id = message.id();
  raw.sys_flag = m.sys_flag & (proto::sys_flag::kCompressed | proto::sys_flag::kCompressionMask |
                               proto::sys_flag::kMultiTags);
  raw.flag = m.flag;
  raw.reconsume_times = times + 1;
  raw.max_reconsume_times = options_.max_attempts;
  raw.properties = std::string(m.properties);
  for (const std::string_view name : {proto::prop::kRetryTopic,
                                      proto::prop::kReconsumeTime,
                                      proto::prop::kMaxReconsumeTimes,
                                      proto::prop::kDelay,
                                      proto::prop::kTransactionPrepared}) {
    raw.properties = proto::without_property(raw.properties, name);
  }
  put_property(raw.properties, proto::prop::kRetryTopic, client_.names().wrap(message.topic()));
  put_property(raw.properties, proto::prop::kReconsumeTime, std::to_string(times + 1));
  put_property(
      raw.properties, proto::prop::kMaxReconsumeTimes, std::to_string(options_.max_attempts));
  put_property(raw.properties, proto::prop::kDelay, std::to_string(3 + times));
  auto r = (*producer)->send_raw(std::move(raw));
  if (!r) {
    log_warn("sdk",
             "retry not stored, tried again here in 5 s id={} reason=\"{}\"",
             message.id(),
             r.error().text());
  }
  return r.has_value();
}

/// Messages that a listener has held for too long are sent back, oldest first. The listener is not
/// interrupted: such a message may be processed twice.
void ConsumerCore::clean_expired() {
  for (const QueueStatePtr& state : states()) {
    for (int i = 0; i < kExpiredPerRun; ++i) {
      const auto head = state->cache.head();
      if (!head || head->started_ms == 0 ||
          client_.steady_ms() - head->started_ms < options_.consume_timeout.count() ||
          state->dropped.load()) {
        break;
      }
      if (!send_back(head->message, kExpiredLevel)) {
        break;
      }
      const std::int64_t offset = state->cache.remove(std::span(&head->message, 1));
      if (offset >= 0 && !state->dropped.load()) {
        state->advance(offset);
      }
    }
  }
}

void ConsumerCore::consume_directly(MessageView message,
                                    std::function<void(std::string body)> done) {
  pool_->post([self = shared_from_this(), message = std::move(message), done = std::move(done)] {
    const auto begin = std::chrono::steady_clock::now();
    proto::ConsumeMessageDirectlyResult result;
    try {
      const std::span<const MessageView> one(&message, 1);
      if (self->orderly_) {
        result.order = true;
        result.result = Orderly::direct_result(self->listeners_.orderly(one), result.auto_commit);
      } else {
        result.result = self->listeners_.concurrent(one).done(1) == 1
                            ? proto::ConsumeResult::kSuccess
                            : proto::ConsumeResult::kLater;
      }
    } catch (const std::exception& e) {
      result.result = proto::ConsumeResult::kThrowException;
      result.remark = e.what();
    } catch (...) {
      result.result = proto::ConsumeResult::kThrowException;
    }
    result.spent_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::steady_clock::now() - begin)
                          .count();
    done(proto::encode(result));
  });
}

}  // namespace tenon::sdk::detail
