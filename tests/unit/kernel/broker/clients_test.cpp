// Membership, notices, locks and committed offsets over real connections.
#include "broker_harness.h"
#include "client/queue_locks.h"

#include "tenon/base/endian.h"
#include "tenon/proto/bodies_admin.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using namespace std::chrono_literals;
using C = proto::RequestCode;

namespace {

proto::Command members(std::string_view group) {
  proto::Command c;
  c.code = C::kGetConsumerListByGroup;
  c.set("consumerGroup", group);
  return c;
}

void check_notice(Client& client, std::string_view group) {
  const auto notice = client.notice(10s);
  REQUIRE(notice.has_value());
  CHECK(notice->code == C::kNotifyConsumerIdsChanged);
  CHECK(text_field(*notice, "consumerGroup") == group);
  CHECK((notice->flag & proto::kFlagOneway) != 0);
}

}  // namespace

TEST_SUITE("broker/clients") {
  TEST_CASE("all members hear of a new one, the new one first of all") {  // broker §23.41
    TestBroker b;
    Client first(b.port());
    CHECK(first.call(members("CG")).code == 1);
    REQUIRE(first.call(heartbeat_command(consumer_beat("A", "CG", "T"))).code == 0);
    check_notice(first, "CG");
    // The same again changes nothing.
    REQUIRE(first.call(heartbeat_command(consumer_beat("A", "CG", "T"))).code == 0);
    CHECK_FALSE(first.notice(0ms).has_value());

    Client second(b.port());
    const auto opaque = second.send(heartbeat_command(consumer_beat("B", "CG", "T")));
    check_notice(second, "CG");
    check_notice(first, "CG");
    CHECK(second.receive(opaque).code == 0);
    auto ids = proto::decode_consumer_ids(first.call(members("CG")).body);
    REQUIRE(ids.has_value());
    std::sort(ids.value().begin(), ids.value().end());
    CHECK(ids.value() == std::vector<std::string>{"A", "B"});

    SUBCASE("unregistering tells the rest") {
      proto::Command bye;
      bye.code = C::kUnregisterClient;
      bye.set("clientID", "B").set("consumerGroup", "CG");
      CHECK(second.call(bye).code == 0);
      check_notice(first, "CG");
      CHECK(proto::decode_consumer_ids(first.call(members("CG")).body).value().size() == 1);
    }
    SUBCASE("another topic set tells everybody") {
      REQUIRE(second.call(heartbeat_command(consumer_beat("B", "CG", "Other"))).code == 0);
      check_notice(first, "CG");
      check_notice(second, "CG");
    }
  }

  TEST_CASE("a lost connection leaves all its groups") {  // broker §23.41
    TestBroker b;
    Client first(b.port());
    REQUIRE(first.call(heartbeat_command(consumer_beat("A", "CG", "T"))).code == 0);
    check_notice(first, "CG");
    {
      Client second(b.port());
      REQUIRE(second.call(heartbeat_command(consumer_beat("B", "CG", "T"))).code == 0);
      check_notice(first, "CG");
    }
    check_notice(first, "CG");
    CHECK(proto::decode_consumer_ids(first.call(members("CG")).body).value() ==
          std::vector<std::string>{"A"});
  }

  TEST_CASE("a heartbeat creates the group and its retry topic") {
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(heartbeat_command(consumer_beat("A", "CG", "T"))).code == 0);
    proto::Command get;
    get.code = C::kGetTopicConfig;
    get.set("topic", "%RETRY%CG");
    const auto topic = c.call(get);
    CHECK(topic.code == 0);
    CHECK(topic.body.find("\"readQueueNums\":1,") != std::string::npos);
    proto::Command broken;
    broken.code = C::kHeartBeat;
    broken.body = "{not json";
    CHECK(c.call(broken).code == 1);
  }

  TEST_CASE("connections of consumers and producers for tools") {
    TestBroker b;
    Client c(b.port());
    proto::Command consumers;
    consumers.code = C::kGetConsumerConnectionList;
    consumers.set("consumerGroup", "CG");
    proto::Command producers;
    producers.code = C::kGetProducerConnectionList;
    producers.set("producerGroup", "PG");
    CHECK(c.call(consumers).code == 206);
    CHECK(c.call(producers).code == 1);
    auto beat = consumer_beat("A", "CG", "T", "x || y");
    beat.producer_groups = {"PG"};
    REQUIRE(c.call(heartbeat_command(beat)).code == 0);
    const auto r = c.call(consumers);
    CHECK(r.code == 0);
    CHECK(r.body.find("\"clientId\":\"A\"") != std::string::npos);
    CHECK(r.body.find("\"consumeType\":\"CONSUME_PASSIVELY\"") != std::string::npos);
    CHECK(r.body.find("\"subString\":\"x || y\"") != std::string::npos);
    CHECK(c.call(producers).body.find("\"clientId\":\"A\"") != std::string::npos);
  }

  TEST_CASE("locks: owner renews, others wait for unlock or sixty seconds") {  // broker §23.44
    QueueLocks locks(60'000);
    const proto::MessageQueue q{"T", "b", 0};
    proto::LockRequest a{"g", "A", {q}};
    proto::LockRequest b{"g", "B", {q}};
    CHECK(locks.lock(a, 1'000).size() == 1);
    CHECK(locks.lock(b, 1'000).empty());
    CHECK(locks.lock(a, 50'000).size() == 1);
    CHECK(locks.lock(b, 110'000).empty());  // exactly 60 s: not expired
    CHECK(locks.lock(b, 110'001).size() == 1);
    locks.unlock(a);  // not the owner
    CHECK(locks.lock(a, 110'002).empty());
    locks.unlock(b);
    CHECK(locks.lock(a, 110'003).size() == 1);
    CHECK(locks.lock({"other", "B", {q}}, 110'003).size() == 1);  // per group
  }

  TEST_CASE("the lock of a client that is gone lapses earlier, if that is configured") {
    QueueLocks locks(60'000, 40'000);
    const proto::MessageQueue q{"T", "b", 0};
    const proto::LockRequest a{"g", "A", {q}};
    const proto::LockRequest b{"g", "B", {q}};
    bool a_online = true;
    const auto online = [&](std::string_view group, std::string_view id) {
      CHECK(group == "g");
      CHECK(id == "A");
      return a_online;
    };
    REQUIRE(locks.lock(a, 1'000, online).size() == 1);
    CHECK(locks.lock(b, 41'001, online).empty());
    a_online = false;
    CHECK(locks.lock(b, 41'000, online).empty());
    CHECK(locks.lock(b, 41'001, online).size() == 1);
    CHECK(locks.size() == 1);
    locks.sweep(101'001);
    CHECK(locks.size() == 1);
    locks.sweep(101'002);
    CHECK(locks.size() == 0);
  }

  TEST_CASE("locks over the wire") {
    TestBroker b;
    Client c(b.port());
    proto::Command lock;
    lock.code = C::kLockBatchMq;
    lock.body = proto::encode(proto::LockRequest{"g", "A", {{"T", "broker-t", 0}}});
    const auto r = c.call(lock);
    CHECK(r.code == 0);
    CHECK(proto::decode_lock_answer(r.body).value().size() == 1);
    lock.code = C::kUnlockBatchMq;
    CHECK(c.call(lock).code == 0);
  }

  TEST_CASE("committed offsets: unknown ones start at 0 on a young topic") {  // broker §23.36
    TestBroker b;
    Client c(b.port());
    proto::Command query;
    query.code = C::kQueryConsumerOffset;
    query.set("consumerGroup", "CG").set("topic", "T").set("queueId", std::int64_t{0});
    const auto unknown_topic = c.call(query);
    CHECK(unknown_topic.code == 0);
    CHECK(long_field(unknown_topic, "offset") == 0);
    auto strict = query;
    strict.set("setZeroIfNotFound", "false");
    const auto truth = c.call(strict);
    CHECK(truth.code == 22);
    CHECK(truth.remark == "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first");
    proto::Command update;
    update.code = C::kUpdateConsumerOffset;
    update.set("consumerGroup", "CG").set("topic", "T").set("queueId", std::int64_t{0});
    update.set("commitOffset", std::int64_t{42});
    CHECK(c.call(update).code == 0);
    CHECK(long_field(c.call(query), "offset") == 42);
    proto::Command all;
    all.code = C::kGetAllConsumerOffset;
    CHECK(c.call(all).body.find("\"T@CG\":{0:42}") != std::string::npos);
  }

  TEST_CASE("a cold queue answers 22 to a new group") {  // broker §23.36
    BrokerConfig config = test_config("");
    config.memory_bytes = 100 * 1000;
    TestBroker b(config);
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    REQUIRE(c.call(send_command({.queue_id = 1, .body = std::string(100'000, 'x')})).code == 0);
    proto::Command query;
    query.code = C::kQueryConsumerOffset;
    query.set("consumerGroup", "CG").set("topic", "T").set("queueId", std::int64_t{0});
    CHECK(c.call(query).code == 22);
    REQUIRE(c.call(send_command({.queue_id = 2})).code == 0);
    query.fields.back().second = "2";
    CHECK(c.call(query).code == 0);
  }

  TEST_CASE("members with different topics take them from each other, each time a change") {
    // broker §23.43
    TestBroker b;
    Client first(b.port());
    Client second(b.port());
    REQUIRE(first.call(heartbeat_command(consumer_beat("A", "CG", "T1"))).code == 0);
    check_notice(first, "CG");
    REQUIRE(second.call(heartbeat_command(consumer_beat("B", "CG", "T2"))).code == 0);
    check_notice(first, "CG");
    check_notice(second, "CG");
    proto::Command list;
    list.code = C::kGetConsumerConnectionList;
    list.set("consumerGroup", "CG");
    for (int i = 0; i < 3; ++i) {
      REQUIRE(first.call(heartbeat_command(consumer_beat("A", "CG", "T1"))).code == 0);
      check_notice(first, "CG");
      check_notice(second, "CG");
      auto body = first.call(list).body;
      CHECK(body.find("\"T1\":{") != std::string::npos);
      CHECK(body.find("\"T2\":{") == std::string::npos);
      REQUIRE(second.call(heartbeat_command(consumer_beat("B", "CG", "T2"))).code == 0);
      check_notice(first, "CG");
      check_notice(second, "CG");
      body = first.call(list).body;
      CHECK(body.find("\"T1\":{") == std::string::npos);
      CHECK(body.find("\"T2\":{") != std::string::npos);
    }
  }

  TEST_CASE("what each member subscribes is told to tools that ask, and a difference is counted") {
    TestBroker b;
    Client first(b.port());
    Client second(b.port());
    proto::Command info;
    info.code = C::kGetBrokerRuntimeInfo;
    const auto counter = [&](const char* key) {
      return proto::decode_kv_table(first.call(info).body).value().at(key);
    };
    proto::Command list;
    list.code = C::kGetConsumerConnectionList;
    list.set("consumerGroup", "CG");
    auto detailed = list;
    detailed.set("withSubscriptions", "true");
    REQUIRE(first.call(heartbeat_command(consumer_beat("A", "CG", "T", "x"))).code == 0);
    REQUIRE(second.call(heartbeat_command(consumer_beat("B", "CG", "T", "x"))).code == 0);
    CHECK(counter("subscriptionMismatchGroups") == "0");
    CHECK(first.call(detailed).body.find("\"subscriptionMismatch\":false") != std::string::npos);
    for (int i = 0; i < 3; ++i) {  // once, not at each heartbeat
      REQUIRE(second.call(heartbeat_command(consumer_beat("B", "CG", "T", "y", 2))).code == 0);
      REQUIRE(first.call(heartbeat_command(consumer_beat("A", "CG", "T", "x"))).code == 0);
      CHECK(counter("subscriptionMismatchGroups") == "1");
      CHECK(counter("subscriptionMismatchTotal") == "1");
    }
    const auto connections = proto::decode_consumer_connection(first.call(detailed).body);
    REQUIRE(connections.has_value());
    CHECK(connections.value().mismatch == true);
    REQUIRE(connections.value().connections.size() == 2);
    CHECK(connections.value().connections[0].subscriptions->at(0).sub_string == "x");
    CHECK(connections.value().connections[1].subscriptions->at(0).sub_string == "y");
    CHECK(first.call(list).body.find("subscriptionSet") == std::string::npos);
    REQUIRE(first.call(heartbeat_command(consumer_beat("A", "CG", "T", "y", 3))).code == 0);
    CHECK(counter("subscriptionMismatchGroups") == "0");
    CHECK(counter("subscriptionMismatchTotal") == "1");
  }

  TEST_CASE("a retry topic that only one member subscribes is no difference") {
    TestBroker b;
    Client first(b.port());
    Client second(b.port());
    auto with_retry = consumer_beat("A", "CG", "T");
    with_retry.consumers[0].subscriptions.push_back({.topic = "%RETRY%CG"});
    REQUIRE(first.call(heartbeat_command(with_retry)).code == 0);
    REQUIRE(second.call(heartbeat_command(consumer_beat("B", "CG", "T"))).code == 0);
    proto::Command info;
    info.code = C::kGetBrokerRuntimeInfo;
    CHECK(proto::decode_kv_table(first.call(info).body).value().at("subscriptionMismatchGroups") ==
          "0");
  }

  TEST_CASE("heartbeats as old clients of all languages write them make members that are served") {
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({.properties = "TAGS\x01"
                                               "TagA"}))
                .code == 0);
    proto::Command beat;
    beat.code = C::kHeartBeat;
    std::string group;
    SUBCASE("Java 3.0: without kind of expression, unit mode and producers") {
      group = "Old3";
      beat.version = 3;
      beat.body =
          R"({"clientID":"10.0.0.1@DEFAULT","consumerDataSet":[{"consumeFromWhere":)"
          R"("CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST","consumeType":"CONSUME_PASSIVELY",)"
          R"("groupName":"Old3","messageModel":"CLUSTERING","subscriptionDataSet":[{"codeSet":[2598919],)"
          R"("subString":"TagA","subVersion":5,"tagsSet":["TagA"],"topic":"T"}]}]})";
    }
    SUBCASE("Java 4.2: with what came until then, the last subscription counts") {
      group = "Old4";
      beat.version = 253;
      beat.body =
          R"({"clientID":"10.0.0.1@2@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",)"
          R"("consumeType":"CONSUME_PASSIVELY","groupName":"Old4","messageModel":"CLUSTERING",)"
          R"("subscriptionDataSet":[{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG",)"
          R"("subString":"TagA","subVersion":5,"tagsSet":["TagA"],"topic":"T"}],"unitMode":false}],)"
          R"("producerDataSet":[{"groupName":"CLIENT_INNER_PRODUCER"}]})";
    }
    SUBCASE("C++ 1.x: ordinals, numbers as text") {
      group = "OldCpp";
      beat.version = 333;
      beat.language = proto::Language::kCpp;
      beat.body =
          R"({"clientID":"10.0.0.1@7","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,)"
          R"("groupName":"OldCpp","messageModel":1,"subscriptionDataSet":[{"codeSet":["2598919"],)"
          R"("subString":"TagA","subVersion":"5","tagsSet":["TagA"],"topic":"T"}]}]})";
    }
    SUBCASE("Node: a version of long ago, in Java's name") {
      group = "OldNode";
      beat.version = 121;
      beat.body =
          R"({"clientID":"10.0.0.1@9","consumerDataSet":[{"groupName":"OldNode","consumeType":)"
          R"("CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",)"
          R"("subscriptionDataSet":[{"topic":"T","subString":"TagA","classFilterMode":false,)"
          R"("tagsSet":["TagA"],"codeSet":[2598919],"subVersion":5}],"unitMode":false}],)"
          R"("producerDataSet":[]})";
    }
    CAPTURE(group);
    REQUIRE(c.call(beat).code == 0);
    check_notice(c, group);
    CHECK(proto::decode_consumer_ids(c.call(members(group)).body).value().size() == 1);
    // By its heartbeat alone, in its own version of the pull.
    const auto pulled = c.call(pull_command({.group = group, .sys_flag = 0, .sub_version = 5}));
    CHECK(pulled.code == 0);
    CHECK(messages_of(pulled).size() == 1);
    CHECK(c.call(beat).code == 0);
    CHECK_FALSE(c.notice(0ms).has_value());
  }

  TEST_CASE("a short heartbeat of a 5.x client keeps the subscriptions") {
    TestBroker b;
    Client c(b.port());
    proto::Command beat;
    beat.code = C::kHeartBeat;
    beat.body =
        "{\"clientID\":\"A\",\"consumerDataSet\":[{\"groupName\":\"CG\"}],"
        "\"heartbeatFingerprint\":17,\"withoutSub\":true}";
    CHECK(text_field(c.call(beat), "IS_SUB_CHANGE") == "true");  // not a member yet
    REQUIRE(c.call(heartbeat_command(consumer_beat("A", "CG", "T"))).code == 0);
    const auto r = c.call(beat);
    CHECK(r.code == 0);
    CHECK(text_field(r, "IS_SUB_CHANGE") == "false");
    proto::Command list;
    list.code = C::kGetConsumerConnectionList;
    list.set("consumerGroup", "CG");
    CHECK(c.call(list).body.find("\"T\":{") != std::string::npos);
  }

  TEST_CASE("clients without a heartbeat are dropped, closed, and the rest hears of it") {
    // broker §23.42
    ManualClock clock;
    BrokerConfig config = test_config("");
    config.channel_expired_ms = 1'200;  // scanned twelve times in that
    TestBroker b(config, &clock);
    Client silent(b.port());
    Client alive(b.port());
    Client producer(b.port());
    proto::HeartbeatData producing;
    producing.client_id = "P";
    producing.producer_groups = {"PG"};
    REQUIRE(silent.call(heartbeat_command(consumer_beat("A", "CG", "T"))).code == 0);
    REQUIRE(producer.call(heartbeat_command(producing)).code == 0);
    clock.advance_ms(1'000);
    REQUIRE(alive.call(heartbeat_command(consumer_beat("B", "CG", "T"))).code == 0);
    check_notice(alive, "CG");
    clock.advance_ms(201);
    CHECK(producer.closed_by_server(10s));
    proto::Command producers;
    producers.code = C::kGetProducerConnectionList;
    producers.set("producerGroup", "PG");
    CHECK(alive.call(producers).code == 1);
    CHECK(silent.closed_by_server(10s));
    check_notice(alive, "CG");
    CHECK(proto::decode_consumer_ids(alive.call(members("CG")).body).value() ==
          std::vector<std::string>{"B"});
  }
}
