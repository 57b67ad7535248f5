// Receives the messages of a group: the SDK pulls, a callable of the program gets them.
#pragma once

#include "tenon/sdk/client.h"
#include "tenon/sdk/hooks.h"
#include "tenon/sdk/message.h"
#include "tenon/sdk/result.h"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tenon::sdk {

namespace detail {
class ConsumerCore;
}

/// Where a queue starts that has no committed offset yet.
struct FromLast {};   ///< at its end; a retry topic at its beginning
struct FromFirst {};  ///< at its beginning
struct FromTime {
  std::chrono::system_clock::time_point when{};
};  ///< at the first message stored at or after this
using StartPosition = std::variant<FromLast, FromFirst, FromTime>;

enum class FilterKind : std::uint8_t { kTag, kSql92 };
struct Subscription {
  std::string expression = "*";  ///< "*", "a || b", or the SQL text
  FilterKind kind = FilterKind::kTag;
};

enum class GroupMode : std::uint8_t {
  kClustering,   ///< each message to one member
  kBroadcasting  ///< each message to every member; offsets in a local file, failures are dropped
};

struct PushConsumerOptions {
  std::string group{};                                  ///< 1 to 255 characters as of a topic
  std::map<std::string, Subscription> subscriptions{};  ///< topic → which of its messages; all
                                                        ///< members of a group must have the same
  StartPosition start = FromLast{};
  GroupMode mode = GroupMode::kClustering;
  std::string allocator{};      ///< id or wire name of an allocator plug-in; empty: AVG built in
  std::size_t threads = 20;     ///< listener threads at most, made as needed; 1 to 1000
  std::size_t batch_max = 1;    ///< messages per listener call; 1 to 1024
  std::size_t pull_batch = 32;  ///< messages per pull; 1 to 1024
  std::size_t cached_max_messages = 1000;  ///< per queue; 1 to 65535
  std::size_t cached_max_mib = 100;        ///< per queue; 1 to 1024
  std::int64_t cached_max_span = 2000;     ///< between first and last cached offset; 1 to 65535
  std::chrono::milliseconds pull_interval{0};
  int max_attempts = 16;  ///< retries before a message goes to the dead letter queue; orderly: -1
                          ///< for endless, and then one bad message stops its queue for good
  std::chrono::milliseconds suspend_delay{1'000};  ///< orderly: a queue pauses so long after
                                                   ///< OrderAck::suspend(); 10 ms to 30 s
  std::chrono::milliseconds consume_timeout{15 * 60 * 1000};  ///< a message that a listener holds
                                                              ///< longer is sent back
  std::chrono::milliseconds offset_interval{5'000};           ///< offsets are committed so often
  std::chrono::milliseconds rebalance_interval{20'000};
  std::chrono::milliseconds pull_error_delay{1'000};
  std::chrono::milliseconds drain_on_close{10'000};  ///< close() waits so long for listeners
  std::string local_offset_dir{};    ///< broadcasting; empty: $HOME/.rocketmq_offsets
  std::vector<ConsumeHook> hooks{};  ///< see every listener call
  QueuesChanged queues_changed{};    ///< told of other queues of a topic, or of this member
};

/// What a listener says about its batch. At-least-once: an offset is committed when all messages
/// before it are done; after a crash everything from the committed offset on comes again.
class Ack {
 public:
  static Ack success() noexcept { return Ack(-1, 0); }
  /// All of the batch again later. 0: after 10 s, 30 s, 1 m … by attempt; n: that delay level.
  static Ack retry(int delay_level = 0) noexcept { return Ack(0, delay_level); }
  /// The first `done` messages are done, the rest comes again later.
  static Ack partial(std::size_t done, int delay_level = 0) noexcept {
    return Ack(static_cast<std::int64_t>(done), delay_level);
  }
  /// All of the batch to the dead letter queue at once.
  static Ack dead_letter() noexcept { return Ack(0, -1); }

  std::size_t done(std::size_t size) const noexcept {
    return done_ < 0 ? size : std::min(size, static_cast<std::size_t>(done_));
  }
  int delay_level() const noexcept { return delay_level_; }

 private:
  Ack(std::int64_t done, int delay_level) noexcept
      : done_(done),
        delay_level_(delay_level) {}
  std::int64_t done_;
  int delay_level_;
};

/// What an orderly listener says about its batch. While it runs, nothing else of that queue does;
/// what comes after the batch is not touched before the batch is settled.
class OrderAck {
 public:
  enum class Kind : std::uint8_t { kSuccess, kSuspend, kHold, kCommit, kRollback };

  /// Done, and everything held before it.
  static OrderAck success() noexcept { return OrderAck(Kind::kSuccess, {}); }
  /// The whole batch again after this pause, before anything else of the queue. Zero:
  /// PushConsumerOptions::suspend_delay. After max_attempts the batch goes to the retry topic, and
  /// from there to the dead letter queue, so that the queue goes on.
  static OrderAck suspend(std::chrono::milliseconds pause = {}) noexcept {
    return OrderAck(Kind::kSuspend, pause);
  }
  /// Processed, but not to be committed before a later commit(): until then a crash or a rollback()
  /// brings it again. Held messages count as cached.
  static OrderAck hold() noexcept { return OrderAck(Kind::kHold, {}); }
  /// Done, and everything held before it.
  static OrderAck commit() noexcept { return OrderAck(Kind::kCommit, {}); }
  /// This batch and everything held before it come again after the pause.
  static OrderAck rollback(std::chrono::milliseconds pause = {}) noexcept {
    return OrderAck(Kind::kRollback, pause);
  }

  Kind kind() const noexcept { return kind_; }
  std::chrono::milliseconds pause() const noexcept { return pause_; }

 private:
  OrderAck(Kind kind, std::chrono::milliseconds pause) noexcept
      : kind_(kind),
        pause_(pause) {}
  Kind kind_;
  std::chrono::milliseconds pause_;
};

template <class F>
concept OrderlyListener = requires(F f, std::span<const MessageView> batch) {
  { f(batch) } -> std::same_as<OrderAck>;
};

template <class F>
concept ConcurrentListener = requires(F f, std::span<const MessageView> batch) {
  { f(batch) } -> std::same_as<Ack>;
};

/// Handle of a running consumer. The destructor stops pulling, waits for running listener calls (not
/// for cached messages), commits and leaves the group; it may be called from a listener. Thread:
/// any.
class TENON_SDK_API PushConsumer {
 public:
  using Listener = std::function<Ack(std::span<const MessageView>)>;
  using InOrder = std::function<OrderAck(std::span<const MessageView>)>;

  /// Joins the group and starts. The listener is called from several threads at once; an exception
  /// it throws means Ack::retry().
  /// @return kInvalidArgument naming the option, kConflict if the group is open in this client (two
  /// members in one process need two Clients), kNotFound if the allocator is not installed
  template <ConcurrentListener F>
  static Result<PushConsumer> concurrent(Client& client,
                                         PushConsumerOptions options,
                                         F&& listener) {
    return open(client, std::move(options), Listener(std::forward<F>(listener)));
  }

  /// Messages of one queue are delivered in their order, by one call at a time; different queues in
  /// parallel. A queue is locked at its broker, so that its order holds across members too. The
  /// listener is called from several threads; an exception it throws means OrderAck::suspend().
  /// Attempts are counted in memory: a restart counts anew.
  /// @return as concurrent()
  template <OrderlyListener F>
  static Result<PushConsumer> orderly(Client& client, PushConsumerOptions options, F&& listener) {
    return open(client, std::move(options), InOrder(std::forward<F>(listener)));
  }

  PushConsumer(PushConsumer&&) noexcept;
  PushConsumer& operator=(PushConsumer&&) noexcept;
  ~PushConsumer();

  void pause();  ///< no more pulls; cached messages are still delivered
  void resume();
  std::vector<Queue> owned() const;  ///< queues this member consumes now

  /// Adds a topic or replaces what is wanted of it, while running. All members of a group must do
  /// the same. Blocks until the brokers know. Not on an I/O thread.
  /// @return kInvalidArgument for the topic or the expression, kRefused if a broker does not
  /// understand a SQL text
  Result<void> subscribe(std::string_view topic, Subscription subscription = {});
  /// Gives the queues of the topic up; their progress is committed. Not on an I/O thread.
  /// @return kNotFound if it is not subscribed
  Result<void> unsubscribe(std::string_view topic);

  /// Stops pulling, waits for listeners and cached messages up to drain_on_close, commits, leaves
  /// the group. @return kTimeout if messages were left
  Result<void> close();

 private:
  static Result<PushConsumer> open(Client& client, PushConsumerOptions options, Listener listener);
  static Result<PushConsumer> open(Client& client, PushConsumerOptions options, InOrder listener);
  static Result<PushConsumer> started(Client& client,
                                      Result<std::shared_ptr<detail::ConsumerCore>> core);
  PushConsumer(std::shared_ptr<detail::ConsumerCore> core,
               std::shared_ptr<detail::ClientCore> client) noexcept;
  std::shared_ptr<detail::ClientCore> client_;
  std::shared_ptr<detail::ConsumerCore> core_;
};

}  // namespace tenon::sdk
