// The running consumer behind tenon::PushConsumer (spec: client §5).
//
// Threads: rebalance() and resets on the client's worker (they block); pull answers on I/O threads;
// listener calls on the pool or the executor; timers start asynchronous work only.
#pragma once

#include "client_core.h"
#include "listener_pool.h"
#include "local_offsets.h"
#include "plugins.h"
#include "process_queue.h"

#include "tenon/net/connection.h"
#include "tenon/sdk/pull_consumer.h"
#include "tenon/sdk/push_consumer.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::sdk::detail {

/// One queue that this member owns: cache, offsets, and its endless chain of pulls.
struct QueueState {
  explicit QueueState(Queue q)
      : queue(std::move(q)) {}
  const Queue queue;
  ProcessQueue cache{};
  /// Somebody else owns it now, or it starts anew: results of running batches are ignored.
  std::atomic<bool> dropped{false};
  std::atomic<std::int64_t> next_offset{0};     ///< of the next pull
  std::atomic<std::int64_t> memory_offset{-1};  ///< to be committed; -1: none
  std::atomic<std::int64_t> suggested_broker{0};
  std::atomic<std::int64_t> last_pull_ms{0};      ///< for people
  std::atomic<std::int64_t> pulled_steady_ms{0};  ///< the same by the clock that does not jump
  std::atomic<std::int64_t> last_consume_ms{0};

  std::atomic<std::int64_t> polled_offset{-1};  ///< pull only: behind what poll() has returned

  // orderly only, see orderly.h
  std::atomic<bool> locked{false};
  std::atomic<std::uint64_t> locked_ns{0};  ///< monotonic, of the last renewal
  std::atomic<std::int64_t> locked_ms{0};   ///< the same for people
  std::atomic<bool> busy{false};            ///< a task exists: queued, running or waiting
  std::atomic<bool> in_call{false};         ///< a listener has a batch, or its result is processed
  std::atomic<bool> leaving{false};         ///< given up as soon as no call runs

  void advance(std::int64_t offset) noexcept;  ///< memory_offset, increase only
};
using QueueStatePtr = std::shared_ptr<QueueState>;

struct SubscriptionState {
  proto::SubscriptionData data{};
  std::vector<std::string> tags{};  ///< exact ones; empty: all
  std::atomic<std::int64_t> version{0};
};

/// Drops messages whose tag only has the same hash as a subscribed one (spec: client §5.3).
void filter_by_tag(const std::vector<std::string>& tags, std::vector<MessageView>& messages);

class Orderly;
class Poller;

/// One of the two.
struct Listeners {
  PushConsumer::Listener concurrent{};
  PushConsumer::InOrder orderly{};
};

/// Counters shown by the admin tool.
struct ConsumeCounters {
  std::atomic<std::uint64_t> ok{0};
  std::atomic<std::uint64_t> failed{0};
};

class ConsumerCore final : public std::enable_shared_from_this<ConsumerCore> {
 public:
  static Result<std::shared_ptr<ConsumerCore>> create(ClientCore& client,
                                                      PushConsumerOptions options,
                                                      Listeners listeners);
  static Result<std::shared_ptr<ConsumerCore>> create(ClientCore& client,
                                                      PushConsumerOptions options,
                                                      PushConsumer::Listener concurrent) {
    Listeners listeners;
    listeners.concurrent = std::move(concurrent);
    return create(client, std::move(options), std::move(listeners));
  }
  /// One that is asked for its messages.
  static Result<std::shared_ptr<ConsumerCore>> create_pull(ClientCore& client,
                                                           PullConsumerOptions options);
  ~ConsumerCore();
  /// After it was added to the client: joins the group.
  Result<void> start();

  const std::string& group() const noexcept { return options_.group; }
  const std::string& shown_group() const noexcept { return shown_group_; }
  const PushConsumerOptions& options() const noexcept { return options_; }
  ClientCore& client() const noexcept { return client_; }
  bool subscribes(std::string_view topic) const { return subscription(topic) != nullptr; }
  void collect_topics(std::set<std::string>& out) const;
  proto::ConsumerData heartbeat_data() const;

  /// @return false if something could not be settled and should be tried again soon
  bool rebalance();
  void persist_all();
  void pause() { paused_.store(true); }
  void resume();
  std::vector<Queue> owned() const;  ///< as the program calls them
  Result<void> subscribe(std::string_view topic, const Subscription& what);
  Result<void> unsubscribe(std::string_view topic);

  /// Stops pulling and delivers what is cached within the limit. False if something was left.
  bool drain(std::chrono::milliseconds limit);
  std::chrono::milliseconds drain_limit() const noexcept { return options_.drain_on_close; }
  /// Ends everything: listener calls, pulls, timers; commits; leaves the group. Idempotent.
  void stop();

  Poller& poller() noexcept { return *poller_; }  ///< of a pull consumer
  bool has_listener() const noexcept { return poller_ == nullptr; }

  // Requests of brokers (spec: client §5.15). Thread: I/O.
  void on_reset_offset(std::map<proto::MessageQueue, std::int64_t> offsets);
  std::string status_body(std::string_view topic) const;
  std::string running_info_body() const;
  void consume_directly(MessageView message, std::function<void(std::string body)> done);

 private:
  friend class Orderly;
  friend class Poller;
  using SubscriptionPtr = std::shared_ptr<SubscriptionState>;
  ConsumerCore(ClientCore& client, PushConsumerOptions options, Listeners listeners);
  SubscriptionPtr subscription(std::string_view topic) const;
  std::vector<SubscriptionPtr> subscriptions() const;
  Result<void> add_subscription(const std::string& topic, const Subscription& what);
  Result<void> set_up();
  Result<void> add_subscriptions();
  Result<void> check_sql(const SubscriptionState& subscription);
  void start_timers();

  // rebalance.cpp
  void tell_queues(const std::string& topic);
  std::optional<std::vector<Queue>> wanted_queues(const std::string& topic, bool& settled);
  std::optional<std::vector<std::string>> group_members(const TopicInfo& info);
  bool apply(const std::string& topic, const std::vector<Queue>& wanted, bool& settled);
  std::size_t take_over(const std::vector<Queue>& added, bool& settled);
  void drop_unsubscribed();
  void drop(const QueueStatePtr& state, bool persist_offset);
  std::optional<std::int64_t> start_offset(const Queue& queue, QueueState& state);
  std::optional<std::int64_t> stored_offset(const Queue& queue, bool& is_new);
  std::optional<std::int64_t> ask_offset(proto::RequestCode::Value code,
                                         const Queue& queue,
                                         std::int64_t timestamp);
  void persist(QueueState& state);
  bool persist_now(const Queue& queue, std::int64_t offset);
  bool commit_all(const std::vector<QueueStatePtr>& states);

  // pull_loop.cpp
  void pull(const QueueStatePtr& state);
  void pull_later(const QueueStatePtr& state, std::chrono::milliseconds delay);
  void send_pull(const QueueStatePtr& state, const SubscriptionState& subscription);
  void on_pull(const QueueStatePtr& state, tenon::Result<net::RpcAnswer> answer);
  void on_found(const QueueStatePtr& state,
                const proto::CommandView& response,
                const net::BufferRef& keep);
  void on_illegal_offset(const QueueStatePtr& state, std::int64_t next);

  // consume.cpp
  void consume(const QueueStatePtr& state, std::span<const MessageView> batch);
  Ack call_listener(const Queue& queue, std::span<const MessageView> batch) noexcept;
  bool send_back(const MessageView& message, int delay_level);
  void look_for_retry_topic();
  void look_again(int looks);
  bool send_to_retry_topic(const MessageView& message);
  void clean_expired();

  std::vector<QueueStatePtr> states() const;
  bool clustering() const noexcept { return options_.mode == GroupMode::kClustering; }

  ClientCore& client_;
  const PushConsumerOptions options_;
  const std::string shown_group_;  ///< as the program calls it
  const Listeners listeners_;
  const std::int64_t started_ms_;
  std::unique_ptr<Allocator> allocator_;
  std::unique_ptr<LocalOffsets> local_;
  std::unique_ptr<Orderly> orderly_;
  std::unique_ptr<Poller> poller_;
  std::shared_ptr<ListenerPool> pool_;
  mutable std::mutex mutex_;
  std::map<std::string, SubscriptionPtr, std::less<>> subscriptions_;
  std::map<Queue, QueueStatePtr> owned_;
  std::vector<Scheduler::Id> timers_;
  struct ToldQueues {
    std::vector<Queue> all{};
    std::vector<Queue> mine{};
  };
  std::map<std::string, ToldQueues> told_;  ///< by topic; of rebalance() alone
  std::atomic<bool> paused_{false};
  std::atomic<bool> closing_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> looking_for_retry_topic_{false};
  ConsumeCounters counters_;
};

}  // namespace tenon::sdk::detail
