// The SDK over real sockets against a server that answers by script: what a connection can do wrong.
#include "fake_cluster.h"

#include "tenon/net/connection.h"
#include "tenon/net/io_pool.h"
#include "tenon/sdk.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

using namespace tenon::sdk;
using namespace std::chrono_literals;
namespace net = tenon::net;
namespace proto = tenon::proto;
using tenon::sdk::test::eventually;
using tenon::sdk::test::FakeCluster;
using tenon::sdk::test::Outcome;
using tenon::sdk::test::Request;

namespace {

/// A listening socket in front of a FakeCluster, as name server and broker in one. An outcome that
/// is a failure closes the connection, one that is nothing is never answered.
class SocketServer final : public net::ConnectionHandler {
 public:
  explicit SocketServer(FakeCluster& cluster, std::string broker)
      : cluster_(cluster),
        broker_(std::move(broker)),
        pool_(net::IoPool::start({}).value()) {
    net::Server::Options options;
    options.host = "127.0.0.1";
    server_ = net::Server::listen(*pool_, options, *this).value();
  }
  ~SocketServer() override {
    server_->stop();
    pool_->stop();
  }
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(server_->port()); }

  void on_commands(const net::ConnectionPtr& connection,
                   std::span<const proto::CommandView> commands,
                   const net::BufferRef&) override {
    for (const proto::CommandView& view : commands) {
      Request request{broker_ + ":10911", proto::Command::from(view), 0, view.is_oneway()};
      Outcome outcome = cluster_.handle(request);
      if (outcome.failure) {
        connection->close(net::CloseReason::kLocal);
        return;
      }
      if (outcome.answer && !view.is_oneway()) {
        outcome.answer->opaque = view.opaque;
        outcome.answer->flag = proto::kFlagResponse;
        outcome.answer->kind = view.kind;
        outcome.answer->encode(connection->out());
      }
    }
  }

 private:
  FakeCluster& cluster_;
  const std::string broker_;
  std::unique_ptr<net::IoPool> pool_;
  std::unique_ptr<net::Server> server_;
};

/// Route of topic T: these brokers at these addresses, one queue each.
std::optional<Outcome> route_of(const Request& r,
                                const std::vector<std::pair<std::string, std::string>>& brokers) {
  if (r.command.code != proto::RequestCode::kGetRouteinfoByTopic) {
    return std::nullopt;
  }
  if (r.command.field("topic") != "T") {
    return Outcome::code(17);
  }
  proto::TopicRoute route;
  for (const auto& [name, address] : brokers) {
    route.queues.push_back({name, 1, 1, 6, 0});
    route.brokers.push_back({"c", name, {{0, address}}});
  }
  proto::Command c;
  c.body = proto::encode(route, true);
  return Outcome::ok(std::move(c));
}

/// An address at which nobody listens.
std::string dead_address() {
  FakeCluster none;
  return SocketServer(none, "x").address();
}

Message message(std::string body = "body") {
  Message m;
  m.topic = "T";
  m.body = std::move(body);
  return m;
}

bool is_send(const Request& r) {
  return r.command.code == proto::RequestCode::kSendMessageV2;
}

struct Fixture {
  Fixture()
      : server(cluster, "a") {
    route_to({{"a", server.address()}});
  }
  void route_to(std::vector<std::pair<std::string, std::string>> brokers) {
    script([](const Request&) { return std::optional<Outcome>(); }, std::move(brokers));
  }
  void script(std::function<std::optional<Outcome>(const Request&)> hook,
              std::vector<std::pair<std::string, std::string>> brokers) {
    cluster.set_hook([hook = std::move(hook), brokers = std::move(brokers)](const Request& r) {
      if (auto outcome = hook(r)) {
        return outcome;
      }
      return route_of(r, brokers);
    });
  }
  void script(std::function<std::optional<Outcome>(const Request&)> hook) {
    script(std::move(hook), {{"a", server.address()}});
  }
  Client client(std::string name_servers = {}) {
    return Client::connect({.name_servers = name_servers.empty() ? server.address() : name_servers})
        .value();
  }

  FakeCluster cluster;
  SocketServer server;
};

}  // namespace

TEST_SUITE("sdk/socket") {
  TEST_CASE("blocking, callback and coroutine forms arrive") {
    Fixture f;
    Client client = f.client();
    Producer producer = Producer::open(client, {.group = "g"}).value();
    CHECK(producer.send(message("1")).has_value());
    CHECK(producer.send_oneway(message("2")).has_value());
    std::atomic<bool> called{false};
    producer.async_send(message("3"), [&](Result<Receipt> r) {
      CHECK(r.has_value());
      called = true;
    });
    CHECK(eventually([&] { return called.load(); }));
    Message m = message("4");
    CHECK(producer.async_send(std::move(m)).get().has_value());
    CHECK(eventually([&] { return f.cluster.stored({"T", "a", 0}).size() == 4; }));
    CHECK(producer.close(5s).has_value());
  }

  TEST_CASE("JSON and binary headers both work") {
    for (const auto encoding : {HeaderEncoding::kJson, HeaderEncoding::kBinary}) {
      Fixture f;
      Client client =
          Client::connect({.name_servers = f.server.address(), .header_encoding = encoding})
              .value();
      Producer producer = Producer::open(client).value();
      CHECK(producer.send(message("x")).has_value());
      const auto sends = f.cluster.requests(proto::RequestCode::kSendMessageV2);
      REQUIRE(sends.size() == 1);
      CHECK((sends[0].command.kind == proto::HeaderKind::kRocketMq) ==
            (encoding == HeaderEncoding::kBinary));
    }
  }

  TEST_CASE("connection refused: nothing was sent, the error says so") {
    Fixture f;
    f.route_to({{"a", dead_address()}});
    Client client = f.client();
    Producer producer = Producer::open(client, {.group = "g"}).value();
    const auto r = producer.send(message());
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().is(Errc::kConnect));
    CHECK_FALSE(r.error().outcome_unknown);
    CHECK(r.error().broker == "a");
  }

  TEST_CASE("one of two brokers is dead: every message arrives at the other") {
    Fixture f;
    f.route_to({{"a", f.server.address()}, {"b", dead_address()}});
    Client client = f.client();
    Producer producer = Producer::open(client, {.group = "g"}).value();
    for (int i = 0; i < 10; ++i) {
      const auto r = producer.send(message());
      REQUIRE(r.has_value());
      CHECK(r->queue.broker == "a");
    }
  }

  TEST_CASE("slow: the send ends at its time, outcome unknown; a late answer does no harm") {
    Fixture f;  // client §14.14: late answer
    f.script([](const Request& r) {
      return is_send(r) ? std::optional(Outcome::hold()) : std::nullopt;
    });
    Client client = f.client();
    Producer producer = Producer::open(client, {.group = "g"}).value();
    SendOptions quick;
    quick.timeout = 100ms;
    const auto begin = std::chrono::steady_clock::now();
    const auto r = producer.send(message(), quick);
    const auto took = std::chrono::steady_clock::now() - begin;
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().is(Errc::kTimeout));
    CHECK(r.error().outcome_unknown);
    CHECK(took >= 90ms);
    CHECK(took < 3s);
    CHECK(f.cluster.requests(proto::RequestCode::kSendMessageV2).size() == 1);
  }

  TEST_CASE("closed after the write: tried again at once; exhausted: outcome unknown") {
    Fixture f;  // client §14.13
    auto left = std::make_shared<std::atomic<int>>(1);
    f.script([left](const Request& r) {
      return is_send(r) && (*left)-- > 0 ? std::optional(Outcome::fail(tenon::Errc::kClosed))
                                         : std::nullopt;
    });
    Client client = f.client();
    Producer producer = Producer::open(client, {.group = "g"}).value();
    CHECK(producer.send(message()).has_value());
    *left = 100;
    const auto begin = std::chrono::steady_clock::now();
    const auto r = producer.send(message());
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().is(Errc::kClosed));
    CHECK(r.error().outcome_unknown);
    CHECK(std::chrono::steady_clock::now() - begin < 2s);  // pending calls fail at once
  }

  TEST_CASE("busy(2) is reported, service not available(14) is tried again") {
    Fixture f;
    f.script([](const Request& r) {
      return is_send(r) ? std::optional(Outcome::code(2, "[OVERLOAD]system busy")) : std::nullopt;
    });
    Client client = f.client();
    Producer producer = Producer::open(client, {.group = "g"}).value();
    CHECK(producer.send(message()).error().response == 2);
    auto left = std::make_shared<std::atomic<int>>(1);
    f.script([left](const Request& r) {
      return is_send(r) && (*left)-- > 0 ? std::optional(Outcome::code(14)) : std::nullopt;
    });
    CHECK(producer.send(message()).has_value());
  }

  TEST_CASE("the first name server is dead: the second answers within the connect time-out") {
    Fixture f;
    for (int i = 0; i < 4; ++i) {  // whichever the shuffle puts first
      Client client = f.client(dead_address() + ";" + f.server.address());
      Producer producer = Producer::open(client, {.group = "g"}).value();
      const auto begin = std::chrono::steady_clock::now();
      CHECK(producer.send(message()).has_value());
      CHECK(std::chrono::steady_clock::now() - begin < 3s);
    }
  }

  TEST_CASE("no name server at all: error 10004 before the deadline") {
    Client client = Client::connect({.name_servers = dead_address()}).value();
    Producer producer = Producer::open(client, {.group = "g"}).value();
    const auto r = producer.send(message());
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().code.value() == 10004);
    CHECK_FALSE(r.error().outcome_unknown);
  }

  TEST_CASE("destructors with calls in flight: every callback once, before they return") {
    Fixture f;
    f.script([](const Request& r) {
      return is_send(r) ? std::optional(Outcome::hold()) : std::nullopt;
    });
    std::atomic<int> called{0};
    {
      Client client = f.client();
      Producer producer = Producer::open(client, {.group = "g"}).value();
      for (int i = 0; i < 100; ++i) {
        producer.async_send(message(), [&](Result<Receipt> r) {
          CHECK(r.error().is(Errc::kCancelled));
          ++called;
        });
      }
    }
    CHECK(called.load() == 100);
  }

  TEST_CASE("client and producer may be destroyed inside a callback") {
    Fixture f;
    struct Owned {
      Client client;
      Producer producer;
    };
    std::atomic<bool> gone{false};
    std::unique_ptr<Owned> owned;
    {
      Client client = f.client();
      Producer producer = Producer::open(client, {.group = "g"}).value();
      owned = std::make_unique<Owned>(Owned{std::move(client), std::move(producer)});
    }
    owned->producer.async_send(message(), [&](Result<Receipt>) {
      owned.reset();
      gone = true;
    });
    CHECK(eventually([&] { return gone.load(); }));
  }

  TEST_CASE("many clients are opened and closed without a trace") {
    Fixture f;
    f.cluster.set_members({});
    // The leak checker of the sanitizer build looks at what is left.
    for (int i = 0; i < 100; ++i) {
      Client client = f.client();
      Producer producer = Producer::open(client, {.group = "g"}).value();
      if (i % 10 == 0) {
        CHECK(producer.send(message()).has_value());
      }
    }
    Client client = f.client();
    for (int i = 0; i < 1000; ++i) {
      Producer producer = Producer::open(client, {.group = "g"}).value();
    }
    CHECK(Producer::open(client, {.group = "g"}).has_value());
  }

  TEST_CASE("a consumer opened in one client twice is refused, destroyed it can be opened again") {
    Fixture f;
    Client client = f.client();
    f.cluster.set_members({std::string(client.id())});
    f.cluster.put({"T", "a", 0}, "hello");
    for (int i = 0; i < 3; ++i) {
      std::atomic<int> received{0};
      PushConsumerOptions options;
      options.group = "g";
      options.subscriptions["T"] = Subscription();
      options.start = FromFirst{};
      const auto listener = [&](std::span<const MessageView>) {
        ++received;
        return Ack::success();
      };
      PushConsumer consumer = PushConsumer::concurrent(client, options, listener).value();
      CHECK(PushConsumer::concurrent(client, options, listener).error().is(Errc::kConflict));
      if (i == 0) {
        CHECK(eventually([&] { return received.load() == 1; }));
      }
      CHECK(consumer.close().has_value());
    }
  }
}
