// A broker inside the test program: name server, broker and a store in memory, started in
// milliseconds on ports that the system chooses, with faults on demand.
//
//   auto broker = tenon::testing::Broker::start({.topics = {{"Orders"}}}).value();
//   auto client = tenon::Client::connect({.name_servers = broker.name_servers()}).value();
//   broker.fail_next(2, 14);  // the next two sends are answered with code 14
#pragma once

#include "tenon/sdk/result.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::testing {

struct Topic {
  std::string name{};
  int queues = 4;
};

struct BrokerOptions {
  std::string name = "broker-a";
  std::string cluster = "DefaultCluster";
  std::vector<Topic> topics{};  ///< exist when start() returns
  /// Consumer groups whose retry topic exists from the start. That of another group is made when its
  /// first member comes, who looks for it after its first failure.
  std::vector<std::string> groups{};
  bool create_topics = true;  ///< sending to an unknown topic creates it
  /// The store is in files of a temporary folder, so that messages survive stop() and restart().
  /// Otherwise restart() begins with an empty store; topics and groups survive always.
  bool keep_messages = false;
  /// Pauses of the delay levels, which are also those between retries: a retry begins at level 3.
  std::string delay_levels = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";
  /// Undecided transactions are asked about after this time and then as often, 1 s to 1 h. 0: after
  /// 6 s, every 60 s.
  std::chrono::milliseconds transaction_check{0};
};

/// Which requests of clients a fault or a count is about.
enum class Call : std::uint8_t {
  kAny,          ///< every request
  kSend,         ///< messages: single, batch, half messages of transactions
  kPull,         ///< of consumers
  kSendBack,     ///< a consumer gives a message back for a retry
  kOffset,       ///< offsets are committed or asked for
  kHeartbeat,    ///< members introduce themselves or leave
  kTransaction,  ///< commit or rollback
  kLock,         ///< orderly consumers lock their queues
  kAdmin,        ///< everything else
  kRoute         ///< the name server is asked for the route of a topic; not part of kAny
};

enum class FaultKind : std::uint8_t {
  kAnswer,    ///< the broker does nothing and answers with a code; one-way requests are dropped
  kDelay,     ///< the broker gets the request later
  kIgnore,    ///< the broker (kRoute: the name server) never gets it, nobody answers
  kLose,      ///< carried out, but the answer is lost; a pull is ignored
  kCut,       ///< the connection is closed, the broker never gets the request
  kCutAfter,  ///< carried out, then the connection is closed without an answer; a pull is cut
};

struct Fault {
  FaultKind kind = FaultKind::kAnswer;
  Call on = Call::kSend;
  std::string topic{};  ///< requests that name this topic only; empty: all
  int times = 1;        ///< so many requests; -1: until clear_faults()
  int code = 1;         ///< kAnswer: response code, e.g. 1 system error, 2 busy, 14 not available
  std::string remark = "injected fault";  ///< kAnswer
  std::chrono::milliseconds by{0};        ///< kDelay
};

/// A name server and a broker of this process. Several may run at once; they share nothing. Thread:
/// stop(), restart() and the like by one thread at a time, everything else any; nothing on a thread
/// of the SDK (in a callback).
class __attribute__((visibility("default"))) Broker {
 public:
  /// Serves when it returns, topics included.
  /// @return kInvalidArgument naming the option, kInternal with the reason otherwise
  static sdk::Result<Broker> start(BrokerOptions options = {});
  Broker(Broker&&) noexcept;
  Broker& operator=(Broker&&) noexcept;
  ~Broker();

  /// For ClientOptions::name_servers: "127.0.0.1:port". Stays the same over restarts.
  std::string name_servers() const;
  std::string address() const;  ///< of the broker itself; stays the same over restarts

  /// Creates a topic or sets its number of queues; clients that ask see it when this returns.
  sdk::Result<void> create_topic(std::string_view name, int queues = 4);

  /// Adds a fault. Each request meets the first one that it matches, in the order of their adding.
  void inject(Fault fault);
  /// The next sends are not carried out and answered with this code.
  void fail_next(int times, int code, std::string_view remark = "injected fault");
  /// Every request is delayed; 0 ends that. Not kept by clear_faults().
  void delay(std::chrono::milliseconds by);
  void clear_faults();
  /// Requests of this kind that came since the start, injected faults included.
  std::uint64_t requests(Call call) const;
  /// Closes all connections of clients to the broker; they may come back at once. Returns when they
  /// are told to close. @return how many
  std::size_t cut_connections();

  /// The broker ends as an orderly stopped one does: clients find nobody listening. Idempotent.
  void stop();
  /// The broker serves again at the same address, stopped before or not.
  sdk::Result<void> restart();
  /// The name server is gone; routes that clients know still work. Idempotent.
  void stop_name_server();
  /// The name server knows nothing new from now on: clients get the routes of this moment, also of a
  /// broker that is gone, and no topic that is made later. False: it is up to date again when this
  /// returns. Ends with restart_name_server().
  /// @return kTimeout if the broker did not register
  sdk::Result<void> freeze_routes(bool frozen);
  /// The name server is back at the same address and knows the broker, if that runs.
  sdk::Result<void> restart_name_server();

 private:
  class Parts;
  explicit Broker(std::unique_ptr<Parts> parts) noexcept;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tenon::testing
