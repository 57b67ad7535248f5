// Message trace: records of what producers and consumers did, in the form of RocketMQ's trace topic
// (spec: client §4.16).
#pragma once

#include "tenon/base/clock.h"
#include "tenon/sdk/hooks.h"
#include "tenon/sdk/transaction.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::sdk::detail {

class ClientCore;
class ProducerCore;

/// The records of a client. They are kept in memory for half a second at most, then sent together by a
/// producer of its own; what does not fit is dropped: nobody waits for the trace. Thread: any.
class TraceLog final : public std::enable_shared_from_this<TraceLog> {
 public:
  static constexpr std::size_t kRecordsMax = 2'048;
  static constexpr std::size_t kTextMax = 118'000;  ///< characters of one trace message
  static constexpr std::chrono::milliseconds kPeriod{500};
  static constexpr std::string_view kGroup = "_INNER_TRACE_PRODUCER";

  TraceLog(ClientCore& client, std::string topic);

  /// Trap: a trace of the trace would never end (client §4.16).
  bool traces(std::string_view topic) const noexcept { return !topic.starts_with(topic_); }
  std::string new_id();  ///< only while the client lives, unlike consumed()

  void sent(std::int64_t begin_ms, const SendAttempt& attempt, const Receipt& receipt);
  void recalled(std::string_view group,
                std::string_view topic,
                std::string_view id,
                bool success,
                std::string_view region);
  void ended(const TransactionEnd& end, std::string_view address, std::string_view region);
  /// @param request  ties the records before and after one call together
  void consuming(std::string_view request, std::string_view group, std::span<const MessageView>);
  void consumed(std::string_view request, const ConsumeCall& call, const ConsumeResult& result);

  /// Sends what there is. Does not block.
  void flush();
  /// Sends the last and waits at most so long for the answers. Nothing is recorded any more.
  void close(std::chrono::milliseconds limit);
  std::uint64_t dropped() const noexcept { return dropped_.load(); }

 private:
  void add(std::string record, std::string_view id, std::string_view keys);
  bool put(const std::string& record,
           std::string_view id,
           std::string_view keys,
           std::size_t keys_bytes);

  ClientCore& client_;
  const Clock& clock_;
  const std::string topic_;
  std::shared_ptr<ProducerCore> producer_;
  std::mutex mutex_;
  std::string text_{};
  std::set<std::string> keys_{};
  std::size_t keys_bytes_ = 0;
  std::size_t records_ = 0;
  std::atomic<std::size_t> in_flight_{0};
  std::atomic<std::uint64_t> dropped_{0};
};

/// One per client. A listener call may outlive the client, when the listener destroys it: whoever
/// writes a record at its end holds the log.
class Tracer {
 public:
  Tracer(ClientCore& client, std::string topic)
      : log(std::make_shared<TraceLog>(client, std::move(topic))) {}
  ~Tracer() { log->close(std::chrono::milliseconds(0)); }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  const std::shared_ptr<TraceLog> log;
};

/// Parts of a record, separated as the trace topic wants it; nothing is written as "null".
std::string trace_record(std::initializer_list<std::string_view> fields);

}  // namespace tenon::sdk::detail
