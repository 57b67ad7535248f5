// The in-process broker: life cycle, and everything that a real one does.
#include "fixture.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

using namespace tenon::sdk;
using namespace std::chrono_literals;
using fixture::eventually;
using fixture::message;
using fixture::Rig;
using tenon::testing::Broker;
using tenon::testing::BrokerOptions;
using tenon::testing::Call;

namespace {

/// Collects the bodies that a group gets.
struct Collector {
  std::mutex mutex{};
  std::vector<std::string> bodies{};

  std::optional<PushConsumer> consumer{};

  void open(Client& client, const std::string& topic, std::string group = "c") {
    PushConsumerOptions options;
    options.group = std::move(group);
    options.subscriptions[topic] = Subscription();
    options.start = FromFirst{};
    auto opened =
        PushConsumer::concurrent(client, options, [this](std::span<const MessageView> batch) {
          const std::scoped_lock lock(mutex);
          for (const MessageView& m : batch) {
            bodies.emplace_back(m.body());
          }
          return Ack::success();
        });
    consumer.emplace(std::move(opened).value());
  }
  std::size_t count() {
    const std::scoped_lock lock(mutex);
    return bodies.size();
  }
};

}  // namespace

TEST_SUITE("testing/broker") {
  TEST_CASE("a hundred times started and stopped") {
    for (int i = 0; i < 100; ++i) {
      auto broker = Broker::start();
      REQUIRE(broker.has_value());
      CHECK_FALSE(broker->address().empty());
    }
  }

  TEST_CASE("what was sent is consumed") {
    Rig rig;
    for (int i = 0; i < 10; ++i) {
      CHECK(rig.producer.send(message("T", std::to_string(i))).has_value());
    }
    Collector got;
    got.open(rig.client, "T");
    CHECK(eventually([&] { return got.count() == 10; }));
    CHECK(rig.broker.requests(Call::kSend) == 10);
    CHECK(rig.broker.requests(Call::kPull) > 0);
  }

  TEST_CASE("two at once share nothing") {
    Rig one;
    Rig two;
    CHECK(one.broker.address() != two.broker.address());
    REQUIRE(one.producer.send(message("T", "of one")).has_value());
    REQUIRE(two.producer.send(message("T", "of two")).has_value());
    Collector first;
    Collector second;
    first.open(one.client, "T");
    second.open(two.client, "T");
    REQUIRE(eventually([&] { return first.count() == 1 && second.count() == 1; }));
    CHECK(first.bodies[0] == "of one");
    CHECK(second.bodies[0] == "of two");
  }

  TEST_CASE("an unknown topic is created by sending, or is not") {
    Rig rig;
    CHECK(rig.producer.send(message("New")).has_value());
    BrokerOptions strict;
    strict.create_topics = false;
    Rig closed(strict);
    const auto r = closed.producer.send(message("New"));
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().is(Errc::kNoRoute));
    CHECK(closed.broker.create_topic("New", 2).has_value());
    CHECK(closed.producer.queues("New").value().size() == 2);
  }

  TEST_CASE("an option that is wrong is named") {
    BrokerOptions options;
    options.delay_levels = "soon";
    const auto broker = Broker::start(options);
    REQUIRE_FALSE(broker.has_value());
    CHECK(broker.error().text().find("elay") != std::string::npos);
  }

  TEST_CASE("stopped: nobody listens; restarted: the client finds it by itself") {
    Rig rig;
    REQUIRE(rig.producer.send(message("T")).has_value());
    rig.broker.stop();
    SendOptions quick;
    quick.timeout = 500ms;
    CHECK_FALSE(rig.producer.send(message("T"), quick).has_value());
    rig.broker.stop();  // nothing happens
    REQUIRE(rig.broker.restart().has_value());
    CHECK(rig.producer.send(message("T")).has_value());
  }

  TEST_CASE("messages survive a restart if they are to be kept, otherwise the store is empty") {
    for (const bool keep : {true, false}) {
      BrokerOptions options;
      options.keep_messages = keep;
      Rig rig(options);
      for (int i = 0; i < 3; ++i) {
        REQUIRE(rig.producer.send(message("T")).has_value());
      }
      REQUIRE(rig.broker.restart().has_value());
      auto admin = Admin::open(rig.client).value();
      const auto end = admin.max_offset({"T", "broker-a", 0});
      REQUIRE(end.has_value());
      CHECK(*end == (keep ? 3 : 0));
    }
  }

  TEST_CASE("without a name server the known route works, a new one is found when it is back") {
    Rig rig;
    REQUIRE(rig.producer.send(message("T")).has_value());
    rig.broker.stop_name_server();
    CHECK(rig.producer.send(message("T")).has_value());
    SendOptions quick;
    quick.timeout = 500ms;
    CHECK_FALSE(rig.producer.send(message("Other"), quick).has_value());
    REQUIRE(rig.broker.restart_name_server().has_value());
    CHECK(eventually([&] { return rig.producer.send(message("Other"), quick).has_value(); }));
  }

  TEST_CASE("a retried message comes again as soon as the delay levels say, in a new group too") {
    BrokerOptions options;
    options.delay_levels = "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s";
    Rig rig(options);
    REQUIRE(rig.producer.send(message("T")).has_value());
    std::atomic<int> attempts{0};
    PushConsumerOptions group;
    group.group = "never_seen";
    group.subscriptions["T"] = Subscription();
    group.start = FromFirst{};
    auto consumer = PushConsumer::concurrent(
        rig.client, group, [&attempts](std::span<const MessageView> batch) {
          return ++attempts, batch[0].reconsume_times() == 0 ? Ack::retry() : Ack::success();
        });
    REQUIRE(consumer.has_value());
    // Not with the next look at all routes, which is up to 30 s away.
    const auto begin = std::chrono::steady_clock::now();
    CHECK(eventually([&] { return attempts.load() == 2; }));
    CHECK(std::chrono::steady_clock::now() - begin < 15s);
  }

  TEST_CASE("seventeen deliveries, then the message is a dead letter") {  // client §14.41
    BrokerOptions options;
    options.delay_levels = "0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s 0s";
    Rig rig(options);
    const auto dead = [&] {
      auto admin = Admin::open(rig.client).value();
      const auto end = admin.max_offset({"%DLQ%c", "broker-a", 0});
      return end ? *end : 0;
    };
    std::atomic<int> deliveries{0};
    std::atomic<int> counted{0};
    PushConsumerOptions group;
    group.group = "c";
    group.subscriptions["T"] = Subscription();
    group.start = FromFirst{};
    auto consumer =
        PushConsumer::concurrent(rig.client, group, [&](std::span<const MessageView> batch) {
          if (batch[0].body() == "hopeless") {
            return Ack::dead_letter();
          }
          counted += batch[0].reconsume_times() == deliveries++ ? 1 : 0;
          return Ack::retry();
        }).value();
    REQUIRE(rig.producer.send(message("T", "hopeless")).has_value());
    REQUIRE(eventually([&] { return dead() == 1; }));  // delay level -1: at once
    REQUIRE(rig.producer.send(message("T")).has_value());
    REQUIRE(eventually([&] { return dead() == 2; }));
    CHECK(deliveries.load() == 17);
    CHECK(counted.load() == 17);
    CHECK(consumer.close().has_value());
  }
}
