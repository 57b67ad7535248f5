// Sends messages that become visible only if a local transaction commits.
#pragma once

#include "tenon/sdk/client.h"
#include "tenon/sdk/function.h"
#include "tenon/sdk/message.h"
#include "tenon/sdk/producer.h"
#include "tenon/sdk/result.h"
#include "tenon/sdk/task.h"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tenon::sdk {

namespace detail {
class TransactionCore;
}

/// What became of the local transaction.
enum class TxState : std::uint8_t {
  kUnknown,  ///< not decided yet: the broker asks later
  kCommit,   ///< consumers get the message
  kRollback  ///< nobody gets it
};

struct TransactionReceipt {
  Receipt send{};                     ///< of the half message
  TxState local = TxState::kUnknown;  ///< what was told to the broker
};

/// `execute` runs the local transaction after the half message was stored. `check` says later what
/// became of one, when the broker did not hear of the end: maybe of a message of another member of
/// the group, or of this one before it was started again, so the state has to be looked up where all
/// of them find it. Both may be called at the same time; an exception means kUnknown. Ending is
/// not acknowledged, so a check may come even after a commit.
template <class L>
concept TransactionListener =
    requires(L& l, const Message& message, const Receipt& half, const MessageView& stored) {
  { l.execute(message, half) } -> std::same_as<TxState>;
  { l.check(stored) } -> std::same_as<TxState>;
};

/// What a broker is told at the end of a transaction, or when it asks. Valid during the call only.
struct TransactionEnd {
  std::string_view group{};
  std::string_view topic{};
  std::string_view id{};  ///< of the message
  std::string_view transaction_id{};
  std::string_view tag{};
  std::string_view keys{};  ///< joined by one blank
  std::string_view broker{};
  TxState state = TxState::kUnknown;
  bool from_check = false;
};

struct TransactionOptions {
  ProducerOptions
      producer{};           ///< its group is asked by brokers: all members must be able to answer
  std::size_t threads = 1;  ///< for check(), and for execute() of sends that do not block; 1 to 64
  std::size_t waiting_max = 2'000;            ///< further checks are dropped, the broker asks again
  std::chrono::seconds first_check_after{0};  ///< 0: as the broker is configured
  /// Before the broker is told; on the thread of execute() or check(). Must not block.
  std::function<void(const TransactionEnd&)> on_end{};
};

/// Handle of a started producer of transactional messages. The destructor waits for running
/// execute() and check() calls. Thread: any.
class TENON_SDK_API TransactionProducer {
 public:
  using Callback = Function<void(Result<TransactionReceipt>)>;

  /// @return as Producer::open()
  template <TransactionListener L>
  static Result<TransactionProducer> open(Client& client, TransactionOptions options, L listener) {
    auto shared = std::make_shared<L>(std::move(listener));
    return start(
        client,
        std::move(options),
        [shared](const Message& m, const Receipt& half) { return shared->execute(m, half); },
        [shared](const MessageView& m) { return shared->check(m); });
  }

  TransactionProducer(TransactionProducer&&) noexcept;
  TransactionProducer& operator=(TransactionProducer&&) noexcept;
  ~TransactionProducer();

  /// Stores the half message, runs execute() on this thread, tells the broker. A message that is
  /// stored less safely than promised (Receipt::durable() is false) is rolled back without
  /// execute(). Blocks; not on an I/O thread. Messages must not be delayed.
  Result<TransactionReceipt> send(Message message, SendOptions options = {});

  /// execute() runs on a thread of this producer, and `done` after it on the same.
  template <std::invocable<Result<TransactionReceipt>> F>
  void async_send(Message message, F&& done, SendOptions options = {}) {
    begin(std::move(message), Callback(std::forward<F>(done)), options);
  }
  /// For `co_await`, or .get(); the message is a named object, moved in.
  template <std::same_as<Message> M>
  Task<Result<TransactionReceipt>> async_send(M&& message, SendOptions options = {}) {
    auto state = std::make_shared<detail::TaskState<Result<TransactionReceipt>>>();
    begin(
        std::move(message),
        [state](Result<TransactionReceipt> r) { state->complete(std::move(r)); },
        options);
    return Task<Result<TransactionReceipt>>(std::move(state));
  }

 private:
  static Result<TransactionProducer> start(
      Client& client,
      TransactionOptions options,
      std::function<TxState(const Message&, const Receipt&)> execute,
      std::function<TxState(const MessageView&)> check);
  TransactionProducer(std::shared_ptr<detail::TransactionCore> core,
                      std::shared_ptr<detail::ClientCore> client) noexcept;
  void begin(Message message, Callback done, const SendOptions& options);
  std::shared_ptr<detail::ClientCore> client_;
  std::shared_ptr<detail::TransactionCore> core_;
};

}  // namespace tenon::sdk
