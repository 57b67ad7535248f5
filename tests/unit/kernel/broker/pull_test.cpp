#include "broker_harness.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using namespace std::chrono_literals;

namespace {

void check_offsets(const proto::Command& r, std::int64_t next, std::int64_t min, std::int64_t max) {
  CHECK(long_field(r, "nextBeginOffset") == next);
  CHECK(long_field(r, "minOffset") == min);
  CHECK(long_field(r, "maxOffset") == max);
  CHECK(long_field(r, "suggestWhichBrokerId") == 0);
}

}  // namespace

TEST_SUITE("broker/pull") {
  TEST_CASE("statuses, codes and offsets of a queue") {
    // broker §23.30, store §26.17
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    REQUIRE(c.call(send_command({})).code == 0);

    const auto found = c.call(pull_command({}));
    CHECK(found.code == 0);
    CHECK(found.remark == "FOUND");
    check_offsets(found, 2, 0, 2);
    CHECK(messages_of(found).size() == 2);

    const auto one = c.call(pull_command({.max = 1}));
    check_offsets(one, 1, 0, 2);

    const auto end = c.call(pull_command({.offset = 2}));
    CHECK(end.code == 19);
    CHECK(end.remark == "OFFSET_OVERFLOW_ONE");
    check_offsets(end, 2, 0, 2);

    const auto beyond = c.call(pull_command({.offset = 7}));
    CHECK(beyond.code == 21);
    CHECK(beyond.remark == "OFFSET_OVERFLOW_BADLY");
    check_offsets(beyond, 2, 0, 2);

    const auto below = c.call(pull_command({.offset = -3}));
    CHECK(below.code == 21);
    CHECK(below.remark == "OFFSET_TOO_SMALL");
    check_offsets(below, 0, 0, 2);

    const auto empty = c.call(pull_command({.queue_id = 3}));
    CHECK(empty.code == 19);
    CHECK(empty.remark == "NO_MESSAGE_IN_QUEUE");
    check_offsets(empty, 0, 0, 0);

    const auto moved = c.call(pull_command({.queue_id = 3, .offset = 5}));
    CHECK(moved.code == 21);
    check_offsets(moved, 0, 0, 0);
  }

  TEST_CASE("checks in Java's order, codes and remarks") {
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    const auto refused = [&](const PullSpec& s, std::int32_t code, std::string_view remark) {
      const auto r = c.call(pull_command(s));
      CHECK_MESSAGE(r.code == code, r.remark);
      CHECK_MESSAGE(r.remark.find(remark) != std::string::npos, r.remark);
    };
    refused({.topic = "Unknown"}, 17, "topic[Unknown] not exist");
    refused({.queue_id = 4}, 1, "queueId[4] is illegal, topic:[T] topicConfig.readQueueNums:[4]");
    refused({.queue_id = -1}, 1, "is illegal");
    refused({.sys_flag = 0}, 24, "the consumer's group info not exist");
    REQUIRE(c.call(heartbeat_command(consumer_beat("id", "CG", "Other"))).code == 0);
    refused({.sys_flag = 0}, 24, "the consumer's subscription not exist");
    REQUIRE(c.call(heartbeat_command(consumer_beat("id", "CG", "T", "*", 5))).code == 0);
    refused({.sys_flag = 0, .sub_version = 6}, 25, "the consumer's subscription not latest");
    CHECK(c.call(pull_command({.sys_flag = 0, .sub_version = 5})).code == 0);
    refused({.subscription = "a > 1", .expression_type = "SQL92"},
            1,
            "The broker does not support consumer to filter message by SQL92");
  }

  TEST_CASE("group and topic switches") {
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    proto::SubscriptionGroupConfig group;
    group.name = "CG";
    proto::Command update;
    update.code = proto::RequestCode::kUpdateAndCreateSubscriptiongroup;
    SUBCASE("consuming is switched off") {
      group.consume_enable = false;
      update.body = proto::encode(group);
      REQUIRE(c.call(update).code == 0);
      const auto r = c.call(pull_command({}));
      CHECK(r.code == 16);
      CHECK(r.remark == "subscription group no permission, CG");
    }
    SUBCASE("broadcast is not allowed") {
      group.consume_broadcast_enable = false;
      update.body = proto::encode(group);
      REQUIRE(c.call(update).code == 0);
      auto beat = consumer_beat("id", "CG", "T");
      beat.consumers[0].message_model = proto::MessageModel::kBroadcasting;
      REQUIRE(c.call(heartbeat_command(beat)).code == 0);
      const auto r = c.call(pull_command({.sys_flag = 0}));
      CHECK(r.code == 16);
      CHECK(r.remark == "the consumer group[CG] can not consume by broadcast way");
    }
    SUBCASE("the topic is not readable") {
      proto::Command topic;
      topic.code = proto::RequestCode::kUpdateAndCreateTopic;
      topic.set("topic", "T").set("defaultTopic", "TBW102").set("perm", std::int64_t{2});
      topic.set("readQueueNums", std::int64_t{4}).set("writeQueueNums", std::int64_t{4});
      topic.set("topicFilterType", "SINGLE_TAG");
      REQUIRE(c.call(topic).code == 0);
      const auto r = c.call(pull_command({}));
      CHECK(r.code == 16);
      CHECK(r.remark == "the topic[T] pulling message is forbidden");
    }
  }

  TEST_CASE("a group with an SQL subscription is refused while such filters are off") {
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    auto beat = consumer_beat("id", "CG", "T");
    beat.consumers[0].subscriptions[0].expression_type = "SQL92";
    beat.consumers[0].subscriptions[0].sub_string = "a > 1";
    REQUIRE(c.call(heartbeat_command(beat)).code == 0);
    const auto r = c.call(pull_command({.sys_flag = 0}));
    CHECK(r.code == 1);
    CHECK(r.remark == "The broker does not support consumer to filter message by SQL92");
  }

  TEST_CASE("with such filters allowed but no plug-in the expression is reported") {
    BrokerConfig config = test_config("");
    config.property_filter = true;
    TestBroker b(config);
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    CHECK(c.call(pull_command({.subscription = "a > 1", .expression_type = "SQL92"})).code == 23);
    auto beat = consumer_beat("id", "CG", "T");
    beat.consumers[0].subscriptions[0].expression_type = "SQL92";
    REQUIRE(c.call(heartbeat_command(beat)).code == 0);
    CHECK(c.call(pull_command({.sys_flag = 0})).code == 27);
  }

  TEST_CASE("unknown groups are refused without automatic creation") {
    BrokerConfig config = test_config("");
    config.auto_create_group = false;
    TestBroker b(config);
    Client c(b.port());
    CHECK(c.call(pull_command({})).code == 26);
    CHECK(c.call(pull_command({.group = "TOOLS_CONSUMER"})).code == 17);  // system group, no topic
  }

  TEST_CASE("the tag filter goes by hash, as clients expect") {
    // broker §23.33
    TestBroker b;
    Client c(b.port());
    for (const char* tag : {"Aa", "BB", "Cc"}) {
      REQUIRE(
          c.call(send_command({.body = tag, .properties = std::string("TAGS\x01") + tag})).code ==
          0);
    }
    const auto r = c.call(pull_command({.subscription = "Aa || Zz"}));
    REQUIRE(r.code == 0);
    CHECK(messages_of(r).size() == 2);  // Aa and BB have one hash
    check_offsets(r, 3, 0, 3);
    const auto none = c.call(pull_command({.subscription = "None"}));
    CHECK(none.code == 20);
    CHECK(none.remark == "NO_MATCHED_MESSAGE");
    check_offsets(none, 3, 0, 3);
  }

  TEST_CASE("a pull looks at 800 entries and says where to go on") {
    // broker §23.31, store §26.19
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    for (int i = 0; i < 899; ++i) {
      auto oneway = send_command({.body = ""});
      oneway.flag = proto::kFlagOneway;
      c.send(oneway);
    }
    REQUIRE(long_field(c.call(send_command({.properties = "TAGS\x01x"})), "queueOffset") == 900);
    const auto r = c.call(pull_command({.subscription = "x"}));
    CHECK(r.code == 20);
    CHECK(long_field(r, "nextBeginOffset") == 800);
    const auto rest = c.call(pull_command({.offset = 800, .subscription = "x"}));
    CHECK(rest.code == 0);
    CHECK(messages_of(rest).size() == 1);
  }

  TEST_CASE("a batch is full at 32 messages or 256 KiB, but one message always fits") {
    // broker §23.32
    TestBroker b;
    Client c(b.port());
    for (int i = 0; i < 40; ++i) {
      REQUIRE(c.call(send_command({})).code == 0);
    }
    CHECK(messages_of(c.call(pull_command({.max = 64}))).size() == 32);
    REQUIRE(c.call(send_command({.queue_id = 1, .body = std::string(3'000'000, 'x')})).code == 0);
    REQUIRE(c.call(send_command({.queue_id = 1})).code == 0);
    const auto large = c.call(pull_command({.queue_id = 1}));
    CHECK(large.code == 0);
    CHECK(messages_of(large).size() == 1);
    for (int i = 0; i < 3; ++i) {
      REQUIRE(c.call(send_command({.queue_id = 2, .body = std::string(100'000, 'x')})).code == 0);
    }
    CHECK(messages_of(c.call(pull_command({.queue_id = 2}))).size() == 2);
  }

  TEST_CASE("cold data come in batches of eight") {
    // broker §23.32, store §26.20
    BrokerConfig config = test_config("");
    config.memory_bytes = 100 * 1000;  // 40 % of that: 40 000 bytes behind the end is cold
    TestBroker b(config);
    Client c(b.port());
    for (int i = 0; i < 20; ++i) {
      REQUIRE(c.call(send_command({})).code == 0);
    }
    for (int i = 0; i < 3; ++i) {
      REQUIRE(c.call(send_command({.queue_id = 2, .body = std::string(40'000, 'x')})).code == 0);
    }
    REQUIRE(c.call(send_command({.queue_id = 3, .body = std::string(90'000, 'x')})).code == 0);
    REQUIRE(c.call(send_command({.queue_id = 3})).code == 0);
    REQUIRE(c.call(send_command({.queue_id = 1, .body = std::string(100'000, 'x')})).code == 0);
    CHECK(messages_of(c.call(pull_command({}))).size() == 8);
    CHECK(messages_of(c.call(pull_command({.queue_id = 2}))).size() == 1);  // of 64 KiB
    CHECK(messages_of(c.call(pull_command({.queue_id = 3}))).size() == 1);  // one always fits
  }

  TEST_CASE(
      "far behind, a pull is sent to the broker that its group names, if slaves may be read") {
    // broker §23.35, what a master says (§8.3); this broker is always one.
    BrokerConfig config = test_config("");
    config.memory_bytes = 100 * 1000;  // more than 40 % of that behind the end is far
    SUBCASE("slaves may not be read: always the master") {
      config.slave_read = false;
    }
    SUBCASE("they may") {
      config.slave_read = true;
    }
    const bool allowed = config.slave_read;
    TestBroker b(config);
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    REQUIRE(c.call(send_command({.queue_id = 2, .body = std::string(100'000, 'x')})).code == 0);
    REQUIRE(c.call(send_command({.queue_id = 1})).code == 0);
    const auto suggested = [&](std::int32_t queue, std::int64_t offset = 0) {
      const auto r = c.call(pull_command({.queue_id = queue, .offset = offset}));
      CHECK(r.code == (offset == 0 ? 0 : 19));
      return long_field(r, "suggestWhichBrokerId");
    };
    CHECK(suggested(0) == (allowed ? 1 : 0));  // the default of every group
    CHECK(suggested(1) == 0);
    proto::SubscriptionGroupConfig group;
    group.name = "CG";
    group.broker_id = 2;
    group.which_broker_when_consume_slowly = 3;
    proto::Command update;
    update.code = proto::RequestCode::kUpdateAndCreateSubscriptiongroup;
    update.body = proto::encode(group);
    REQUIRE(c.call(update).code == 0);
    CHECK(suggested(0) == (allowed ? 3 : 0));
    CHECK(suggested(1) == (allowed ? 2 : 0));
    CHECK(suggested(1, 1) == (allowed ? 2 : 0));  // also with nothing found
  }

  TEST_CASE("a parked pull is answered by an arrival of its queue only") {
    // broker §23.29
    TestBroker b;
    Client consumer(b.port());
    Client producer(b.port());
    REQUIRE(producer.call(send_command({.queue_id = 1})).code == 0);
    const auto held =
        consumer.send(pull_command({.queue_id = 0, .sys_flag = 6, .suspend_ms = 20'000}));
    CHECK_FALSE(consumer.try_receive(held, 50ms).has_value());
    REQUIRE(producer.call(send_command({.queue_id = 1})).code == 0);
    CHECK_FALSE(consumer.try_receive(held, 50ms).has_value());
    REQUIRE(producer.call(send_command({.queue_id = 0, .body = "wake"})).code == 0);
    const auto r = consumer.receive(held);
    CHECK(r.code == 0);
    REQUIRE(messages_of(r).size() == 1);
    CHECK(as_text(messages_of(r)[0].body) == "wake");
  }

  TEST_CASE("a parked pull with a tag sleeps over other tags and does not forget them") {
    TestBroker b;
    Client consumer(b.port());
    Client producer(b.port());
    REQUIRE(producer.call(send_command({.queue_id = 1})).code == 0);
    const auto held = consumer.send(
        pull_command({.sys_flag = 6, .suspend_ms = 20'000, .subscription = "wanted"}));
    consumer.call(pull_command({}));  // requests of a connection run in order: it is parked now
    for (int i = 0; i < 5; ++i) {
      REQUIRE(producer.call(send_command({.properties = "TAGS\x01other"})).code == 0);
    }
    CHECK_FALSE(consumer.try_receive(held, 50ms).has_value());
    REQUIRE(producer.call(send_command({.properties = "TAGS\x01wanted"})).code == 0);
    const auto r = consumer.receive(held);
    CHECK(r.code == 0);
    check_offsets(r, 6, 0, 6);
    CHECK(messages_of(r).size() == 1);
  }

  TEST_CASE("a parked pull ends with its time: 19, or 20 past entries that did not match") {
    // broker §23.29
    TestBroker b;
    Client consumer(b.port());
    Client producer(b.port());
    REQUIRE(producer.call(send_command({.queue_id = 1})).code == 0);
    const auto nothing = consumer.call(pull_command({.sys_flag = 6, .suspend_ms = 100}));
    CHECK(nothing.code == 19);
    check_offsets(nothing, 0, 0, 0);

    const auto held =
        consumer.send(pull_command({.sys_flag = 6, .suspend_ms = 1'000, .subscription = "wanted"}));
    CHECK_FALSE(consumer.try_receive(held, 20ms).has_value());
    REQUIRE(producer.call(send_command({.properties = "TAGS\x01other"})).code == 0);
    const auto passed = consumer.receive(held);
    CHECK(passed.code == 20);
    check_offsets(passed, 1, 0, 1);
  }

  TEST_CASE("the commit in a pull is stored even if the pull is parked, also backwards") {
    // broker §23.34
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    proto::Command query;
    query.code = proto::RequestCode::kQueryConsumerOffset;
    query.set("consumerGroup", "CG").set("topic", "T").set("queueId", std::int64_t{0});
    c.send(pull_command({.offset = 1, .sys_flag = 7, .commit = 9, .suspend_ms = 20'000}));
    CHECK(long_field(c.call(query), "offset") == 9);
    c.call(pull_command({.sys_flag = 5, .commit = 4}));
    CHECK(long_field(c.call(query), "offset") == 4);
    c.call(pull_command({.queue_id = 99, .sys_flag = 5, .commit = 1}));  // a check fails
    CHECK(long_field(c.call(query), "offset") == 4);
  }

  TEST_CASE("without heartbeat only a pull that brings its subscription is served") {
    // broker §23.27
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    const auto without = c.call(pull_command({.group = "Fresh", .sys_flag = 2}));
    CHECK(without.code == 24);
    CHECK(without.remark.find("the consumer's group info not exist") == 0);
    CHECK(c.call(pull_command({.group = "Fresh", .sys_flag = 4})).code == 0);
    // Trap: the class filter bit means nothing any more (broker §8.1).
    CHECK(c.call(pull_command({.group = "Fresh", .sys_flag = 4 | 8})).code == 0);
  }

  TEST_CASE("a pull with a newer subscription than the heartbeat waits for the next heartbeat") {
    // broker §23.28
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    REQUIRE(c.call(heartbeat_command(consumer_beat("id", "CG", "T", "*", 5))).code == 0);
    const auto early = c.call(pull_command({.sys_flag = 0, .sub_version = 6}));
    CHECK(early.code == 25);
    CHECK(early.remark == "the consumer's subscription not latest");
    CHECK(early.fields.empty());
    REQUIRE(c.call(heartbeat_command(consumer_beat("id", "CG", "T", "*", 6))).code == 0);
    CHECK(c.call(pull_command({.sys_flag = 0, .sub_version = 6})).code == 0);
  }

  TEST_CASE("headers of 5.x clients: other fields are ignored, maxMsgBytes bounds the answer") {
    TestBroker b;
    Client c(b.port());
    for (int i = 0; i < 5; ++i) {
      REQUIRE(c.call(send_command({.body = std::string(1'000, 'x')})).code == 0);
    }
    auto pull = pull_command({});
    pull.set("bname", "broker-t").set("requestSource", "1").set("proxyFrowardClientId", "p");
    pull.set("lo", "false").set("ns", "").set("nsd", "false");
    CHECK(messages_of(c.call(pull)).size() == 5);
    pull.set("maxMsgBytes", std::int64_t{3'500});
    CHECK(messages_of(c.call(pull)).size() == 3);
    auto small = pull_command({});
    small.set("maxMsgBytes", std::int64_t{1});  // one message always fits
    CHECK(messages_of(c.call(small)).size() == 1);
  }

  TEST_CASE("pulls of a lite consumer are the same request") {
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    auto pull = pull_command({.sys_flag = 20});
    pull.code = proto::RequestCode::kLitePullMessage;
    CHECK(c.call(pull).code == 0);
  }

  TEST_CASE("pulls of a connection that went away are forgotten") {
    TestBroker b;
    {
      Client gone(b.port());
      REQUIRE(gone.call(send_command({})).code == 0);
      gone.send(pull_command({.offset = 1, .sys_flag = 6, .suspend_ms = 20'000}));
      gone.call(pull_command({}));  // the first one is parked now
    }
    Client c(b.port());
    CHECK(c.call(send_command({})).code == 0);
    CHECK(c.call(pull_command({.offset = 1})).code == 0);
  }
}
