// A broker that does not even refuse: packets to it are dropped. Sends go to another one in a short
// time, by the clock of the test (spec: client §4.7, §4.9, §9).
#include "fake_cluster.h"
#include "producer_core.h"

#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;
namespace proto = tenon::proto;
using detail::ProducerCore;
using proto::RequestCode;

namespace {

constexpr const char* kA = "a:10911";
constexpr const char* kB = "b:10911";
const Queue kQueueA{"T", "a", 0};
const Queue kQueueB{"T", "b", 0};

/// Connecting to broker a gets no answer.
struct Fixture {
  explicit Fixture(ClientOptions options = {},
                   ProducerOptions how = {},
                   const std::vector<std::string>& brokers = {"a", "b"}) {
    cluster.add_topic("T", brokers, 1);
    cluster.set_connected(kA, false);
    client = cluster.client(&clock, std::move(options));
    producer = ProducerCore::create(*client, std::move(how)).value();
    client->add(producer).value();
    REQUIRE(producer->queues("T").has_value());
  }
  ~Fixture() { producer->stop(); }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  /// Starts a send; returns when it has ended or waits.
  void start(SendForm form = SendForm::kAsync, const SendOptions& how = {}) {
    Message m;
    m.topic = "T";
    m.body = "body";
    producer->start(
        std::move(m),
        [this](Result<Receipt> r) {
          const std::scoped_lock lock(mutex);
          results.push_back(std::move(r));
        },
        how,
        form);
    cluster.tick();
  }
  /// Round robin begins anywhere: one of two sends goes to each broker.
  void start_both(SendForm form = SendForm::kAsync) {
    start(form);
    start(form);
  }
  void advance(std::int64_t ms) {
    clock.advance_ms(ms);
    client->timers().run_due();
    cluster.tick();
  }
  std::size_t ended() {
    const std::scoped_lock lock(mutex);
    return results.size();
  }
  std::size_t failed() {
    const std::scoped_lock lock(mutex);
    std::size_t n = 0;
    for (const auto& r : results) {
      n += r.has_value() ? 0 : 1;
    }
    return n;
  }
  Error error() {
    const std::scoped_lock lock(mutex);
    return results.back().error();
  }
  std::size_t at(const Queue& queue) const { return cluster.stored(queue).size(); }

  tenon::ManualClock clock;
  FakeCluster cluster;
  std::shared_ptr<detail::ClientCore> client;
  std::shared_ptr<ProducerCore> producer;
  std::mutex mutex;
  std::vector<Result<Receipt>> results;
};

}  // namespace

TEST_SUITE("sdk/switch") {
  TEST_CASE("a broker that does not connect is left after switch_after for another one") {
    for (const SendForm form : {SendForm::kBlocking, SendForm::kAsync}) {
      CAPTURE(static_cast<int>(form));
      Fixture f;
      f.start_both(form);
      CHECK(f.ended() == 1);
      f.advance(499);
      CHECK(f.ended() == 1);
      f.advance(1);
      CHECK(f.ended() == 2);
      CHECK(f.failed() == 0);
      CHECK(f.at(kQueueA) == 0);
      CHECK(f.at(kQueueB) == 2);
      const auto sends = f.cluster.requests(RequestCode::kSendMessageV2);
      REQUIRE(sends.size() == 2);
      CHECK(sends[1].command.field("n") == "b");
      CHECK(sends[1].timeout == 2'500ms);
    }
  }

  TEST_CASE("a one-way send does not wait, and arrives elsewhere all the same") {
    Fixture f;
    f.start_both(SendForm::kOneway);
    CHECK(f.ended() == 2);
    CHECK(f.at(kQueueB) == 1);
    f.advance(499);
    CHECK(f.at(kQueueB) == 1);
    CHECK_FALSE(f.producer->drain(0ms));  // it is still to be written
    f.advance(1);
    CHECK(f.at(kQueueB) == 2);
    CHECK(f.at(kQueueA) == 0);
    CHECK(f.producer->drain(10s));
    CHECK(f.ended() == 2);
    CHECK(f.failed() == 0);
  }

  TEST_CASE("a one-way send arrives where it was meant to if that connects in time") {
    Fixture f;
    f.start_both(SendForm::kOneway);
    f.advance(400);
    f.cluster.set_connected(kA, true);
    f.cluster.tick();
    CHECK(f.at(kQueueA) == 1);
    CHECK(f.at(kQueueB) == 1);
    CHECK(f.producer->drain(10s));
  }

  TEST_CASE("while it does not connect, the next sends do not wait at all") {
    Fixture f;
    f.start_both();
    f.advance(500);
    for (int i = 0; i < 10; ++i) {
      f.start(SendForm::kBlocking);
      f.start(SendForm::kAsync);
      f.start(SendForm::kOneway);
    }
    CHECK(f.ended() == 32);
    CHECK(f.failed() == 0);
    CHECK(f.at(kQueueB) == 32);
  }

  TEST_CASE("when it connects at last, the next sends use it") {
    Fixture f;
    f.start_both();
    f.advance(700);
    f.cluster.set_connected(kA, true);
    f.start_both();
    f.start_both();
    CHECK(f.ended() == 6);
    CHECK(f.failed() == 0);
    // Round robin steps once for each attempt, the failed one too.
    CHECK(f.at(kQueueA) == 2);
    CHECK(f.at(kQueueB) == 4);
  }

  TEST_CASE("a send that waits is written when the broker connects in time") {
    Fixture f;
    f.start_both();
    f.advance(300);
    f.cluster.set_connected(kA, true);
    f.cluster.tick();
    CHECK(f.ended() == 2);
    CHECK(f.at(kQueueA) == 1);
  }

  TEST_CASE("a send to a queue that is given, chosen or of a key waits for its broker") {
    const Selector first = [](std::span<const Queue>, const Message&) { return 0; };
    std::string key = "k";
    while (hash_queue(key, 2) != 0) {
      key += 'k';
    }
    SendOptions given;
    given.queue = &kQueueA;
    SendOptions chosen;
    chosen.select = &first;
    SendOptions keyed;
    keyed.sharding_key = key;
    for (const SendOptions& how : {given, chosen, keyed}) {
      for (const bool connects : {true, false}) {
        Fixture f;
        f.start(SendForm::kAsync, how);
        f.advance(2'999);
        CHECK(f.ended() == 0);
        f.cluster.set_connected(kA, connects);
        f.advance(connects ? 0 : 1);
        REQUIRE(f.ended() == 1);
        CHECK(f.at(kQueueB) == 0);
        CHECK(f.at(kQueueA) == (connects ? 1 : 0));
        if (!connects) {
          CHECK(f.error().is(Errc::kConnect));
          CHECK_FALSE(f.error().outcome_unknown);
        }
      }
    }
  }

  TEST_CASE("without another broker, another attempt or the option, it waits to the deadline") {
    const auto waits = [](Fixture& f) {
      f.start(SendForm::kBlocking);
      if (f.ended() == 1) {  // that one went to b
        f.start(SendForm::kBlocking);
        f.results.clear();
      }
      f.advance(2'999);
      CHECK(f.ended() == 0);
      f.advance(1);
      REQUIRE(f.ended() == 1);
      CHECK(f.error().is(Errc::kConnect));
      CHECK_FALSE(f.error().outcome_unknown);
      CHECK(f.at(kQueueA) == 0);
    };
    Fixture alone({}, {}, {"a"});
    waits(alone);
    ProducerOptions once;
    once.retries = 0;
    Fixture one_attempt({}, once);
    waits(one_attempt);
    ClientOptions off;
    off.switch_after = 0ms;
    Fixture switched_off(off);
    waits(switched_off);
  }

  TEST_CASE("with no broker there the last attempt waits to the deadline, and nothing was sent") {
    ProducerOptions how;
    how.retries = 2;
    Fixture f({}, how);
    f.cluster.set_connected(kB, false);
    f.start(SendForm::kBlocking);
    f.advance(500);
    CHECK(f.ended() == 0);
    f.advance(500);
    CHECK(f.ended() == 0);
    f.advance(1'999);
    CHECK(f.ended() == 0);
    f.advance(1);
    REQUIRE(f.ended() == 1);
    CHECK(f.error().is(Errc::kConnect));
    CHECK_FALSE(f.error().outcome_unknown);
    CHECK(f.error().remark.find("Send [3] times") != std::string::npos);
    CHECK(f.cluster.requests(RequestCode::kSendMessageV2).empty());
  }

  TEST_CASE("a send whose whole time is shorter than switch_after does not switch") {
    Fixture f;
    SendOptions how;
    how.timeout = 500ms;
    f.start(SendForm::kAsync, how);
    f.start(SendForm::kAsync, how);
    f.advance(500);
    CHECK(f.ended() == 2);
    CHECK(f.failed() == 1);
    CHECK(f.at(kQueueB) == 1);
  }

  TEST_CASE("with fault tolerance a broker that was left is not even tried for a while") {
    for (const FaultTolerance table : {FaultTolerance::kQuick, FaultTolerance::kClassic}) {
      ProducerOptions how;
      how.fault_tolerance = table;
      Fixture f({}, how);
      f.start_both();
      f.advance(500);
      REQUIRE(f.ended() == 2);
      const int tried = f.cluster.tried(kA);
      CHECK(tried > 0);
      for (int i = 0; i < 20; ++i) {
        f.start();
      }
      CHECK(f.at(kQueueB) == 22);
      CHECK(f.cluster.tried(kA) == tried);
    }
  }

  TEST_CASE("with fault tolerance a broker that did not answer in time is avoided likewise") {
    for (const FaultTolerance table : {FaultTolerance::kQuick, FaultTolerance::kClassic}) {
      ProducerOptions how;
      how.fault_tolerance = table;
      Fixture f({}, how);
      f.cluster.set_connected(kA, true);
      f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
        return r.command.code == RequestCode::kSendMessageV2 && r.address == kA
                   ? std::optional(Outcome::fail(tenon::Errc::kTimeout))
                   : std::nullopt;
      });
      f.start_both();
      CHECK(f.failed() == 1);
      for (int i = 0; i < 20; ++i) {
        f.start();
      }
      CHECK(f.failed() == 1);
      CHECK(f.at(kQueueB) == 21);
    }
  }

  TEST_CASE("the route is asked for in the background, once per second at most") {
    Fixture f;
    f.start_both();
    const auto before = f.cluster.requests(RequestCode::kGetRouteinfoByTopic).size();
    f.cluster.set_connected(FakeCluster::kNameServer, false);  // nobody waits for its answer
    f.advance(500);
    CHECK(f.ended() == 2);
    for (int i = 0; i < 10; ++i) {
      f.start();
    }
    CHECK(f.ended() == 12);
    CHECK(f.failed() == 0);
    f.cluster.set_connected(FakeCluster::kNameServer, true);
    f.cluster.tick();
    CHECK(f.cluster.requests(RequestCode::kGetRouteinfoByTopic).size() == before + 1);
  }

  TEST_CASE("signed requests and hooks switch likewise, and each attempt is written anew") {
    ClientOptions options;
    options.credentials.access_key = "user";
    options.credentials.secret_key = "secret";
    options.rpc_hooks.push_back(
        {.before = [](const RpcRequest& r, std::map<std::string, std::string>& fields) {
          fields["seen"] = std::string(r.address);
        }});
    Fixture f(std::move(options));
    f.start_both(SendForm::kAsync);
    f.start_both(SendForm::kOneway);
    f.advance(500);
    CHECK(f.at(kQueueB) == 4);
    for (const Request& r : f.cluster.requests(RequestCode::kSendMessageV2)) {
      CHECK(r.command.field("seen") == kB);
      CHECK(r.command.field("n") == "b");
      CHECK(r.command.field("AccessKey") == "user");
      CHECK(r.command.field("Signature").has_value());
    }
  }

  TEST_CASE("closing while sends wait for a connection ends them") {
    Fixture f;
    f.start_both(SendForm::kAsync);
    f.start_both(SendForm::kOneway);
    f.producer->stop();
    CHECK(f.ended() == 4);
    CHECK(f.failed() == 1);
    CHECK(f.error().is(Errc::kCancelled));
    f.advance(500);  // late news of operations that are over
    CHECK(f.ended() == 4);
    CHECK(f.producer->drain(10s));
  }

  TEST_CASE("the option is checked") {
    for (const auto& [value, good] : {std::pair(-1ms, false),
                                      std::pair(0ms, true),
                                      std::pair(60'000ms, true),
                                      std::pair(60'001ms, false)}) {
      CAPTURE(value.count());
      ClientOptions o;
      o.name_servers = FakeCluster::kNameServer;
      o.switch_after = value;
      FakeCluster cluster;
      detail::CoreDeps deps;
      deps.make_rpc = [&](tenon::net::ConnectionHandler&) { return cluster.make_rpc(); };
      const auto made = detail::ClientCore::create(std::move(o), std::move(deps));
      CHECK(made.has_value() == good);
      if (!good) {
        CHECK(made.error().remark.find("switch_after") != std::string::npos);
      }
    }
    CHECK_FALSE(ClientOptions::from_toml_text("switch_after_ms = -1").has_value());
    CHECK_FALSE(ClientOptions::from_toml_text("switch_after_ms = 60001").has_value());
    CHECK(ClientOptions::from_toml_text("switch_after_ms = 0").value().switch_after == 0ms);
    CHECK(ClientOptions().switch_after == 500ms);
  }
}
