// The running producer behind tenon::Producer (spec: client §4).
#pragma once

#include "client_core.h"
#include "latency_faults.h"
#include "send_op.h"

#include "tenon/net/rpc_client.h"
#include "tenon/sdk/producer.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon::sdk::detail {

class Tracer;

/// A message that is in wire form already: what a consumer could not send back.
struct RawMessage {
  std::string topic{};
  std::string body{};
  std::string properties{};
  std::string id{};
  std::int32_t sys_flag = 0;
  std::int32_t flag = 0;
  std::int32_t reconsume_times = 0;
  std::int32_t max_reconsume_times = -1;
};

/// Thread: any. The owner calls stop() before the ClientCore goes away; after stop() nothing but
/// late answers touches this object.
class ProducerCore final : public std::enable_shared_from_this<ProducerCore> {
 public:
  using Callback = Producer::Callback;
  static Result<std::shared_ptr<ProducerCore>> create(ClientCore& client, ProducerOptions options);

  const std::string& group() const noexcept { return options_.group; }
  const ProducerOptions& options() const noexcept { return options_; }

  void start(Message message,
             Callback done,
             const SendOptions& how,
             SendForm form,
             const SendExtras* extras = nullptr);
  Result<Receipt> send(Message message, const SendOptions& how, const SendExtras* extras = nullptr);
  Result<void> send_oneway(Message message, const SendOptions& how);
  Result<std::vector<Receipt>> send_batch(std::span<Message> messages,
                                          const SendOptions& how,
                                          std::vector<Receipt>* sent);
  Result<Receipt> send_raw(RawMessage message);
  Result<std::string> recall(std::string_view topic, std::string_view handle);

  // request_reply.cpp
  void start_request(Message message, Producer::ReplyCallback done, const SendOptions& how);
  Result<MessageView> request(Message message, const SendOptions& how);
  Result<Receipt> reply(const MessageView& request, Message answer, const SendOptions& how);
  /// @return false if nobody here waits for it
  bool on_reply(std::string_view correlation_id, const MessageView& reply);

  Result<std::vector<Queue>> queues(std::string_view topic);

  void on_route(const TopicInfoPtr& info);
  void collect_topics(std::set<std::string>& out) const;

  /// Fails what is in flight with kCancelled and waits for running callbacks, except for those that
  /// the caller is inside of. Idempotent.
  void stop();
  /// Waits until nothing is in flight. False if the time was over first.
  bool drain(std::chrono::milliseconds limit);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const noexcept {
      return std::hash<std::string_view>()(s);
    }
  };
  ProducerCore(ClientCore& client, ProducerOptions options);

  TopicSlotPtr find_slot(std::string_view topic) const;
  TopicSlotPtr make_slot(const TopicInfoPtr& info);
  SendOp* begin(SendForm form,
                std::string_view topic,
                Callback done,
                std::chrono::milliseconds timeout,
                std::size_t body_bytes);
  Result<void> check_room(std::size_t body_bytes) const;
  Result<void> check_options(const Message& m, const SendOptions& how) const;
  Result<std::string> wire_topic(std::string_view topic) const;
  Result<void> fill(SendOp& op, Message&& message);
  void launch(SendOp* op);
  bool choose_queue(SendOp& op);
  bool choose_fixed(SendOp& op);
  void choose_by_callable(SendOp* op);
  void attempt(SendOp* op);
  int attempts_max(const SendOp& op) const noexcept;
  bool may_switch(const SendOp& op, std::int64_t remaining) const noexcept;
  void write_oneway(SendOp* op, const std::string& address);
  bool let_go(SendOp* op, Callback& done);
  void leave_broker(SendOp* op);
  void on_oneway(SendOp* op, tenon::Result<net::RpcAnswer> written);
  void resolve(SendOp* op);
  void refresh_then_attempt(SendOp* op);
  void on_answer(SendOp* op, tenon::Result<net::RpcAnswer> answer);
  void on_response(SendOp* op, const proto::CommandView& response);
  void on_failure(SendOp* op, Error error);
  void report(const SendOp& op, std::uint32_t outcome);

  // send_hooks.cpp
  Result<void> check_hooks(const Message& message) const;
  SendAttempt seen_attempt(const SendOp& op) const;
  void see_begin(SendOp& op);
  void see_end(SendOp& op, const Result<Receipt>& result, bool traced);

  Receipt make_receipt(const SendOp& op, const proto::CommandView& response) const;
  std::int64_t remaining_ms(const SendOp& op) const noexcept;
  const std::string& broker_name(const SendOp& op) const noexcept;
  /// As the program calls it.
  static const std::string& shown_topic(const SendOp& op) noexcept {
    return op.shown_topic.empty() ? op.topic : op.shown_topic;
  }

  void complete(SendOp* op, Result<Receipt> result);
  void release(SendOp* op);
  void run_callback(Callback done, Result<Receipt> result);
  struct PendingRequest;
  void send_request(const std::shared_ptr<PendingRequest>& request);
  void announce_then_send(const std::shared_ptr<PendingRequest>& request);
  void end_request(const std::string& id, Result<MessageView> result);
  void cancel_requests();
  Result<std::string> encode_chunk(std::span<Message> messages,
                                   std::size_t& taken,
                                   std::string& ids);

  ClientCore& client_;
  const NameSpace& names_;  ///< of producers of the SDK itself an empty one
  const ProducerOptions options_;
  const std::string shown_group_;  ///< as the program calls it
  const std::size_t lane_;
  Tracer* const tracer_;  ///< null: not traced
  std::shared_ptr<SelectorPlugin> selector_;
  std::atomic<std::uint64_t> generation_{0};
  mutable std::shared_mutex slots_mutex_;
  std::unordered_map<std::string, TopicSlotPtr, Hash, std::equal_to<>> slots_;
  std::unique_ptr<LatencyFaults> faults_;
  std::mutex requests_mutex_;
  std::map<std::string, std::shared_ptr<PendingRequest>, std::less<>> requests_;
  std::set<std::string, std::less<>> announced_;  ///< topics whose brokers know this producer
  SendOpPool pool_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint64_t> route_asked_ns_{0};  ///< by leave_broker()
  std::atomic<std::size_t> in_flight_{0};
  std::atomic<std::size_t> bytes_in_flight_{0};
  std::atomic<int> running_{0};
};

}  // namespace tenon::sdk::detail
