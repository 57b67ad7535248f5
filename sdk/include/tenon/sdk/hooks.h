// Functions of the program that see what producers and consumers do: for metrics, audits, rules of
// one's own. What they throw is logged and changes nothing, unless said otherwise.
#pragma once

#include "tenon/sdk/message.h"
#include "tenon/sdk/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tenon::sdk {

enum class SendKind : std::uint8_t { kNormal, kHalf, kDelayed };

/// One attempt of a send. Everything is valid during the call only.
struct SendAttempt {
  std::string_view group{};
  std::string_view topic{};
  std::string_view id{};    ///< as Receipt::id; batch: all ids, joined by commas
  std::string_view tag{};   ///< empty: none; batch: none
  std::string_view keys{};  ///< joined by one blank; batch: none
  std::string_view body{};  ///< as it is sent: maybe compressed; batch: all of it
  std::string_view broker{};
  std::string_view address{};  ///< of the broker, "host:port"
  int queue_id = 0;
  int number = 1;  ///< of the attempt, counted from 1
  bool oneway = false;
  SendKind kind = SendKind::kNormal;
  std::chrono::milliseconds cost{0};  ///< in `after`: since this attempt began
};

/// Hooks of a producer, called in the order of ProducerOptions::hooks. `check` and the first
/// `before` run on the sending thread, everything else there or on an I/O thread: they must be quick
/// and must not block.
struct SendHook {
  /// Before anything is sent. An error refuses the message: the send fails with it. So does an
  /// exception (kInvalidArgument).
  std::function<Result<void>(const Message&)> check{};
  std::function<void(const SendAttempt&)> before{};
  /// What came of the attempt; a retry may follow an error. One-way: that it was written. Not called
  /// for an attempt that was in flight when the producer was closed.
  std::function<void(const SendAttempt&, const Result<Receipt>&)> after{};
};

/// One listener call; of a pull consumer, one poll.
struct ConsumeCall {
  std::string_view group{};
  const Queue& queue;  ///< of a retry the queue of the retry topic
  std::span<const MessageView> messages{};
};

enum class ConsumeOutcome : std::uint8_t {
  kSuccess,    ///< something is done: see `done`
  kTimeout,    ///< the listener took longer than PushConsumerOptions::consume_timeout
  kException,  ///< the listener threw
  kFailed      ///< all of it comes again
};

struct ConsumeResult {
  ConsumeOutcome outcome = ConsumeOutcome::kSuccess;
  std::size_t done = 0;  ///< so many of the messages, from the first on; the others come again
  std::chrono::milliseconds cost{0};
};

/// Hooks of a consumer, called in the order of its `hooks`.
struct ConsumeHook {
  /// False: the listener does not get the message, it counts as done. Called on an I/O thread: must
  /// be quick. An exception means true.
  std::function<bool(const MessageView&)> wants{};
  /// On the listener's thread, or that of poll().
  std::function<void(const ConsumeCall&)> before{};
  std::function<void(const ConsumeCall&, const ConsumeResult&)> after{};
};

struct RpcField {
  std::string_view name{};
  std::string_view value{};
};

/// A request to a name server or broker, as it is written. Everything is valid during the call only.
struct RpcRequest {
  std::string_view address{};  ///< "host:port"
  int code = 0;                ///< RocketMQ's request code: 310 a send, 11 a pull, 105 a route …
  bool oneway = false;
  std::span<const RpcField> fields{};  ///< of the header, without the signature
  std::string_view body{};
  TENON_SDK_API std::optional<std::string_view> field(std::string_view name) const noexcept;
};

struct RpcResponse {
  int code = 0;  ///< 0 success
  std::string_view remark{};
  std::span<const RpcField> fields{};
  std::string_view body{};
  TENON_SDK_API std::optional<std::string_view> field(std::string_view name) const noexcept;
};

/// Hooks of a client, called in the order of ClientOptions::rpc_hooks for every request, whatever
/// it is for: tokens for a gateway, tracing of calls, counting. They run in the middle of sends and
/// pulls: they must be quick and must not block nor use the client.
struct RpcHook {
  /// On the thread that sends, which may be one of the client. What is put into `add` becomes fields
  /// of the header and is signed with the rest; a name that the request has already is left alone.
  std::function<void(const RpcRequest&, std::map<std::string, std::string>& add)> before{};
  /// On an I/O thread: the answer, whatever its code, or why there is none. Not for one-way requests.
  std::function<void(const RpcRequest&, const Result<RpcResponse>&, std::chrono::milliseconds cost)>
      after{};
};

/// Told when the queues of a topic are others than before, or those that this member consumes.
/// @param all   of the topic, in the order all members use
/// @param mine  of them those that this member owns now
/// Runs on a thread of the client: must be quick, must not block nor destroy the consumer.
using QueuesChanged = std::function<void(
    std::string_view topic, std::span<const Queue> all, std::span<const Queue> mine)>;

}  // namespace tenon::sdk
