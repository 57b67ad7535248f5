// Each fault as the client sees it.
#include "fixture.h"

#include <atomic>
#include <memory>
#include <span>

using namespace tenon::sdk;
using namespace std::chrono_literals;
using fixture::eventually;
using fixture::message;
using fixture::Rig;
using tenon::testing::Call;
using tenon::testing::Fault;
using tenon::testing::FaultKind;

namespace {

Fault fault(FaultKind kind, Call on = Call::kSend, int times = 1) {
  Fault f;
  f.kind = kind;
  f.on = on;
  f.times = times;
  return f;
}

SendOptions within(std::chrono::milliseconds time) {
  SendOptions options;
  options.timeout = time;
  return options;
}

std::int64_t stored(Rig& rig) {
  return Admin::open(rig.client).value().max_offset({"T", "broker-a", 0}).value();
}

/// No second attempt, so that one fault is one failed send.
Producer single(Rig& rig) {
  return Producer::open(rig.client, {.group = "single", .retries = 0}).value();
}

}  // namespace

TEST_SUITE("testing/faults") {
  TEST_CASE("an answer code: the client gets code and remark, nothing is stored, the next works") {
    Rig rig;
    rig.broker.fail_next(1, 13, "illegal on purpose");
    const auto r = rig.producer.send(message("T"));
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().response == 13);
    CHECK(r.error().remark == "illegal on purpose");
    CHECK_FALSE(r.error().outcome_unknown);
    CHECK(stored(rig) == 0);
    CHECK(rig.producer.send(message("T")).has_value());
    CHECK(stored(rig) == 1);
  }

  TEST_CASE("codes that are retried: two failures, the third attempt is stored") {
    Rig rig;
    rig.broker.fail_next(2, 14);
    CHECK(rig.producer.send(message("T")).has_value());
    CHECK(rig.broker.requests(Call::kSend) == 3);
    CHECK(stored(rig) == 1);
  }

  TEST_CASE("a delay below the time-out is waited for, one above is a time-out, outcome unknown") {
    Rig rig;
    Producer producer = single(rig);
    REQUIRE(producer.send(message("T")).has_value());  // the route is known
    rig.broker.delay(1s);
    const auto begin = std::chrono::steady_clock::now();
    CHECK(producer.send(message("T")).has_value());
    CHECK(std::chrono::steady_clock::now() - begin >= 1s);
    const auto r = producer.send(message("T"), within(300ms));
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().is(Errc::kTimeout));
    CHECK(r.error().outcome_unknown);
    rig.broker.delay(0ms);
    CHECK(eventually([&] { return stored(rig) == 3; }));  // it arrived all the same
  }

  TEST_CASE("a lost answer: stored, the client cannot know; ignored: not stored") {
    Rig rig;
    Producer producer = single(rig);
    REQUIRE(producer.send(message("T")).has_value());
    for (const auto kind : {FaultKind::kLose, FaultKind::kIgnore}) {
      rig.broker.inject(fault(kind));
      const auto r = producer.send(message("T"), within(300ms));
      REQUIRE_FALSE(r.has_value());
      CHECK(r.error().is(Errc::kTimeout));
      CHECK(r.error().outcome_unknown);
    }
    CHECK(stored(rig) == 2);
  }

  TEST_CASE("a cut connection: outcome unknown, whether it was carried out or not") {
    Rig rig;
    Producer producer = single(rig);
    REQUIRE(producer.send(message("T")).has_value());
    for (const auto kind : {FaultKind::kCutAfter, FaultKind::kCut}) {
      rig.broker.inject(fault(kind));
      const auto r = producer.send(message("T"));
      REQUIRE_FALSE(r.has_value());
      CHECK(r.error().is(Errc::kClosed));
      CHECK(r.error().outcome_unknown);
    }
    CHECK(stored(rig) == 2);
    CHECK(producer.send(message("T")).has_value());  // a new connection
  }

  TEST_CASE("all connections are cut at once; clients come back") {
    Rig rig;
    REQUIRE(rig.producer.send(message("T")).has_value());
    CHECK(rig.broker.cut_connections() >= 1);
    CHECK(rig.producer.send(message("T")).has_value());
  }

  TEST_CASE("a fault hits its topic and its kind of request only") {
    Rig rig;
    Fault f = fault(FaultKind::kAnswer, Call::kAny, -1);
    f.topic = "Other";
    f.code = 13;
    rig.broker.inject(f);
    CHECK(rig.producer.send(message("T")).has_value());
    CHECK(rig.producer.send(message("Other")).error().response == 13);
    CHECK(rig.producer.send(message("Other")).error().response == 13);
    rig.broker.clear_faults();
    CHECK(rig.producer.send(message("Other")).has_value());
    rig.broker.inject(fault(FaultKind::kAnswer, Call::kPull));
    CHECK(rig.producer.send(message("T")).has_value());
  }

  TEST_CASE("a slow name server delays what needs a route, and nothing else") {
    Rig rig;
    Fault slow = fault(FaultKind::kDelay, Call::kRoute);
    slow.by = 300ms;
    rig.broker.inject(slow);
    auto begin = std::chrono::steady_clock::now();
    CHECK(rig.producer.send(message("T")).has_value());
    CHECK(std::chrono::steady_clock::now() - begin >= 300ms);
    CHECK(rig.broker.requests(Call::kRoute) >= 1);
    slow.times = -1;
    slow.by = 60s;
    rig.broker.inject(slow);
    begin = std::chrono::steady_clock::now();
    CHECK(rig.producer.send(message("T")).has_value());  // the route is known
    CHECK(std::chrono::steady_clock::now() - begin < 10s);
    const auto r = rig.producer.send(message("Other"), within(100ms));
    CHECK(r.error().is(Errc::kTimeout));
    CHECK_FALSE(r.error().outcome_unknown);
    rig.broker.clear_faults();
  }

  TEST_CASE("a name server that is silent, cuts, or does not know the topic") {
    Rig rig;
    Client client =
        Client::connect({.name_servers = rig.broker.name_servers(), .api_timeout = 100ms}).value();
    Admin admin = Admin::open(client).value();
    rig.broker.inject(fault(FaultKind::kIgnore, Call::kRoute));
    CHECK(admin.route("T").error().is(Errc::kNoNameServer));
    rig.broker.inject(fault(FaultKind::kCut, Call::kRoute));
    CHECK(admin.route("T").error().is(Errc::kNoNameServer));
    Fault unknown = fault(FaultKind::kAnswer, Call::kRoute);
    unknown.topic = "T";
    unknown.code = 17;
    rig.broker.inject(unknown);
    CHECK(admin.route("T").error().response == 17);
    CHECK(admin.route("T").has_value());
  }

  TEST_CASE("a stale route: a dead broker stays in it, new topics do not come, until it thaws") {
    Rig rig;
    REQUIRE(rig.broker.freeze_routes(true).has_value());
    Client late = Client::connect({.name_servers = rig.broker.name_servers()}).value();
    Admin admin = Admin::open(late).value();
    rig.broker.stop();
    CHECK(admin.route("T").value().brokers.size() == 1);
    const auto r = single(rig).send(message("T"), within(2s));
    CHECK(r.error().is(Errc::kConnect));
    CHECK_FALSE(r.error().outcome_unknown);
    REQUIRE(rig.broker.freeze_routes(false).has_value());
    CHECK(admin.route("T").error().response == 17);
    REQUIRE(rig.broker.restart().has_value());
    REQUIRE(rig.broker.freeze_routes(false).has_value());
    CHECK(admin.route("T").has_value());
    REQUIRE(rig.broker.freeze_routes(true).has_value());
    CHECK_FALSE(rig.broker.create_topic("Late").has_value());
    CHECK(admin.route("Late").error().response == 17);
    REQUIRE(rig.broker.freeze_routes(false).has_value());
    CHECK(admin.route("Late").has_value());
    CHECK(rig.producer.send(message("Late")).has_value());
  }

  TEST_CASE("members of one group that subscribe differently are told") {
    Rig rig;  // client §11 L6
    Client other = Client::connect({.name_servers = rig.broker.name_servers()}).value();
    const auto listener = [](std::span<const MessageView>) { return Ack::success(); };
    PushConsumerOptions options;
    options.group = "c";
    options.subscriptions["T"] = Subscription();
    PushConsumer a = PushConsumer::concurrent(rig.client, options, listener).value();
    Admin admin = Admin::open(rig.client).value();
    REQUIRE(eventually([&] {
      const auto g = admin.group("c");
      return g && g->members.size() == 1 && g->members[0].known;
    }));
    CHECK_FALSE(admin.group("c").value().mismatch);
    options.subscriptions["T"].expression = "TagA";
    PushConsumer b = PushConsumer::concurrent(other, options, listener).value();
    CHECK(eventually([&] {
      const auto g = admin.group("c");
      return g && g->members.size() == 2 && g->mismatch;
    }));
  }

  TEST_CASE("a consumer survives failing, cut and ignored pulls") {
    Rig rig;
    REQUIRE(rig.producer.send(message("T")).has_value());
    for (const auto kind : {FaultKind::kAnswer, FaultKind::kCut, FaultKind::kDelay}) {
      rig.broker.inject(fault(kind, Call::kPull));
    }
    std::atomic<int> received{0};
    PushConsumerOptions options;
    options.group = "c";
    options.subscriptions["T"] = Subscription();
    options.start = FromFirst{};
    options.pull_error_delay = 10ms;
    auto consumer =
        PushConsumer::concurrent(rig.client, options, [&received](std::span<const MessageView>) {
          ++received;
          return Ack::success();
        });
    REQUIRE(consumer.has_value());
    CHECK(eventually([&] { return received.load() == 1; }));
  }

  TEST_CASE("a refused retry is held until it is taken") {
    tenon::testing::BrokerOptions fast;
    fast.delay_levels = "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s";
    Rig rig(fast);
    rig.broker.inject(fault(FaultKind::kAnswer, Call::kSendBack));
    std::atomic<int> attempts{0};
    PushConsumerOptions options;
    options.group = "c";
    options.subscriptions["T"] = Subscription();
    options.start = FromFirst{};
    auto consumer =
        PushConsumer::concurrent(rig.client, options, [&attempts](std::span<const MessageView>) {
          return ++attempts == 1 ? Ack::retry() : Ack::success();
        });
    REQUIRE(consumer.has_value());
    REQUIRE(rig.producer.send(message("T")).has_value());
    CHECK(eventually([&] { return attempts.load() == 2; }));
    CHECK(rig.broker.requests(Call::kSendBack) == 1);
  }

  TEST_CASE("requests that are delayed when the broker goes do no harm") {
    auto rig = std::make_unique<Rig>();
    rig->broker.delay(10s);
    std::atomic<int> called{0};
    rig->producer.async_send(message("T"), [&](Result<Receipt> r) {
      CHECK_FALSE(r.has_value());
      ++called;
    });
    CHECK(eventually([&] { return rig->broker.requests(Call::kAny) > 0; }));
    rig->broker.stop();
    rig.reset();
    CHECK(called.load() == 1);
  }
}
