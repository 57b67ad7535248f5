// Sends messages: blocking, with a callback, in a coroutine, or without waiting at all.
#pragma once

#include "tenon/sdk/client.h"
#include "tenon/sdk/function.h"
#include "tenon/sdk/hooks.h"
#include "tenon/sdk/message.h"
#include "tenon/sdk/result.h"
#include "tenon/sdk/task.h"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tenon::sdk {

namespace detail {
class ProducerCore;
}

enum class Compression : std::uint8_t { kNone, kZlib, kLz4, kZstd };

/// Whether sending avoids brokers that were slow or failed, and for how long.
enum class FaultTolerance : std::uint8_t {
  kOff,      ///< only a retry avoids the broker that has just failed
  kClassic,  ///< RocketMQ 4.9: 30 s after 550 ms, up to 10 min after a failure
  kQuick     ///< RocketMQ 5: 2 s after 550 ms, 10 s after a failure
};

struct ProducerOptions {
  std::string group{};  ///< 1 to 255 characters as of a topic; empty: "tenon_producer"
  std::chrono::milliseconds send_timeout{3'000};  ///< whole budget of one send, retries included
  int retries = 2;                                ///< further attempts of blocking sends
  int retries_async = 2;                          ///< further attempts of the other forms
  bool retry_not_stored_ok = false;  ///< try another broker when the status is not kOk; duplicates
  bool retry_busy = false;           ///< treat SYSTEM_BUSY(2) like the other codes that are retried
  std::size_t max_body_bytes = 4u * 1024 * 1024;
  std::size_t compress_from_bytes = 4096;  ///< bodies of this size and above are compressed
  Compression compression = Compression::kZlib;
  int compression_level = 5;
  std::string create_topic_key = "TBW102";  ///< a topic without route is created like this one
  int default_topic_queues = 4;             ///< queues per broker of a topic created by sending
  FaultTolerance fault_tolerance = FaultTolerance::kOff;  ///< not together with a selector
  std::string selector{};         ///< id of a queue selector plug-in; empty: round robin built in
  std::vector<SendHook> hooks{};  ///< see every attempt of every send
  /// Sends with a callback or coroutine end at once with kBusy while so many, or bodies of so many
  /// bytes, wait for their answers; the program goes on when one of them has ended. A message alone
  /// always fits. Several threads may pass a limit by one message each.
  std::size_t in_flight_max = 65'535;
  std::size_t in_flight_max_bytes = 100u * 1024 * 1024;
};

/// Chooses a queue: gets the writable queues in the order all clients see (broker, then id) and
/// returns an index into them. Called on the sending thread. A negative or too large index fails the
/// send.
using Selector = std::function<int(std::span<const Queue> queues, const Message& message)>;

/// Index that Java's SelectMessageQueueByHash gives for a string argument, for keeping order
/// together with Java producers. Thread: any.
TENON_SDK_API int hash_queue(std::string_view key, std::size_t queue_count) noexcept;

/// Options of one send. Pointers need to be valid only until the call returned.
struct SendOptions {
  std::chrono::milliseconds timeout{0};  ///< 0: ProducerOptions::send_timeout
  const Queue* queue = nullptr;          ///< exactly this queue, one attempt
  const Selector* select = nullptr;      ///< this choice, one attempt
  std::string_view sharding_key{};       ///< all messages with one key go to one queue, in the
                                         ///< order of sending: hash_queue(key), one attempt. A
                                         ///< selector plug-in gets the key and decides instead
};
static_assert(std::is_trivially_destructible_v<SendOptions>,
              "options of awaitable functions: g++ 12 destroys other temporaries twice");

/// Handle of a started producer. The destructor fails what is in flight with kCancelled and returns
/// when no callback is running any more; close() waits for it instead. Thread: any.
class TENON_SDK_API Producer {
 public:
  using Callback = Function<void(Result<Receipt>)>;
  using ReplyCallback = Function<void(Result<MessageView>)>;

  /// @return kInvalidArgument naming the option, kConflict if the group is open in this client,
  /// kNotFound if the selector plug-in is not installed
  static Result<Producer> open(Client& client, ProducerOptions options = {});

  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;
  ~Producer();

  /// Blocks until the broker has answered or the time is over. Not on an I/O thread (in a callback).
  Result<Receipt> send(Message message, SendOptions options = {});

  /// `done` is called exactly once: on an I/O thread or the executor, or at once on this thread if
  /// the message is refused here. It may send the next message; it must not block on an I/O thread.
  template <std::invocable<Result<Receipt>> F>
  void async_send(Message message, F&& done, SendOptions options = {}) {
    start(std::move(message), Callback(std::forward<F>(done)), options);
  }

  /// For `co_await`, or .get(). The message must be a named object, moved in:
  /// `co_await producer.async_send(std::move(m))`. (g++ 12 destroys braced temporaries twice inside
  /// a co_await expression, hence the template that does not take braces.)
  template <std::same_as<Message> M>
  Task<Result<Receipt>> async_send(M&& message, SendOptions options = {}) {
    auto state = std::make_shared<detail::TaskState<Result<Receipt>>>();
    start(
        std::move(message), [state](Result<Receipt> r) { state->complete(std::move(r)); }, options);
    return Task<Result<Receipt>>(std::move(state));
  }

  /// Returns when the message is queued for writing, also where that waits for a connection: nobody
  /// says whether it arrives.
  Result<void> send_oneway(Message message, SendOptions options = {});

  /// All of one topic, no delay. Splits what is too large for one request; one receipt per chunk. On
  /// an error the chunks before it are stored: `sent` tells them.
  Result<std::vector<Receipt>> send_batch(std::span<Message> messages,
                                          SendOptions options = {},
                                          std::vector<Receipt>* sent = nullptr);

  /// Sends a message and waits for the answer of whoever consumes it (reply()). The time-out is for
  /// both ways. Blocks; not on an I/O thread.
  /// @return kRequestTimeout if it was sent and nobody replied in time
  Result<MessageView> request(Message message, SendOptions options = {});
  /// `done` is called exactly once, as that of async_send().
  template <std::invocable<Result<MessageView>> F>
  void async_request(Message message, F&& done, SendOptions options = {}) {
    start_request(std::move(message), ReplyCallback(std::forward<F>(done)), options);
  }
  /// For `co_await`, or .get(); the message is a named object, moved in.
  template <std::same_as<Message> M>
  Task<Result<MessageView>> async_request(M&& message, SendOptions options = {}) {
    auto state = std::make_shared<detail::TaskState<Result<MessageView>>>();
    start_request(
        std::move(message),
        [state](Result<MessageView> r) { state->complete(std::move(r)); },
        options);
    return Task<Result<MessageView>>(std::move(state));
  }
  /// Answers a request that a consumer received; blocks, as in a listener. Topic and addressee come
  /// from the request.
  /// @return kCreateReply if the message is no request
  Result<Receipt> reply(const MessageView& request, Message answer, SendOptions options = {});

  /// Takes back a message delayed to any time (Message::delay, deliver_at) that is not delivered
  /// yet. Blocks. @return the id of the message; kInvalidArgument for a handle that is none
  Result<std::string> recall(std::string_view topic, std::string_view recall_handle);

  /// Writable queues of a topic, for choosing one.
  Result<std::vector<Queue>> queues(std::string_view topic);

  /// Waits until nothing is in flight, at most so long, then closes.
  /// @return kTimeout if something had to be cancelled
  Result<void> close(std::chrono::milliseconds deadline);

 private:
  Producer(std::shared_ptr<detail::ProducerCore> core,
           std::shared_ptr<detail::ClientCore> client) noexcept;
  void start(Message message, Callback done, const SendOptions& options);
  void start_request(Message message, ReplyCallback done, const SendOptions& options);
  std::shared_ptr<detail::ClientCore> client_;
  std::shared_ptr<detail::ProducerCore> core_;
};

}  // namespace tenon::sdk
