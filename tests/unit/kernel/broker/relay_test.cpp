// What administrators ask of consumers through the broker: resets, offsets, running info, one
// message (spec: broker §11.1, §15.3; remoting §5.1, §7.5).
#include "broker_harness.h"

#include "tenon/base/endian.h"
#include "tenon/proto/bodies_admin.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using namespace std::chrono_literals;
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

/// The next request of the broker with this code; membership notices are passed over.
proto::Command asked(Client& member, std::int32_t code) {
  for (;;) {
    auto c = member.notice(10s);
    REQUIRE(c.has_value());
    if (c->code == code) {
      return *c;
    }
    REQUIRE(c->code == C::kNotifyConsumerIdsChanged);
  }
}

void answer(Client& member,
            const proto::Command& to,
            std::int32_t code,
            std::string body,
            std::string remark = {}) {
  proto::Command c;
  c.code = code;
  c.opaque = to.opaque;
  c.flag = proto::kFlagResponse;
  c.remark = std::move(remark);
  c.body = std::move(body);
  std::string frame;
  c.encode(frame);
  member.write_raw(frame);
}

void join(Client& member,
          std::string id,
          std::int32_t version = 409,
          proto::Language language = proto::Language::kJava) {
  auto beat = heartbeat_command(consumer_beat(std::move(id), "CG", "T"));
  beat.version = version;
  beat.language = language;
  REQUIRE(member.call(beat).code == 0);
}

void commit(Client& c, std::string_view group, std::string_view queue, std::string_view offset) {
  REQUIRE(c.call(request(C::kUpdateConsumerOffset,
                         {{"consumerGroup", group},
                          {"topic", "T"},
                          {"queueId", queue},
                          {"commitOffset", offset}}))
              .code == 0);
}

std::int64_t committed(Client& c, std::string_view group, std::string_view queue) {
  const auto r = c.call(request(C::kQueryConsumerOffset,
                                {{"consumerGroup", group},
                                 {"topic", "T"},
                                 {"queueId", queue},
                                 {"setZeroIfNotFound", "false"}}));
  return r.code == 0 ? long_field(r, "offset") : -1;
}

proto::Command reset(std::string_view group, std::string_view time, std::string_view force) {
  return request(C::kInvokeBrokerToResetOffset,
                 {{"topic", "T"}, {"group", group}, {"timestamp", time}, {"isForce", force}});
}

/// Four queues; three messages in queue 0, one in queue 1; CG has consumed all of them.
struct Fixture {
  TestBroker b{};
  Client admin{b.port()};

  Fixture() {
    for (const int queue : {0, 0, 0, 1}) {
      REQUIRE(admin.call(send_command({.queue_id = queue})).code == 0);
    }
    for (const auto& [queue, offset] :
         {std::pair{"0", "3"}, std::pair{"1", "1"}, std::pair{"2", "0"}, std::pair{"3", "0"}}) {
      commit(admin, "CG", queue, offset);
    }
  }
};

proto::QueueOffsets offsets_in(const std::string& body) {
  auto offsets = proto::decode_reset_offset(body);
  REQUIRE(offsets.has_value());
  return std::move(offsets).value();
}

}  // namespace

TEST_SUITE("broker/relay") {
  TEST_CASE("a reset by time tells the members, whose commits count") {  // broker §23.46
    Fixture f;
    Client member(f.b.port());
    join(member, "A");
    const auto r = f.admin.call(reset("CG", "0", "true"));
    CHECK(r.code == 0);
    CHECK(offsets_in(r.body).at({"T", "broker-t", 0}) == 0);
    const auto told = asked(member, C::kResetConsumerClientOffset);
    CHECK((told.flag & proto::kFlagOneway) != 0);
    CHECK(text_field(told, "topic") == "T");
    CHECK(text_field(told, "group") == "CG");
    CHECK(text_field(told, "timestamp") == "0");
    CHECK(text_field(told, "isForce") == "false");  // Trap: not the administrator's (remoting §5.1)
    CHECK(told.body.find("{\"offsetTable\":{{\"brokerName\":\"broker-t\",\"queueId\":0,"
                         "\"topic\":\"T\"}:0,") == 0);
    CHECK(offsets_in(told.body).size() == 4);
    CHECK(committed(f.admin, "CG", "0") == 3);  // Trap: the broker's table stays (broker §11.1)

    SUBCASE("the end of the queue by -1, also forward") {
      commit(f.admin, "CG", "0", "1");
      CHECK(offsets_in(f.admin.call(reset("CG", "-1", "true")).body).at({"T", "broker-t", 0}) == 3);
    }
    SUBCASE("without force only backwards") {
      commit(f.admin, "CG", "0", "1");
      CHECK(offsets_in(f.admin.call(reset("CG", "-1", "false")).body).at({"T", "broker-t", 0}) ==
            1);
      CHECK(offsets_in(f.admin.call(reset("CG", "0", "false")).body).at({"T", "broker-t", 0}) == 0);
    }
  }

  TEST_CASE("a reset of a group that is offline, unknown or too old") {  // broker §23.46
    Fixture f;
    const auto offline = f.admin.call(reset("CG", "7", "true"));
    CHECK(offline.code == 206);
    CHECK(offline.remark ==
          "Consumer not online, so can not reset offset, Group: CG Topic: T Timestamp: 7");
    const auto unknown = f.admin.call(reset("Nobody", "0", "true"));
    CHECK(unknown.code == 1);
    CHECK(unknown.remark == "THe consumer group <Nobody> not exist");
    auto no_topic = reset("CG", "0", "true");
    no_topic.fields.front().second = "Unknown";
    CHECK(f.admin.call(no_topic).code == 1);
    Client old(f.b.port());
    join(old, "Old", 27);
    CHECK(f.admin.call(reset("CG", "0", "true")).code == 1);
  }

  TEST_CASE("C++ members get the list form, all others the map") {
    Fixture f;
    Client cpp(f.b.port());
    join(cpp, "Cpp", 409, proto::Language::kCpp);
    Client go(f.b.port());
    join(go, "Go", 409, proto::Language::kGo);
    REQUIRE(f.admin.call(reset("CG", "0", "true")).code == 0);
    CHECK(asked(cpp, C::kResetConsumerClientOffset)
              .body.find("{\"offsetTable\":[{\"brokerName\":\"broker-t\",\"offset\":0,"
                         "\"queueId\":0,\"topic\":\"T\"}") == 0);
    CHECK(asked(go, C::kResetConsumerClientOffset).body.find("{\"offsetTable\":{{") == 0);
  }

  TEST_CASE("a 5.x reset of one queue to an offset") {
    Fixture f;
    auto one = reset("CG", "0", "true");
    one.set("queueId", "0").set("offset", "2");
    const auto r = f.admin.call(one);
    CHECK(r.code == 0);
    CHECK(offsets_in(r.body) == proto::QueueOffsets{{{"T", "broker-t", 0}, 2}});
    CHECK(committed(f.admin, "CG", "0") == 2);  // nobody is there to commit it
    CHECK(committed(f.admin, "CG", "1") == 1);
    Client member(f.b.port());
    join(member, "A");
    one.fields.back().second = "1";
    CHECK(f.admin.call(one).code == 0);
    CHECK(offsets_in(asked(member, C::kResetConsumerClientOffset).body).at({"T", "broker-t", 0}) ==
          1);
    CHECK(committed(f.admin, "CG", "0") == 2);
    one.fields.back().second = "4";
    CHECK(f.admin.call(one).code == 1);
  }

  TEST_CASE("offsets of all members, or of one, come from the members") {
    Fixture f;
    const auto status = request(C::kInvokeBrokerToGetConsumerStatus,
                                {{"topic", "T"}, {"group", "CG"}, {"clientAddr", ""}});
    CHECK(f.admin.call(status).code == 1);
    Client a(f.b.port());
    Client b(f.b.port());
    join(a, "A");
    join(b, "B");
    auto opaque = f.admin.send(status);
    const auto at_a = asked(a, C::kGetConsumerStatusFromClient);
    CHECK(text_field(at_a, "topic") == "T");
    CHECK(text_field(at_a, "group") == "CG");
    answer(b, asked(b, C::kGetConsumerStatusFromClient), 1, "", "I do not know");
    answer(
        a,
        at_a,
        0,
        "{\"messageQueueTable\":{{\"brokerName\":\"broker-t\",\"queueId\":0,\"topic\":\"T\"}:7}}");
    auto r = f.admin.receive(opaque);
    CHECK(r.code == 0);
    CHECK(r.body ==
          "{\"consumerTable\":{\"A\":{{\"brokerName\":\"broker-t\",\"queueId\":0,\"topic\":\"T\"}:7"
          "}},\"messageQueueTable\":{}}");
    auto only = status;
    only.fields.back().second = "B";
    opaque = f.admin.send(only);
    answer(b, asked(b, C::kGetConsumerStatusFromClient), 0, "{\"messageQueueTable\":{}}");
    r = f.admin.receive(opaque);
    CHECK(r.body == "{\"consumerTable\":{\"B\":{}},\"messageQueueTable\":{}}");
    only.fields.back().second = "Nobody";
    CHECK(f.admin.call(only).body == "{\"consumerTable\":{},\"messageQueueTable\":{}}");
  }

  TEST_CASE("running info is the client's answer, word for word") {
    Fixture f;
    const auto info =
        request(C::kGetConsumerRunningInfo,
                {{"consumerGroup", "CG"}, {"clientId", "A"}, {"jstackEnable", "true"}});
    const auto offline = f.admin.call(info);
    CHECK(offline.code == 1);
    CHECK(offline.remark == "The Consumer <CG> <A> not online");
    Client a(f.b.port());
    join(a, "A");
    const auto opaque = f.admin.send(info);
    const auto relayed = asked(a, C::kGetConsumerRunningInfo);
    CHECK((relayed.flag & proto::kFlagOneway) == 0);
    CHECK(text_field(relayed, "jstackEnable") == "true");
    CHECK(text_field(relayed, "consumerGroup") == "CG");
    CHECK(text_field(relayed, "clientId") == "A");
    answer(a, relayed, 0, "{\"properties\":{}}", "not set any response code");
    const auto r = f.admin.receive(opaque);
    CHECK(r.code == 0);
    CHECK(r.remark == "not set any response code");
    CHECK(r.body == "{\"properties\":{}}");

    SUBCASE("the client's refusal too") {
      const auto second = f.admin.send(info);
      answer(a, asked(a, C::kGetConsumerRunningInfo), 1, "", "no such group here");
      CHECK(f.admin.receive(second).remark == "no such group here");
    }
    SUBCASE("a client that goes away before it answers") {
      auto b = std::make_unique<Client>(f.b.port());
      join(*b, "B");
      auto of_b = info;
      of_b.fields[1].second = "B";
      const auto second = f.admin.send(of_b);
      asked(*b, C::kGetConsumerRunningInfo);
      b.reset();
      CHECK(f.admin.receive(second).code == 207);
    }
    SUBCASE("a client of a time before running info") {
      Client old(f.b.port());
      join(old, "Old", 61);
      auto of_old = info;
      of_old.fields[1].second = "Old";
      CHECK(f.admin.call(of_old).code == 1);
    }
  }

  TEST_CASE("one message is consumed directly by the client that was chosen") {
    Fixture f;
    Client a(f.b.port());
    join(a, "A");
    const auto sent = f.admin.call(send_command({.body = "look at this"}));
    const std::string id = text_field(sent, "msgId");
    auto directly = request(C::kConsumeMessageDirectly,
                            {{"consumerGroup", "CG"}, {"clientId", "A"}, {"msgId", id}});
    const auto opaque = f.admin.send(directly);
    const auto relayed = asked(a, C::kConsumeMessageDirectly);
    CHECK(text_field(relayed, "brokerName") == "broker-t");
    CHECK(text_field(relayed, "msgId") == id);
    const auto messages = messages_of(relayed);
    REQUIRE(messages.size() == 1);
    CHECK(as_text(messages[0].body) == "look at this");
    answer(a, relayed, 0, "{\"consumeResult\":\"CR_SUCCESS\"}");
    CHECK(f.admin.receive(opaque).body == "{\"consumeResult\":\"CR_SUCCESS\"}");
    directly.fields.back().second = id.substr(0, 16) + "00000000000FFFFF";
    CHECK(f.admin.call(directly).code == 1);
    directly.fields.back().second = "nonsense";
    CHECK(f.admin.call(directly).code == 1);
  }

  TEST_CASE("offsets of a group are cloned, every topic if none is named") {
    Fixture f;
    auto clone = request(C::kCloneGroupOffset,
                         {{"srcGroup", "CG"}, {"destGroup", "One"}, {"offline", "false"}});
    CHECK(f.admin.call(clone).code == 0);
    CHECK(committed(f.admin, "One", "0") == 3);
    CHECK(committed(f.admin, "One", "1") == 1);
    clone.fields[1].second = "Two";
    clone.set("topic", "Unknown");
    CHECK(f.admin.call(clone).code == 0);
    CHECK(committed(f.admin, "Two", "0") == -1);
    clone.fields.back().second = "T";
    CHECK(f.admin.call(clone).code == 0);
    CHECK(committed(f.admin, "Two", "0") == 3);
  }

  TEST_CASE("the smallest offsets over the other groups; looking changes nothing") {
    Fixture f;
    commit(f.admin, "Slow", "0", "1");
    commit(f.admin, "Other", "0", "2");
    const auto correction = [&](std::string_view left_out) {
      return f.admin
          .call(request(C::kQueryCorrectionOffset,
                        {{"filterGroups", left_out}, {"compareGroup", "CG"}, {"topic", "T"}}))
          .body;
    };
    CHECK(correction("") == "{\"correctionOffsets\":{0:1,1:1,2:0,3:0}}");
    CHECK(correction("Slow,Nobody") == "{\"correctionOffsets\":{0:2,1:1,2:0,3:0}}");
    CHECK(committed(f.admin, "Slow", "0") == 1);  // Trap: Java removes it (broker §11)
  }

  TEST_CASE("the time span of consumption per queue") {
    Fixture f;
    commit(f.admin, "CG", "0", "1");
    const auto r =
        f.admin.call(request(C::kQueryConsumeTimeSpan, {{"topic", "T"}, {"group", "CG"}}));
    REQUIRE(r.code == 0);
    const auto spans = proto::decode_time_spans(r.body);
    REQUIRE(spans.has_value());
    REQUIRE(spans.value().size() == 4);
    CHECK(spans.value()[0].min_ms > 1'600'000'000'000);
    CHECK(spans.value()[0].max_ms >= spans.value()[0].min_ms);
    CHECK(spans.value()[0].consume_ms == spans.value()[0].min_ms);
    CHECK(spans.value()[1].delay_ms == 0);  // everything consumed
    CHECK(spans.value()[2].max_ms == 0);    // never used
    CHECK(f.admin.call(request(C::kQueryConsumeTimeSpan, {{"topic", "Unknown"}, {"group", "CG"}}))
              .code == 17);
  }

  TEST_CASE("progress of all groups of the broker") {
    Fixture f;
    commit(f.admin, "CG", "0", "1");
    const auto r = f.admin.call(request(C::kGetBrokerConsumeStats, {{"isOrder", "false"}}));
    // A group without settings does not show; CG gets them by a heartbeat.
    CHECK(r.body.find("\"totalDiff\":0") != std::string::npos);
    Client member(f.b.port());
    join(member, "A");
    const auto with = f.admin.call(request(C::kGetBrokerConsumeStats, {{"isOrder", "false"}})).body;
    CHECK(with.find("\"totalDiff\":2") != std::string::npos);
    CHECK(with.find("{\"CG\":[{") != std::string::npos);
    CHECK(with.find("\"brokerOffset\":3,\"consumerOffset\":1") != std::string::npos);
    CHECK(f.admin.call(request(C::kGetBrokerConsumeStats, {{"isOrder", "true"}}))
              .body.find("{\"CG\":[]}") != std::string::npos);
  }

  TEST_CASE("entries of a queue for tools") {
    Fixture f;
    REQUIRE(f.admin.call(send_command({.properties = "TAGS\x01TagA"})).code == 0);
    const auto dump = [&](std::string_view queue, std::string_view index, std::string_view group) {
      return f.admin.call(request(C::kQueryConsumeQueue,
                                  {{"topic", "T"},
                                   {"queueId", queue},
                                   {"index", index},
                                   {"count", "2"},
                                   {"consumerGroup", group}}));
    };
    const auto r = dump("0", "2", "");
    CHECK(r.code == 0);
    CHECK(r.body.find("\"maxQueueIndex\":4,\"minQueueIndex\":0") != std::string::npos);
    CHECK(r.body.find("\"tagsCode\":2598919}]") != std::string::npos);  // hash of "TagA"
    CHECK(r.body.find("subscriptionData") == std::string::npos);
    Client member(f.b.port());
    join(member, "A");
    const auto with = dump("0", "0", "CG");
    CHECK(with.body.find("\"subscriptionData\":{\"classFilterMode\":false") != std::string::npos);
    CHECK(with.body.find("\"filterData\":\"null\"") != std::string::npos);
    const auto past = dump("0", "4", "");
    CHECK(past.code == 0);
    CHECK(past.body.empty());
    const auto wrong = dump("9", "0", "");
    CHECK(wrong.code == 1);
    CHECK(wrong.remark == "9@T is not exist!");
  }

  TEST_CASE("housekeeping requests are done, topics in the table stay") {
    Fixture f;
    for (const int code : {C::kCleanExpiredConsumequeue, C::kCleanUnusedTopic}) {
      CHECK(f.admin.call(request(code)).code == 0);
    }
    CHECK(long_field(f.admin.call(request(C::kGetMaxOffset, {{"topic", "T"}, {"queueId", "0"}})),
                     "offset") == 3);
  }

  TEST_CASE("5.x: topics and subscriptions of a group, a list of groups") {
    Fixture f;
    Client member(f.b.port());
    join(member, "A");
    CHECK(f.admin.call(request(C::kQueryTopicsByConsumer, {{"group", "CG"}}))
              .body.find("\"topicList\":[\"T\"]") != std::string::npos);
    CHECK(f.admin.call(request(C::kQuerySubscriptionByConsumer, {{"group", "CG"}, {"topic", "T"}}))
              .body.find("\"subString\":\"*\"") != std::string::npos);
    CHECK(f.admin.call(request(C::kQuerySubscriptionByConsumer, {{"group", "CG"}, {"topic", "X"}}))
              .body == "{\"group\":\"CG\",\"topic\":\"X\"}");
    auto list = request(C::kUpdateAndCreateSubscriptiongroupList);
    list.body =
        "{\"groupConfigList\":[{\"groupName\":\"L1\",\"retryMaxTimes\":5},"
        "{\"groupName\":\"L2\"}]}";
    CHECK(f.admin.call(list).code == 0);
    CHECK(f.admin.call(request(C::kGetSubscriptiongroupConfig, {{"group", "L1"}}))
              .body.find("\"retryMaxTimes\":5") != std::string::npos);
  }
}
