// Request-reply (spec: broker §15.1, remoting §6.3). Headers as a 4.9.7 broker and client sent them.
#include "broker_harness.h"

#include "tenon/base/endian.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <string>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using Code = proto::ResponseCode;
using namespace std::chrono_literals;

namespace {

constexpr const char* kReplyTopic = "DefaultCluster_REPLY_TOPIC";

proto::Command reply_command(std::string_view requester) {
  SendSpec spec{.topic = kReplyTopic, .body = "the reply", .group = "replier"};
  spec.properties =
      "MSG_TYPE\x01reply\x02TTL\x01"
      "5000\x02"
      "CORRELATION_ID\x01"
      "c-1";
  if (!requester.empty()) {
    spec.properties += "\x02REPLY_TO_CLIENT\x01" + std::string(requester);
  }
  auto c = send_command(spec);
  c.code = proto::RequestCode::kSendReplyMessageV2;
  return c;
}

void beat_as_producer(Client& c, std::string id) {
  proto::HeartbeatData beat;
  beat.client_id = std::move(id);
  beat.producer_groups.push_back("requester");
  REQUIRE(c.call(heartbeat_command(beat)).code == 0);
}

void accept(Client& requester, const proto::Command& push, std::int32_t code) {
  proto::Command taken;
  taken.code = code;
  taken.opaque = push.opaque;
  taken.flag = proto::kFlagResponse;
  std::string frame;
  taken.encode(frame);
  requester.write_raw(frame);
}

}  // namespace

TEST_SUITE("broker/reply") {
  TEST_CASE("a reply reaches the requester connected to this broker and is stored") {
    // broker §23.57
    TestBroker b;
    Client requester(b.port());
    Client replier(b.port());
    beat_as_producer(requester, "10.0.0.1@wire-producer");
    const auto opaque = replier.send(reply_command("10.0.0.1@wire-producer"));

    const auto push = requester.notice(10s);
    REQUIRE(push.has_value());
    CHECK(push->code == proto::RequestCode::kPushReplyMessageToClient);
    CHECK((push->flag & proto::kFlagOneway) == 0);
    CHECK(push->body == "the reply");
    CHECK(text_field(*push, "topic") == kReplyTopic);
    CHECK(text_field(*push, "producerGroup") == "replier");
    CHECK(text_field(*push, "unitMode") == "false");
    CHECK(text_field(*push, "storeHost") == b.broker().advertised_address());
    CHECK(text_field(*push, "bornHost").starts_with("127.0.0.1:"));
    const std::string properties = text_field(*push, "properties");
    CHECK(proto::find_property(properties, "CORRELATION_ID") == "c-1");
    CHECK(proto::find_property(properties, "PUSH_REPLY_TIME") ==
          text_field(*push, "storeTimestamp"));
    // The answer waits for the requester.
    CHECK_FALSE(replier.try_receive(opaque, 20ms).has_value());

    accept(requester, *push, 0);
    const auto answer = replier.receive(opaque);
    CHECK(answer.code == 0);
    CHECK(text_field(answer, "MSG_REGION") == "DefaultRegion");
    CHECK(text_field(answer, "TRACE_ON") == "true");
    CHECK(text_field(answer, "msgId").size() == 32);
    CHECK(long_field(answer, "queueId") == 0);
    CHECK(long_field(answer, "queueOffset") == 0);
    const auto pulled = replier.call(pull_command({.topic = kReplyTopic}));
    REQUIRE(pulled.code == 0);
    const auto stored = messages_of(pulled);
    REQUIRE(stored.size() == 1);
    CHECK(as_text(stored[0].body) == "the reply");
    CHECK_FALSE(proto::find_property(stored[0].properties, "PUSH_REPLY_TIME").has_value());
    CHECK_FALSE(proto::find_property(stored[0].properties, "CLUSTER").has_value());
  }

  TEST_CASE("a reply that cannot be delivered is answered 1 with Java's text, and stored") {
    // broker §23.57
    TestBroker b;
    Client requester(b.port());
    Client replier(b.port());
    beat_as_producer(requester, "id");
    const auto failed = [](const proto::Command& answer, std::string_view remark) {
      CHECK(answer.code == 1);
      CHECK(answer.remark == remark);
      CHECK(text_field(answer, "msgId").size() == 32);  // spec remoting §6.3: ids although 1
    };
    SUBCASE("nobody of that id") {
      failed(replier.call(reply_command("other")),
             "push reply message fail, channel of <other> not found.");
    }
    SUBCASE("no property") {
      failed(replier.call(reply_command("")), "reply message properties[REPLY_TO_CLIENT] is null");
    }
    SUBCASE("the requester refuses") {
      const auto opaque = replier.send(reply_command("id"));
      const auto push = requester.notice(10s);
      REQUIRE(push.has_value());
      accept(requester, *push, 1);
      failed(replier.receive(opaque), "push reply message to idfail.");
    }
    SUBCASE("the requester's connection ends") {
      auto gone = std::make_unique<Client>(b.port());
      beat_as_producer(*gone, "gone");
      const auto opaque = replier.send(reply_command("gone"));
      REQUIRE(gone->notice(10s).has_value());
      gone.reset();
      failed(replier.receive(opaque), "push reply message to gonefail.");
    }
  }

  TEST_CASE("replies are not stored if that is switched off, the id is then 0") {
    BrokerConfig config = test_config("");
    config.store_reply = false;
    TestBroker b(config);
    Client requester(b.port());
    Client replier(b.port());
    beat_as_producer(requester, "id");
    const auto opaque = replier.send(reply_command("id"));
    const auto push = requester.notice(10s);
    REQUIRE(push.has_value());
    accept(requester, *push, 0);
    CHECK(text_field(replier.receive(opaque), "msgId") == "0");
    CHECK(replier.call(pull_command({.topic = kReplyTopic})).code == 19);
    CHECK_FALSE(replier.call(reply_command("x")).field("msgId").has_value());
  }

  TEST_CASE("replies pass the checks of sends, with long names, too") {
    TestBroker b;
    Client c(b.port());
    auto wrong = reply_command("x");
    wrong.set("b", "a#b");
    CHECK(c.call(wrong).remark.find("illegal characters") != std::string::npos);
    auto queue = reply_command("x");
    queue.set("e", std::int64_t{7});
    CHECK(c.call(queue).remark.find("request queueId[7] is illegal") == 0);
    auto missing = reply_command("x");
    missing.code = proto::RequestCode::kSendReplyMessage;
    CHECK(c.call(missing).remark == "the custom field <producerGroup> is null");
    auto unknown = reply_command("x");
    unknown.set("b", "Nowhere").set("c", "NoSuchDefault");
    CHECK(c.call(unknown).code == 17);
  }

  TEST_CASE("replies that wait for their requesters are bounded") {
    BrokerConfig config = test_config("");
    config.reply_queue_max = 1;
    TestBroker b(config);
    Client requester(b.port());
    Client replier(b.port());
    beat_as_producer(requester, "id");
    const auto first = replier.send(reply_command("id"));
    const auto push = requester.notice(10s);
    REQUIRE(push.has_value());
    const auto second = replier.call(reply_command("id"));
    CHECK(second.code == 2);
    CHECK(second.remark == "[OVERLOAD]system busy, start flow control for a while");
    accept(requester, *push, 0);
    CHECK(replier.receive(first).code == 0);
  }
}
