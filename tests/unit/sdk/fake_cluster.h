// A name server and brokers behind the RpcClient interface, without sockets: real behaviour for the
// requests that the SDK makes, and a hook to answer any of them otherwise.
#pragma once

#include "client_core.h"

#include "tenon/net/rpc_client.h"
#include "tenon/proto/bodies.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tenon::sdk::test {

struct Request {
  std::string address{};
  proto::Command command{};
  std::size_t lane = 0;
  bool oneway = false;
  std::chrono::milliseconds timeout{0};  ///< that the caller gives it; one-way: 0
};

/// How a request ends: an answer, a failure of the call, or nothing until stop().
struct Outcome {
  std::optional<proto::Command> answer{};
  std::optional<tenon::Error> failure{};

  static Outcome ok(proto::Command c = {}) { return {std::move(c), std::nullopt}; }
  static Outcome code(std::int32_t code, std::string remark = {}) {
    proto::Command c;
    c.code = code;
    c.remark = std::move(remark);
    return ok(std::move(c));
  }
  static Outcome fail(tenon::Errc code) { return {std::nullopt, tenon::Error{code, "scripted"}}; }
  static Outcome hold() { return {}; }
};

/// Waits for a condition; false if it does not come true in time.
bool eventually(const std::function<bool()>& condition,
                std::chrono::milliseconds patience = std::chrono::seconds(10));

class FakeCluster {
 public:
  struct Stored {
    std::int64_t offset = 0;
    std::string body{};
    std::string properties{};
    std::string topic{};
    std::int32_t sys_flag = 0;
  };
  using Hook = std::function<std::optional<Outcome>(const Request&)>;

  static constexpr const char* kNameServer = "ns:9876";

  FakeCluster();
  /// Names "a", "b" … at "a:10911" …, each with `queues` queues of the topic.
  void add_topic(const std::string& topic,
                 const std::vector<std::string>& brokers,
                 std::int32_t queues,
                 std::int32_t perm = 6);
  /// The broker's master is gone from the route, this slave is in it. Queues of "a-slave" are those
  /// of "a".
  void replace_master(const std::string& topic,
                      const std::string& broker,
                      const std::string& slave_address);
  /// Ends what was not answered yet.
  void release_held(tenon::Errc code);
  /// Connecting to an address gets no answer at all, or does again. Nothing happens before tick().
  void set_connected(const std::string& address, bool connected);
  bool is_connected(const std::string& address);
  /// How often a call looked for a connection to an address that has none.
  int tried(const std::string& address) const;
  /// After the clock of the client that was made last has moved, or a broker connects. Returns when
  /// nothing more happens at this time.
  void tick();
  void remove_topic(const std::string& topic);
  /// Asked first for every request; nullopt: the default answer.
  void set_hook(Hook hook);
  /// Appends a message as a producer would.
  void put(const Queue& queue, const std::string& body, const std::string& properties = {});
  void set_members(std::vector<std::string> ids);
  void set_offset(const std::string& group, const Queue& queue, std::int64_t offset);
  std::optional<std::int64_t> offset(const std::string& group, const Queue& queue) const;
  std::vector<Request> requests(std::int32_t code) const;
  std::vector<Stored> stored(const Queue& queue) const;

  /// A client of this cluster. `clock` given: no threads, timers are run by hand.
  std::shared_ptr<detail::ClientCore> client(const Clock* clock = nullptr,
                                             ClientOptions options = {});

  Outcome handle(const Request& request);
  /// The transport of a client that is made otherwise.
  std::unique_ptr<net::RpcClient> make_rpc();
  std::unique_ptr<net::RpcClient> make_rpc(const Clock& clock);

 private:
  Outcome default_answer(const Request& request);
  Outcome route(const Request& request);
  Outcome send(const Request& request);
  Outcome pull(const Request& request);
  Outcome offsets(const Request& request);

  mutable std::mutex mutex_;
  Hook hook_;
  std::map<std::string, proto::TopicRoute> routes_;
  std::map<Queue, std::vector<Stored>> queues_;
  std::map<std::pair<std::string, Queue>, std::int64_t> offsets_;
  std::vector<std::string> members_;
  std::vector<Request> log_;
  std::function<void(tenon::Errc)> release_;
  std::function<void()> tick_;
  std::set<std::string> unconnected_;
  std::map<std::string, int> tried_;
};

}  // namespace tenon::sdk::test
