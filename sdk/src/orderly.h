// Orderly consumption: one call per queue at a time, under a lock that the broker gives (spec:
// client §5.13).
#pragma once

#include "consumer_core.h"

#include "tenon/proto/bodies_admin.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tenon::sdk::detail {

/// Part of a ConsumerCore, which outlives every task of it. Each queue has at most one task: on the
/// listener pool, or waiting in a timer.
class Orderly {
 public:
  static constexpr std::chrono::milliseconds kRenewal{20'000};
  /// Trap: well below the 60 s after which a broker gives the lock to others (client §5.13).
  static constexpr std::chrono::milliseconds kTrusted{30'000};
  /// A queue that always has messages lets others have the thread after this.
  static constexpr std::chrono::milliseconds kContinuous{60'000};

  explicit Orderly(ConsumerCore& core)
      : core_(core) {}

  /// There is something to deliver, or there may be. Thread: any.
  void submit(const QueueStatePtr& state);
  /// The broker's lock is ours, and fresh enough to be trusted.
  bool holds(const QueueState& state) const;
  /// False while a call runs: it ends the queue's life here itself, by another rebalance.
  bool may_leave(QueueState& state);

  /// Asks the brokers for the queues. Blocks; on the client's worker.
  /// @return those that are ours now
  std::vector<Queue> lock(const std::vector<Queue>& queues);
  /// Gives them back. With `wait`, returns when the brokers have answered, at most after a second.
  void unlock(const std::vector<QueueStatePtr>& states, bool wait);
  /// Renews the locks of everything owned. Does not block.
  void renew();

  /// What CONSUME_MESSAGE_DIRECTLY reports.
  static proto::ConsumeResult direct_result(const OrderAck& ack, bool& auto_commit);

 private:
  /// What follows a step of a queue's task.
  struct Next {
    enum Kind : std::uint8_t { kGoOn, kIdle, kLater } kind = kGoOn;
    std::chrono::milliseconds delay{0};
  };
  void run(const QueueStatePtr& state);
  Next step(const QueueStatePtr& state, std::uint64_t begin_ns);
  Next deliver(const QueueStatePtr& state);
  Next settle(QueueState& state, std::span<const MessageView> batch, const OrderAck& ack);
  bool give_up_batch(std::span<const MessageView> batch);
  OrderAck call_listener(const Queue& queue, std::span<const MessageView> batch) noexcept;
  std::chrono::milliseconds pause_of(const OrderAck& ack) const;
  void again(const QueueStatePtr& state, std::chrono::milliseconds delay);
  void regain(const QueueStatePtr& state);
  void on_lock_answer(const std::vector<QueueStatePtr>& asked,
                      std::uint64_t asked_ns,
                      const std::vector<proto::MessageQueue>& locked);
  void lose(const QueueStatePtr& state);
  proto::Command request(proto::RequestCode::Value code, const std::vector<Queue>& queues) const;

  ConsumerCore& core_;
};

}  // namespace tenon::sdk::detail
