#include "broker_harness.h"

#include "tenon/base/endian.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using C = proto::RequestCode;

namespace {

proto::Command request(
    std::int32_t code,
    std::initializer_list<std::pair<std::string_view, std::string_view>> fields = {}) {
  proto::Command c;
  c.code = code;
  for (const auto& [key, value] : fields) {
    c.set(key, value);
  }
  return c;
}

proto::Command update_topic(std::string_view name, std::string_view queues = "4") {
  return request(C::kUpdateAndCreateTopic,
                 {{"topic", name},
                  {"defaultTopic", "TBW102"},
                  {"readQueueNums", queues},
                  {"writeQueueNums", queues},
                  {"perm", "6"},
                  {"topicFilterType", "SINGLE_TAG"},
                  {"order", "true"}});
}

}  // namespace

TEST_SUITE("broker/admin") {
  TEST_CASE("unknown requests are answered 3 with Java's remark") {
    // broker §23.56
    TestBroker b;
    Client c(b.port());
    for (const int code : {22, 27, 999, 4711}) {
      const auto r = c.call(request(code));
      CHECK(r.code == 3);
      CHECK(r.remark == " request type " + std::to_string(code) + " not supported");
    }
  }

  TEST_CASE("topics: create, change, list, delete") {
    TestBroker b;
    Client c(b.port());
    CHECK(c.call(request(C::kGetTopicConfig, {{"topic", "Mine"}})).code == 17);
    const auto created = c.call(update_topic("Mine"));
    REQUIRE(created.code == 0);
    CHECK(created.remark == "not set any response code");  // remoting §1.8
    REQUIRE(c.call(update_topic("Mine", "2")).code == 0);
    const auto all = c.call(request(C::kGetAllTopicConfig));
    const auto table = proto::decode_topic_table(all.body);
    REQUIRE(table.has_value());
    const auto mine = table.value().topics.find("Mine");
    REQUIRE(mine != table.value().topics.end());
    CHECK(mine->second.read_queue_count == 2);
    CHECK_FALSE(mine->second.order);  // Trap: not stored from the request
    REQUIRE(c.call(send_command({.topic = "Mine"})).code == 0);
    // broker §23.55; the last line of it is for slaves
    CHECK(c.call(request(C::kDeleteTopicInBroker, {{"topic", "Mine"}})).code == 0);
    CHECK(c.call(pull_command({.topic = "Mine"})).code == 17);
    CHECK(c.call(request(C::kDeleteTopicInBroker, {{"topic", "Mine"}})).code == 0);
    // Created anew it starts at 0.
    CHECK(long_field(c.call(send_command({.topic = "Mine"})), "queueOffset") == 0);
    for (const char* name : {"TBW102", "DefaultCluster", "broker-t", "rmq_sys_x", "a#b", ""}) {
      CHECK_MESSAGE(c.call(update_topic(name)).code == 1, name);
      CHECK_MESSAGE(c.call(request(C::kDeleteTopicInBroker, {{"topic", name}})).code == 1, name);
    }
    auto bad = update_topic("Mine");
    bad.set("topicFilterType", "NO_SUCH");
    CHECK(c.call(bad).code == 1);
    const auto system = c.call(request(C::kGetSystemTopicListFromBroker));
    CHECK(system.body.find("\"broker-t\"") != std::string::npos);
  }

  TEST_CASE("a list of topics in one request") {
    TestBroker b;
    Client c(b.port());
    auto list = request(C::kUpdateAndCreateTopicList);
    list.body =
        "{\"topicConfigList\":[{\"topicName\":\"L1\",\"readQueueNums\":3,\"writeQueueNums\":3,"
        "\"perm\":6,\"topicFilterType\":\"SINGLE_TAG\"},{\"topicName\":\"L2\"}]}";
    CHECK(c.call(list).code == 0);
    CHECK(c.call(request(C::kGetTopicConfig, {{"topic", "L1"}})).body.find("Nums\":3") !=
          std::string::npos);
    CHECK(c.call(request(C::kGetTopicConfig, {{"topic", "L2"}})).code == 0);
  }

  TEST_CASE("groups: create, list, delete with and without offsets") {
    TestBroker b;
    Client c(b.port());
    proto::SubscriptionGroupConfig g;
    g.name = "G";
    g.retry_max_times = 3;
    auto update = request(C::kUpdateAndCreateSubscriptiongroup);
    update.body = proto::encode(g);
    REQUIRE(c.call(update).code == 0);
    const auto one = c.call(request(C::kGetSubscriptiongroupConfig, {{"group", "G"}}));
    CHECK(proto::decode_subscription_group(one.body).value().retry_max_times == 3);
    const auto all = c.call(request(C::kGetAllSubscriptiongroupConfig));
    CHECK(proto::decode_subscription_group_table(all.body).value().groups.count("G") == 1);
    REQUIRE(
        c
            .call(request(
                C::kUpdateConsumerOffset,
                {{"consumerGroup", "G"}, {"topic", "T"}, {"queueId", "0"}, {"commitOffset", "9"}}))
            .code == 0);
    const auto query = request(C::kQueryConsumerOffset,
                               {{"consumerGroup", "G"}, {"topic", "T"}, {"queueId", "0"}});
    CHECK(c.call(request(C::kDeleteSubscriptiongroup, {{"groupName", "G"}})).code == 0);
    CHECK(long_field(c.call(query), "offset") == 9);
    CHECK(
        c.call(request(C::kDeleteSubscriptiongroup, {{"groupName", "G"}, {"removeOffset", "true"}}))
            .code == 0);
    CHECK(long_field(c.call(query), "offset") == 0);
  }

  TEST_CASE("offsets and times of a queue") {
    TestBroker b;
    Client c(b.port());
    const auto ask = [&](std::int32_t code, std::string_view topic, std::string_view queue) {
      return c.call(request(code, {{"topic", topic}, {"queueId", queue}, {"timestamp", "0"}}));
    };
    CHECK(long_field(ask(C::kGetMaxOffset, "Unknown", "0"), "offset") == 0);
    CHECK(long_field(ask(C::kGetMinOffset, "Unknown", "0"), "offset") == 0);
    CHECK(long_field(ask(C::kSearchOffsetByTimestamp, "Unknown", "0"), "offset") == 0);
    CHECK(long_field(ask(C::kGetEarliestMsgStoretime, "Unknown", "0"), "timestamp") == -1);
    REQUIRE(c.call(send_command({})).code == 0);
    REQUIRE(c.call(send_command({})).code == 0);
    CHECK(long_field(ask(C::kGetMaxOffset, "T", "0"), "offset") == 2);
    CHECK(long_field(ask(C::kGetMaxOffset, "T", "77"), "offset") == 0);
    CHECK(long_field(ask(C::kGetEarliestMsgStoretime, "T", "0"), "timestamp") > 1'000'000'000'000);
    CHECK(c.call(request(C::kGetMaxOffset, {{"topic", "T"}})).code == 1);
  }

  TEST_CASE("messages by key, unique key and offset") {
    TestBroker b;
    Client c(b.port());
    const auto sent = c.call(send_command({.body = "find me",
                                           .properties = "KEYS\x01k1 k2\x02UNIQ_KEY\x01"
                                                         "0123456789ABCDEF"}));
    REQUIRE(sent.code == 0);
    const auto query = [&](std::string_view key, std::string_view unique) {
      return c.call(request(C::kQueryMessage,
                            {{"topic", "T"},
                             {"key", key},
                             {"maxNum", "10"},
                             {"beginTimestamp", "0"},
                             {"endTimestamp", "9223372036854775807"},
                             {"_UNIQUE_KEY_QUERY", unique}}));
    };
    // The key index has a thread of its own: until it has caught up the answer is 22.
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    proto::Command found = query("k2", "false");
    while (found.code == 22 && std::chrono::steady_clock::now() < give_up) {
      found = query("k2", "false");
    }
    REQUIRE(found.code == 0);
    CHECK(as_text(messages_of(found).at(0).body) == "find me");
    CHECK(query("0123456789ABCDEF", "true").code == 0);
    const auto none = query("nobody", "false");
    CHECK(none.code == 22);
    CHECK(none.remark == "can not find message, maybe time range not correct");
    CHECK(none.field("indexLastUpdatePhyoffset") == "0");
    CHECK(none.field("indexLastUpdateTimestamp") == "0");

    const auto id = proto::parse_offset_message_id(text_field(sent, "msgId"));
    REQUIRE(id.has_value());
    const auto offset = std::to_string(id.value().phys_offset);
    const auto view = c.call(request(C::kViewMessageById, {{"offset", offset}}));
    REQUIRE(view.code == 0);
    CHECK(as_text(messages_of(view).at(0).body) == "find me");
    for (const char* wrong : {"1", "-5", "99999999999"}) {
      const auto r = c.call(request(C::kViewMessageById, {{"offset", wrong}}));
      CHECK(r.code == 1);
      CHECK(r.remark == std::string("can not find message by the offset, ") + wrong);
    }
  }

  TEST_CASE("a query finds 64 messages of a key at most, 32 of a unique key, or answers 22") {
    // broker §23.58
    TestBroker b;
    Client c(b.port());
    for (int i = 0; i < 80; ++i) {
      REQUIRE(c.call(send_command({.properties = "KEYS\x01many\x02UNIQ_KEY\x01"
                                                 "FFEEDDCC"}))
                  .code == 0);
    }
    REQUIRE(c.call(send_command({.properties = "KEYS\x01last"})).code == 0);
    const auto query = [&](std::string_view key, std::string_view unique, std::string_view max) {
      return c.call(request(C::kQueryMessage,
                            {{"topic", "T"},
                             {"key", key},
                             {"maxNum", max},
                             {"beginTimestamp", "0"},
                             {"endTimestamp", "9223372036854775807"},
                             {"_UNIQUE_KEY_QUERY", unique}}));
    };
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (query("last", "false", "1").code == 22) {  // the index has a thread of its own
      REQUIRE(std::chrono::steady_clock::now() < give_up);
    }
    CHECK(messages_of(query("many", "false", "1000")).size() == 64);
    CHECK(messages_of(query("many", "false", "5")).size() == 5);
    CHECK(messages_of(query("FFEEDDCC", "true", "1000")).size() == 32);
    CHECK(messages_of(query("FFEEDDCC", "true", "5")).size() == 32);  // the broker's number counts
    CHECK(query("nobody", "false", "64").code == 22);
    CHECK(query("nobody", "true", "64").code == 22);
  }

  TEST_CASE("statistics for tools") {
    TestBroker b;
    Client c(b.port());
    CHECK(c.call(request(C::kGetTopicStatsInfo, {{"topic", "Unknown"}})).code == 17);
    REQUIRE(c.call(send_command({.queue_id = 1})).code == 0);
    const auto stats = c.call(request(C::kGetTopicStatsInfo, {{"topic", "T"}}));
    CHECK(stats.body.find("{\"brokerName\":\"broker-t\",\"queueId\":0,\"topic\":\"T\"}:"
                          "{\"lastUpdateTimestamp\":0,\"maxOffset\":0,\"minOffset\":0}") !=
          std::string::npos);
    CHECK(stats.body.find("\"maxOffset\":1") != std::string::npos);
    REQUIRE(c.call(pull_command({.queue_id = 1, .sys_flag = 5, .commit = 1})).code == 0);
    const auto consumed = c.call(request(C::kGetConsumeStats, {{"consumerGroup", "CG"}}));
    CHECK(consumed.body.find("\"brokerOffset\":1,\"consumerOffset\":1") != std::string::npos);
    const auto who = c.call(request(C::kQueryTopicConsumeByWho, {{"topic", "T"}}));
    CHECK(who.body == "{\"groupList\":[\"CG\"]}");
    const auto info = proto::decode_kv_table(c.call(request(C::kGetBrokerRuntimeInfo)).body);
    REQUIRE(info.has_value());
    CHECK(info.value().at("msgPutTotalTodayNow") == "1");
    CHECK(info.value().at("brokerVersionDesc") == "V4_9_8");
    for (const char* key : {"putTps",
                            "getTransferedTps",
                            "getTransferredTps",
                            "commitLogDirCapacity",
                            "earliestMessageTimeStamp",
                            "dispatchBehindBytes",
                            "remainHowManyDataToFlush"}) {
      CHECK_MESSAGE(info.value().count(key) == 1, key);
    }
    const auto config = c.call(request(C::kGetBrokerConfig));
    CHECK(config.body.find("brokerName=broker-t\n") != std::string::npos);
    CHECK(config.field("version").has_value());
    CHECK(c.call(request(C::kGetAllDelayOffset)).body == "{\"offsetTable\":{}}");
    auto check = request(C::kCheckClientConfig);
    CHECK(c.call(check).code == 0);
    check.body =
        "{\"clientId\":\"A\",\"group\":\"G\",\"subscriptionData\":{\"topic\":\"T\","
        "\"subString\":\"a>1\",\"expressionType\":\"SQL92\"}}";
    CHECK(c.call(check).code == 1);
  }
}
