// A broker with the stock transaction check and a clock that moves when told, and what a producer of
// transactions says.
#pragma once

#include "broker_harness.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker::test {

inline constexpr std::string_view kHalfTopicName = "RMQ_SYS_TRANS_HALF_TOPIC";
inline constexpr std::string_view kOpTopicName = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
inline constexpr std::int32_t kCommitState = 8;
inline constexpr std::int32_t kRollbackState = 12;

ConfigNode text_node(std::string_view text);
ConfigNode number_node(std::int64_t number);

struct TxnBrokerSpec {
  ConfigNode check{};  ///< options of the plug-in
  std::string plugin = "tenon.txn.default";
  std::string store_name = "broker-t";
  std::int64_t op_batch_ms = 0;
  std::uint32_t op_batch_bytes = 4096;
  bool reject = false;
  bool commit_exhausted = false;
};

class TxnBroker {
 public:
  explicit TxnBroker(TxnBrokerSpec spec = {},
                     std::shared_ptr<TempFolder> folder = std::make_shared<TempFolder>());

  std::uint16_t port() const { return broker_->port(); }
  ManualClock& clock() { return *clock_; }
  const std::shared_ptr<TempFolder>& folder() const { return folder_; }
  void stop() { broker_.reset(); }
  /// Stops and starts on the same folder, with the same clock.
  void restart();
  /// A broker on a copy of the folder as it is now: what a SIGKILL leaves behind.
  std::unique_ptr<TxnBroker> after_sigkill() const;
  TxnBrokerSpec spec{};

 private:
  void start();
  std::shared_ptr<TempFolder> folder_;
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  ConfigNode options_;
  std::unique_ptr<host::PluginRegistry> registry_;
  std::unique_ptr<Broker> broker_;
};

struct SentHalf {
  std::int64_t queue_offset = 0;
  std::int64_t phys = 0;
};
struct HalfSpec {
  std::string topic = "T";
  std::int32_t queue_id = 1;
  std::string body = "half";
  std::string group = "PG";
  std::string more{};  ///< further properties, NAME\x01value\x02
  std::string uniq_key = "0123456789ABCDEF";
};
std::string property(std::string_view name, std::string_view value);
/// Sends a half whose birth is now.
SentHalf send_half(Client& c, const TxnBroker& b, std::int64_t born_ms, const HalfSpec& spec = {});
proto::Command end_command(const SentHalf& half, std::int32_t state, std::string_view group = "PG");
/// END_TRANSACTION that is answered with 0.
void end(Client& c, const SentHalf& half, std::int32_t state, std::string_view group = "PG");
void producer_beat(Client& c, std::string_view group = "PG");

/// A question of the broker: CHECK_TRANSACTION_STATE.
struct Question {
  SentHalf half{};  ///< the record that it is about
  proto::Command command{};
  std::string body{};  ///< memory of the message
  proto::MessageView message() const;
};
std::optional<Question> question(Client& c, std::chrono::milliseconds limit);
/// Moves the clock to the next rounds of checks until the question comes.
Question ask(Client& c, TxnBroker& b, std::string_view group = "PG");

/// Everything in a queue now. Views live as long as the answer.
struct QueueContent {
  proto::Command answer{};
  std::vector<proto::MessageView> messages{};
};
QueueContent read_all(Client& c, std::string_view topic, std::int32_t queue_id);
std::string body_of(const proto::MessageView& m);
std::string property_of(const proto::MessageView& m, std::string_view name);

}  // namespace tenon::broker::test
