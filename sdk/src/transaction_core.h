// The running producer behind tenon::TransactionProducer (spec: client §4.13).
#pragma once

#include "listener_pool.h"
#include "producer_core.h"

#include "tenon/proto/command.h"
#include "tenon/sdk/transaction.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace tenon::sdk::detail {

class TraceLog;

/// Thread: any. The owner calls stop() before the ClientCore goes away.
class TransactionCore final : public std::enable_shared_from_this<TransactionCore> {
 public:
  using Execute = std::function<TxState(const Message&, const Receipt&)>;
  using CheckListener = std::function<TxState(const MessageView&)>;
  /// A broker's question.
  struct Check {
    MessageView message{};
    std::int64_t table_offset = 0;
    std::int64_t log_offset = 0;
    std::string transaction_id{};
    std::string message_id{};
  };

  static Result<std::shared_ptr<TransactionCore>> create(ClientCore& client,
                                                         TransactionOptions options,
                                                         Execute execute,
                                                         CheckListener check);
  const std::string& group() const noexcept { return producer_->group(); }
  const std::shared_ptr<ProducerCore>& producer() const noexcept { return producer_; }

  Result<TransactionReceipt> send(Message message, const SendOptions& how);
  void start(Message message, TransactionProducer::Callback done, const SendOptions& how);
  /// @param answer  sends the END_TRANSACTION to the broker that asked
  void on_check(Check check, std::function<void(proto::Command)> answer);
  void stop();

 private:
  TransactionCore(ClientCore& client,
                  TransactionOptions options,
                  Execute execute,
                  CheckListener check);
  Result<void> check_sendable_half(const Message& message) const;
  SendExtras extras() const;
  TransactionReceipt finish(const Message& message, Receipt half);
  void end(const Message& message, const Receipt& half, TxState state, const std::string& remark);
  std::shared_ptr<TraceLog> trace_log() const;
  void see(const TransactionEnd& end,
           TraceLog* log,
           std::string_view address,
           std::string_view region) const;
  proto::Command end_request(TxState state) const;
  void make_known(const std::string& topic);

  ClientCore& client_;
  const TransactionOptions options_;
  const Execute execute_;
  const CheckListener check_;
  std::shared_ptr<ProducerCore> producer_;
  std::string shown_group_;  ///< as the program calls it
  std::shared_ptr<ListenerPool> pool_;
  std::atomic<std::size_t> waiting_{0};
  std::mutex mutex_;
  std::set<std::string> known_topics_;
};

}  // namespace tenon::sdk::detail
