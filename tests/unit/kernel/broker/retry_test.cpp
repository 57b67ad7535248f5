// Retry and dead letters (spec: broker §7).
#include "broker_harness.h"

#include "tenon/base/endian.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <string>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using C = proto::RequestCode;
using Code = proto::ResponseCode;

namespace {

proto::Command back(std::int64_t offset, std::int32_t level, std::string group = "CG") {
  proto::Command c;
  c.code = C::kConsumerSendMsgBack;
  c.set("offset", offset).set("group", group);
  c.set("delayLevel", std::int64_t{level}).set("originTopic", "T").set("unitMode", "false");
  return c;
}

/// Position of a new message in T whose count of repetitions is `times`.
std::int64_t stored(Client& c, std::int32_t times) {
  SendSpec spec{.body = "again"};
  spec.reconsume_times = times;
  const auto sent = c.call(send_command(spec));
  REQUIRE(sent.code == 0);
  return proto::parse_offset_message_id(text_field(sent, "msgId")).value().phys_offset;
}

}  // namespace

TEST_SUITE("broker/retry") {
  TEST_CASE("each attempt waits longer: levels 3 to 18; a level that is named counts instead") {
    TestBroker b;  // broker §7.1
    Client c(b.port());
    for (std::int32_t times = 0; times < 16; ++times) {
      CAPTURE(times);
      const std::int64_t before = max_offset(c, "SCHEDULE_TOPIC_XXXX", times + 2);
      REQUIRE(c.call(back(stored(c, times), 0)).code == 0);
      CHECK(max_offset(c, "SCHEDULE_TOPIC_XXXX", times + 2) == before + 1);
    }
    REQUIRE(c.call(back(stored(c, 9), 5)).code == 0);
    CHECK(max_offset(c, "SCHEDULE_TOPIC_XXXX", 4) == 2);
  }

  TEST_CASE("the 17th send-back is a dead letter, the 16th comes again after two hours") {
    // broker §23.24
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(back(stored(c, 15), 0)).code == 0);
    CHECK(c.call(pull_command({.topic = "%DLQ%CG"})).code == 17);
    const auto delayed = c.call(pull_command({.topic = "SCHEDULE_TOPIC_XXXX", .queue_id = 17}));
    REQUIRE(messages_of(delayed).size() == 1);
    CHECK(messages_of(delayed)[0].reconsume_times == 16);
    CHECK(proto::find_property(messages_of(delayed)[0].properties, "REAL_TOPIC") == "%RETRY%CG");

    REQUIRE(c.call(back(stored(c, 16), 0)).code == 0);
    const auto dead = c.call(pull_command({.topic = "%DLQ%CG"}));
    REQUIRE(messages_of(dead).size() == 1);
    CHECK(messages_of(dead)[0].reconsume_times == 17);
    CHECK(proto::find_property(messages_of(dead)[0].properties, "RETRY_TOPIC") == "T");
    proto::Command get;
    get.code = C::kGetTopicConfig;
    get.set("topic", "%DLQ%CG");
    const auto topic = c.call(get).body;  // readable, unlike before 4.9 (broker §7.1)
    CHECK(topic.find("\"perm\":6") != std::string::npos);
    CHECK(topic.find("\"writeQueueNums\":1") != std::string::npos);
  }

  TEST_CASE("the client's maximum wins over the group's, from version 3.4.9 on") {
    TestBroker b;
    Client c(b.port());
    auto command = back(stored(c, 2), 0);
    command.set("maxReconsumeTimes", std::int64_t{2});
    command.version = 120;
    REQUIRE(c.call(command).code == 0);
    CHECK(c.call(pull_command({.topic = "%DLQ%CG"})).code == 17);
    command.version = 121;
    REQUIRE(c.call(command).code == 0);
    CHECK(messages_of(c.call(pull_command({.topic = "%DLQ%CG"}))).size() == 1);
  }

  TEST_CASE("checks of a send-back: group, broker, retry topic") {
    SUBCASE("unknown group") {
      BrokerConfig config = test_config("");
      config.auto_create_group = false;
      TestBroker b(config);
      Client c(b.port());
      CHECK(c.call(back(0, 0)).code == 26);
    }
    SUBCASE("broker not writable") {
      BrokerConfig config = test_config("");
      config.permission = 4;
      TestBroker b(config);
      Client c(b.port());
      const auto r = c.call(back(0, 0));
      CHECK(r.code == 16);
      CHECK(r.remark == "the broker[127.0.0.1] sending message is forbidden");
    }
    SUBCASE("retry topic not writable") {
      TestBroker b;
      Client c(b.port());
      proto::Command topic;
      topic.code = C::kUpdateAndCreateTopic;
      topic.set("topic", "%RETRY%CG").set("defaultTopic", "TBW102").set("perm", std::int64_t{4});
      topic.set("readQueueNums", std::int64_t{1}).set("writeQueueNums", std::int64_t{1});
      topic.set("topicFilterType", "SINGLE_TAG");
      REQUIRE(c.call(topic).code == 0);
      const auto r = c.call(back(stored(c, 0), 0));
      CHECK(r.code == 16);
      CHECK(r.remark == "the topic[%RETRY%CG] sending message is forbidden");
    }
  }

  TEST_CASE("the client's own way: a copy sent to the retry topic with its count and origin") {
    // broker §7.2: what consumers do when a send-back fails.
    TestBroker b;
    Client c(b.port());
    SendSpec spec{.topic = "%RETRY%CG",
                  .body = "copy",
                  .properties =
                      "RETRY_TOPIC\x01T\x02ORIGIN_MESSAGE_ID\x01id0\x02RECONSUME_TIME\x01"
                      "3\x02MAX_RECONSUME_TIMES\x01"
                      "16"};
    spec.reconsume_times = 3;
    auto command = send_command(spec);
    command.set("l", std::int64_t{16});
    REQUIRE(c.call(command).code == 0);
    const auto pulled = c.call(pull_command({.topic = "%RETRY%CG"}));
    REQUIRE(messages_of(pulled).size() == 1);
    CHECK(messages_of(pulled)[0].reconsume_times == 3);
    CHECK(proto::find_property(messages_of(pulled)[0].properties, "ORIGIN_MESSAGE_ID") == "id0");
    command.set("l", std::int64_t{3});  // broker §23.26
    REQUIRE(c.call(command).code == 0);
    CHECK(messages_of(c.call(pull_command({.topic = "%DLQ%CG"}))).size() == 1);
    CHECK(long_field(c.call(pull_command({.topic = "%RETRY%CG"})), "maxOffset") == 1);
  }
}
