#include "client_core.h"
#include "consumer_core.h"
#include "fake_cluster.h"
#include "fake_connection.h"
#include "producer_core.h"

#include "tenon/base/endian.h"
#include "tenon/proto/bodies_admin.h"

#include <doctest/doctest.h>

#include <future>
#include <set>
#include <string>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;
namespace proto = tenon::proto;
namespace net = tenon::net;
using proto::RequestCode;

namespace {

proto::Command request(RequestCode::Value code) {
  proto::Command c;
  c.code = code;
  c.opaque = 99;
  return c;
}

struct Consumer {
  Consumer(detail::ClientCore& client, PushConsumerOptions options, PushConsumer::Listener listener)
      : core(
            detail::ConsumerCore::create(client, std::move(options), std::move(listener)).value()) {
    client.add(core).value();
    core->start().value();
  }
  ~Consumer() { core->stop(); }
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;
  std::shared_ptr<detail::ConsumerCore> core;
};

PushConsumerOptions options_for(const std::string& group) {
  PushConsumerOptions o;
  o.group = group;
  o.subscriptions["T"] = Subscription{.expression = "A || B"};
  return o;
}

Ack nothing(std::span<const MessageView>) {
  return Ack::success();
}

}  // namespace

TEST_SUITE("sdk/client") {
  TEST_CASE("options are checked before anything starts") {
    CHECK(Client::connect({.name_servers = "a:1", .io_threads = 0})
              .error()
              .is(Errc::kInvalidArgument));
    CHECK(Client::connect({.name_servers = "a:1", .connections_per_broker = 65})
              .error()
              .is(Errc::kInvalidArgument));
    CHECK(Client::connect({.name_servers = ";"}).error().is(Errc::kNoNameServer));
    CHECK(Client::connect({.name_servers = "a:1", .api_timeout = 0ms})
              .error()
              .is(Errc::kInvalidArgument));
  }

  TEST_CASE("routes and heartbeats every 30 s, rebalance every 20 s, offsets every 5 s") {
    FakeCluster cluster;  // client §14.4
    cluster.add_topic("T", {"a"}, 1);
    tenon::ManualClock clock;
    const auto client = cluster.client(&clock);
    cluster.set_members({client->id()});
    cluster.set_offset("g", {"T", "a", 0}, 7);
    Consumer consumer(*client, options_for("g"), nothing);
    REQUIRE(eventually([&] { return consumer.core->owned().size() == 1; }));
    const auto count = [&](RequestCode::Value code) {
      // round trips behind everything that timers and worker have started before
      std::promise<void> worked;
      client->worker().post([&] { worked.set_value(); });
      worked.get_future().wait();
      client->calls().ask("a:10911", request(RequestCode::kGetBrokerRuntimeInfo), 1s).value();
      return cluster.requests(code).size();
    };
    const auto routes_of_topic = [&] {
      std::size_t n = 0;
      for (const Request& r : cluster.requests(RequestCode::kGetRouteinfoByTopic)) {
        n += r.command.field("topic") == "T" ? 1 : 0;
      }
      return n;
    };
    const auto step = [&](std::int64_t ms) {
      for (std::int64_t i = 0; i < ms; i += 500) {
        clock.advance_ms(500);
        client->timers().run_due();
        count(RequestCode::kHeartBeat);
      }
    };
    step(1'000);  // first heartbeat
    const auto routes = routes_of_topic();
    const auto beats = count(RequestCode::kHeartBeat);
    const auto members = count(RequestCode::kGetConsumerListByGroup);
    const auto offsets = count(RequestCode::kUpdateConsumerOffset);
    step(59'000);
    CHECK(count(RequestCode::kHeartBeat) - beats == 1);
    CHECK(count(RequestCode::kUpdateConsumerOffset) - offsets == 12);
    CHECK(count(RequestCode::kGetConsumerListByGroup) - members == 3);  // at 20, 40 and 60 s
    CHECK(routes_of_topic() - routes == 2);
    step(2'000);
    CHECK(count(RequestCode::kHeartBeat) - beats == 2);
  }

  TEST_CASE("a second group of the same name is refused, after the first is gone it is not") {
    FakeCluster cluster;
    const auto client = cluster.client();
    auto a = detail::ProducerCore::create(*client, {.group = "g"}).value();
    CHECK(client->add(a).has_value());
    const auto b = detail::ProducerCore::create(*client, {.group = "g"}).value();
    CHECK(client->add(b).error().is(Errc::kConflict));
    a.reset();
    CHECK(client->add(b).has_value());
  }

  TEST_CASE("the heartbeat goes to masters; to slaves only with a consumer") {
    FakeCluster cluster;  // client §14.8, §14.10
    cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      if (r.command.code != RequestCode::kGetRouteinfoByTopic || r.command.field("topic") != "T") {
        return std::nullopt;
      }
      proto::TopicRoute route;
      route.queues = {{"a", 1, 1, 6, 0}};
      route.brokers = {{"c", "a", {{0, "a:10911"}, {1, "slave:10911"}}}};
      proto::Command c;
      c.body = proto::encode(route, false);
      return Outcome::ok(std::move(c));
    });
    const auto client = cluster.client();
    client->routes().fetch_blocking("T").value();
    client->heartbeat_blocking();
    CHECK(cluster.requests(RequestCode::kHeartBeat).empty());  // nobody is there
    const auto producer = detail::ProducerCore::create(*client, {.group = "pg"}).value();
    client->add(producer).value();
    client->heartbeat_blocking();
    auto beats = cluster.requests(RequestCode::kHeartBeat);
    REQUIRE(beats.size() == 1);
    CHECK(beats[0].address == "a:10911");
    CHECK(
        beats[0].command.body ==
        R"({"clientID":")" + client->id() +
            R"(","consumerDataSet":[],"producerDataSet":[{"groupName":"pg"},{"groupName":"CLIENT_INNER_PRODUCER"}]})");
    {
      Consumer consumer(*client, options_for("g"), nothing);
      beats = cluster.requests(RequestCode::kHeartBeat);
      std::set<std::string> targets;
      for (const Request& r : beats) {
        targets.insert(r.address);
      }
      CHECK(targets == std::set<std::string>{"a:10911", "slave:10911"});
      const auto heartbeat = proto::decode_heartbeat(beats.back().command.body);
      REQUIRE(heartbeat.has_value());
      REQUIRE(heartbeat.value().consumers.size() == 1);
      const auto& c = heartbeat.value().consumers[0];
      CHECK(c.group == "g");
      CHECK(c.consume_type == proto::ConsumeType::kPassively);
      REQUIRE(c.subscriptions.size() == 2);
      CHECK(c.subscriptions[0].topic == "%RETRY%g");
      CHECK(c.subscriptions[0].sub_string == "*");
      CHECK(c.subscriptions[1].sub_string == "A || B");
      CHECK(c.subscriptions[1].tags == std::set<std::string>{"A", "B"});
      CHECK(c.subscriptions[1].codes == std::set<std::int32_t>{65, 66});
      CHECK(c.subscriptions[1].sub_version > 1'600'000'000'000);   // milliseconds,
      CHECK(c.subscriptions[1].sub_version < 16'000'000'000'000);  // not nanoseconds
    }
    // leaving the group is told to every broker
    const auto left = cluster.requests(RequestCode::kUnregisterClient);
    CHECK(left.size() == 2);
    CHECK(left[0].command.field("consumerGroup") == "g");
    CHECK(left[0].command.field("clientID") == client->id());
  }

  TEST_CASE("the first name server is dead: the second is asked and stays") {
    FakeCluster cluster;  // client §14.12
    cluster.add_topic("T", {"a"}, 1);
    std::string dead;
    cluster.set_hook([&dead](const Request& r) -> std::optional<Outcome> {
      if (r.command.code == RequestCode::kGetRouteinfoByTopic) {
        if (dead.empty()) {
          dead = r.address;
        }
        if (r.address == dead) {
          return Outcome::fail(tenon::Errc::kNotReady);
        }
      }
      return std::nullopt;
    });
    ClientOptions options;
    options.name_servers = "ns1:9876;ns2:9876";
    const auto client = cluster.client(nullptr, options);
    CHECK(client->routes().fetch_blocking("T").has_value());
    CHECK(client->routes().fetch_blocking("T").has_value());
    const auto asked = cluster.requests(RequestCode::kGetRouteinfoByTopic);
    REQUIRE(asked.size() == 3);
    CHECK(asked[0].address != asked[1].address);
    CHECK(asked[1].address == asked[2].address);
  }

  TEST_CASE("all name servers dead: an error that says so, what is known stays") {  // client §9.1
    FakeCluster cluster;
    cluster.add_topic("T", {"a"}, 2);
    const auto client = cluster.client();
    client->routes().fetch_blocking("T").value();
    cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kGetRouteinfoByTopic
                 ? std::optional(Outcome::fail(tenon::Errc::kTimeout))
                 : std::nullopt;
    });
    CHECK(client->routes().fetch_blocking("T").error().is(Errc::kNoNameServer));
    REQUIRE(client->routes().cached("T") != nullptr);
    CHECK(client->routes().cached("T")->publish.size() == 2);
    CHECK(client->routes().resolve_blocking("T", "TBW102", 4).has_value());
  }

  TEST_CASE("an unknown topic takes the route of TBW102; without that there is none") {
    FakeCluster cluster;  // client §14.6
    const auto client = cluster.client();
    CHECK(client->routes().resolve_blocking("new", "TBW102", 4).error().is(Errc::kNoRoute));
    cluster.add_topic("TBW102", {"a", "b"}, 8, 7);
    const auto info = client->routes().resolve_blocking("new", "TBW102", 4);
    REQUIRE(info.has_value());
    CHECK((*info)->publish.size() == 8);
    CHECK((*info)->topic == "new");
    CHECK((*info)->from_template);
    cluster.add_topic("new", {"a"}, 4);
    CHECK(client->routes().fetch_blocking("new").has_value());
    CHECK(client->routes().cached("new")->publish.size() == 4);
  }

  TEST_CASE("one request for many who ask for a route at the same time") {
    FakeCluster cluster;
    cluster.add_topic("T", {"a"}, 1);
    std::atomic<bool> open{false};
    cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      if (r.command.code == RequestCode::kGetRouteinfoByTopic) {
        open.wait(false);
      }
      return std::nullopt;
    });
    const auto client = cluster.client();
    std::atomic<int> answered{0};
    for (int i = 0; i < 10; ++i) {
      client->routes().fetch("T", [&](Result<TopicInfoPtr> r) { answered += r ? 1 : 0; });
    }
    open = true;
    open.notify_all();
    CHECK(eventually([&] { return answered.load() == 10; }));
    CHECK(cluster.requests(RequestCode::kGetRouteinfoByTopic).size() == 1);
  }

  TEST_CASE("addresses that no route names are forgotten") {
    FakeCluster cluster;
    cluster.add_topic("T", {"a", "b"}, 1);
    const auto client = cluster.client();
    client->routes().fetch_blocking("T").value();
    CHECK(client->routes().address("b", 0, true) == "b:10911");
    CHECK(client->routes().address("b", 1, true).empty());
    CHECK(client->routes().address("b", 1, false) == "b:10911");
    cluster.add_topic("T", {"a"}, 1);
    client->routes().fetch_blocking("T").value();
    CHECK(client->routes().clean_addresses() == std::vector<std::string>{"b:10911"});
    CHECK(client->routes().address("b", 0, false).empty());
  }
}

TEST_SUITE("sdk/server_requests") {
  TEST_CASE("221, 307, 309 and 326 are answered, 39, 40 and 220 are not, others get 3") {
    FakeCluster cluster;  // client §14.9
    cluster.add_topic("T", {"a"}, 1);
    const auto client = cluster.client();
    cluster.set_members({client->id()});
    cluster.set_offset("g", {"T", "a", 0}, 7);
    std::string consumed;
    Consumer consumer(*client, options_for("g"), [&](std::span<const MessageView> batch) {
      consumed = std::string(batch[0].body());
      return consumed == "later" ? Ack::retry() : Ack::success();
    });
    REQUIRE(eventually([&] { return consumer.core->owned().size() == 1; }));

    proto::Command status = request(RequestCode::kGetConsumerStatusFromClient);
    status.set("topic", std::string_view("T")).set("group", std::string_view("g"));
    proto::Command answer = ask(*client, status);
    CHECK(answer.code == 0);
    CHECK(answer.opaque == 99);
    CHECK(answer.flag == proto::kFlagResponse);
    const auto offsets = proto::decode_consumer_status(answer.body);
    REQUIRE(offsets.has_value());
    CHECK(offsets.value().queues.at({"T", "a", 0}) == 7);

    proto::Command info = request(RequestCode::kGetConsumerRunningInfo);
    info.set("consumerGroup", std::string_view("g"));
    answer = ask(*client, info);
    CHECK(answer.code == 0);
    const auto running = proto::decode_consumer_running_info(answer.body);
    REQUIRE(running.has_value());
    CHECK(running.value().queues.at({"T", "a", 0}).commit_offset == 7);
    CHECK(running.value().properties.at("PROP_CONSUME_TYPE") == "CONSUME_PASSIVELY");
    CHECK(running.value().subscriptions.size() == 2);
    info = request(RequestCode::kGetConsumerRunningInfo);
    info.set("consumerGroup", std::string_view("other"));
    answer = ask(*client, info);
    CHECK(answer.code == 1);
    CHECK(answer.remark == "The Consumer Group <other> not exist in this consumer");

    for (const std::string body : {"now", "later"}) {
      proto::Command direct = request(RequestCode::kConsumeMessageDirectly);
      direct.set("consumerGroup", std::string_view("g")).set("brokerName", std::string_view("a"));
      proto::MessageRecord r;
      r.topic = "T";
      r.body = tenon::as_bytes(body);
      direct.body.resize(proto::encoded_message_bytes(r));
      proto::encode_message(r, reinterpret_cast<std::byte*>(direct.body.data()));
      answer = ask(*client, direct);
      CHECK(answer.code == 0);
      CHECK(consumed == body);
      const auto result = proto::decode_consume_directly_result(answer.body);
      REQUIRE(result.has_value());
      CHECK(result.value().result ==
            (body == "now" ? proto::ConsumeResult::kSuccess : proto::ConsumeResult::kLater));
    }

    CHECK(ask(*client, request(RequestCode::kPushReplyMessageToClient)).code == 1);
    CHECK(ask(*client, request(RequestCode::kGetMaxOffset)).code == 3);
    CHECK(ask(*client, request(RequestCode::kCheckTransactionState), 0ms).code == -1);
    CHECK(ask(*client, request(RequestCode::kResetConsumerClientOffset)).code == -1);

    const auto before = cluster.requests(RequestCode::kGetConsumerListByGroup).size();
    CHECK(ask(*client, request(RequestCode::kNotifyConsumerIdsChanged)).code == -1);
    CHECK(eventually(
        [&] { return cluster.requests(RequestCode::kGetConsumerListByGroup).size() > before; }));
  }

  TEST_CASE("220 in both forms: the new offset wins over running batches") {  // client §14.46
    for (const bool as_list : {false, true}) {
      CAPTURE(as_list);
      FakeCluster cluster;
      cluster.add_topic("T", {"a"}, 1);
      const Queue queue{"T", "a", 0};
      for (int i = 0; i < 5; ++i) {
        cluster.put(queue,
                    "m",
                    "TAGS\x01"
                    "A");
      }
      const auto client = cluster.client();
      cluster.set_members({client->id()});
      cluster.set_offset("g", queue, 4);
      std::atomic<int> entered{0};
      std::atomic<bool> release{false};
      Consumer consumer(*client, options_for("g"), [&](std::span<const MessageView>) {
        ++entered;
        entered.notify_all();
        release.wait(false);
        return Ack::success();
      });
      entered.wait(0);  // offset 4 is in work
      proto::Command reset = request(RequestCode::kResetConsumerClientOffset);
      reset.set("topic", std::string_view("T")).set("group", std::string_view("g"));
      reset.body = proto::encode_reset_offset({{{"T", "a", 0}, 1}}, as_list);
      ask(*client, reset);
      CHECK(eventually([&] { return cluster.offset("g", queue) == 1; }));
      CHECK(eventually([&] { return entered.load() >= 2; }));  // 1 is delivered again
      release = true;
      release.notify_all();
      CHECK(eventually([&] { return entered.load() == 1 + 4; }));  // 1, 2, 3, 4
    }
  }
}
