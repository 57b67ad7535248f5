// Receives messages when the program asks for them.
#pragma once

#include "tenon/sdk/client.h"
#include "tenon/sdk/hooks.h"
#include "tenon/sdk/message.h"
#include "tenon/sdk/push_consumer.h"
#include "tenon/sdk/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::sdk {

struct PullConsumerOptions {
  std::string group{};                                  ///< 1 to 255 characters as of a topic
  std::map<std::string, Subscription> subscriptions{};  ///< shared among the members of the group;
                                                        ///< empty: queues are given by assign()
  StartPosition start = FromLast{};
  GroupMode mode = GroupMode::kClustering;
  std::string allocator{};                 ///< id or wire name of a plug-in; empty: AVG built in
  std::size_t poll_max = 32;               ///< messages per poll(); 1 to 1024
  std::size_t pull_batch = 32;             ///< messages per request to a broker; 1 to 1024
  std::size_t cached_max_messages = 1000;  ///< fetched ahead, per queue; 1 to 65535
  std::size_t cached_max_mib = 100;        ///< fetched ahead, per queue; 1 to 1024
  bool auto_commit = false;  ///< poll() commits what earlier polls returned, and so does close().
                             ///< Only for programs that have processed a batch when they poll again
  std::chrono::milliseconds commit_interval{5'000};  ///< of auto_commit
  std::chrono::milliseconds rebalance_interval{20'000};
  std::chrono::milliseconds pull_error_delay{1'000};
  std::string local_offset_dir{};    ///< broadcasting; empty: $HOME/.rocketmq_offsets
  std::vector<ConsumeHook> hooks{};  ///< see every poll() that returns something
  QueuesChanged queues_changed{};    ///< told of other queues of a topic, or of this member
};

/// Outcome of one request for messages.
struct PullResult {
  enum class Status : std::uint8_t {
    kFound,
    kNothingNew,     ///< the offset is the end of the queue
    kNothingWanted,  ///< there were messages, but none of the wanted ones
    kOffsetIllegal   ///< next_offset is the nearest legal one
  };
  Status status = Status::kNothingNew;
  std::vector<MessageView> messages{};
  std::int64_t next_offset = 0;
  std::int64_t min_offset = 0;
  std::int64_t max_offset = 0;
};

/// Handle of a running consumer. Messages are fetched ahead; poll() returns them in the order of
/// their queue. At-least-once: what was not committed comes again after a restart, or at another
/// member. The destructor commits nothing that commit() or auto_commit has not. Thread: any; one
/// thread polls at a time.
class TENON_SDK_API PullConsumer {
 public:
  /// @return as PushConsumer::concurrent()
  static Result<PullConsumer> open(Client& client, PullConsumerOptions options);

  PullConsumer(PullConsumer&&) noexcept;
  PullConsumer& operator=(PullConsumer&&) noexcept;
  ~PullConsumer();

  /// Messages of one queue, at most poll_max. Blocks until there are some. Empty when the time is
  /// over or a stop was requested. Not on an I/O thread.
  std::vector<MessageView> poll(std::chrono::milliseconds timeout, std::stop_token stop = {});
  /// Everything that poll() has returned so far is done. Blocks until the brokers know it.
  Result<void> commit();
  /// Everything before the offset is done. @return kNotFound if the queue is not owned
  Result<void> commit(const Queue& queue, std::int64_t offset);

  /// Consumes exactly these queues from now on, whatever other members do, and of them what is
  /// wanted. Blocks until they are taken over. @return kConflict if there are subscriptions; kTimeout
  /// if a broker does not answer, it is then tried again
  Result<void> assign(std::span<const Queue> queues, const Subscription& wanted = {});
  /// Adds a topic that is shared among the members, or replaces what is wanted of it. Blocks.
  /// @return as PushConsumer::subscribe(); kConflict after assign()
  Result<void> subscribe(std::string_view topic, const Subscription& subscription = {});
  /// Gives the queues of the topic up. Blocks. @return kNotFound if it is not subscribed
  Result<void> unsubscribe(std::string_view topic);
  std::vector<Queue> owned() const;
  /// Readable queues of a topic.
  Result<std::vector<Queue>> queues(std::string_view topic);

  /// The next poll() of an owned queue continues here; what was fetched ahead is dropped. Blocks.
  /// @return kNotFound if the queue is not owned, kInvalidArgument if the offset does not exist
  Result<void> seek(const Queue& queue, std::int64_t offset);
  Result<void> seek_to_begin(const Queue& queue);
  Result<void> seek_to_end(const Queue& queue);
  /// To the first message stored at or after this; brokers up to 4.9 name the nearest instead, which
  /// may be the one before.
  Result<void> seek_to_time(const Queue& queue, std::chrono::system_clock::time_point when);
  /// Where seek_to_time() goes, for any queue. Blocks.
  Result<std::int64_t> offset_at(const Queue& queue, std::chrono::system_clock::time_point when);
  /// Offset behind the last polled message; kNotFound if nothing was polled.
  Result<std::int64_t> position(const Queue& queue) const;
  /// As the broker (broadcasting: the file) has it; kNotFound if there is none. Blocks.
  Result<std::int64_t> committed(const Queue& queue);

  /// Stops fetching; what is fetched already is still returned by poll().
  void pause(std::span<const Queue> queues);
  void resume(std::span<const Queue> queues);

  /// One request to the broker of any queue, past everything above: no cache, no offsets of this
  /// consumer. Blocks. @param wait  how long the broker may wait for messages; up to 30 s
  Result<PullResult> pull(const Queue& queue,
                          std::int64_t offset,
                          std::size_t max = 32,
                          std::chrono::milliseconds wait = {},
                          const Subscription& wanted = {});

  /// Commits with auto_commit, leaves the group. @return kTimeout if a broker has not confirmed
  Result<void> close();

 private:
  PullConsumer(std::shared_ptr<detail::ConsumerCore> core,
               std::shared_ptr<detail::ClientCore> client) noexcept;
  std::shared_ptr<detail::ClientCore> client_;
  std::shared_ptr<detail::ConsumerCore> core_;
};

}  // namespace tenon::sdk
