#include "fake_cluster.h"
#include "fake_connection.h"
#include "message_block.h"
#include "producer_core.h"

#include "tenon/base/endian.h"
#include "tenon/proto/message.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <string>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;
namespace proto = tenon::proto;
using detail::ProducerCore;
using proto::RequestCode;

namespace {

Message question() {
  Message m;
  m.topic = "T";
  m.body = "question";
  return m;
}

struct Fixture {
  explicit Fixture(const tenon::Clock* clock = nullptr) {
    cluster.add_topic("T", {"a"}, 1);
    client = cluster.client(clock);
    producer = ProducerCore::create(*client, {.group = "pg"}).value();
    client->add(producer).value();
  }
  ~Fixture() { producer->stop(); }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  void ask_async(std::chrono::milliseconds timeout = 5s) {
    producer->start_request(question(),
                            [this](Result<MessageView> r) {
                              result.emplace(std::move(r));
                              ++calls;
                            },
                            {.timeout = timeout});
  }
  std::string sent_properties() {
    CHECK(eventually([&] { return !cluster.requests(RequestCode::kSendMessageV2).empty(); }));
    return std::string(
        cluster.requests(RequestCode::kSendMessageV2).back().command.field("i").value_or(""));
  }
  proto::Command reply_for(const std::string& properties, std::string body) {
    proto::Command c;
    c.code = RequestCode::kPushReplyMessageToClient;
    std::string text;
    proto::append_property(
        text, "CORRELATION_ID", proto::find_property(properties, "CORRELATION_ID").value_or(""));
    c.set("topic", std::string_view("T")).set("properties", text).set("sysFlag", std::int64_t{0});
    c.set("bornHost", std::string_view("10.0.0.2:1000"));
    c.set("storeHost", std::string_view("10.0.0.1:10911"));
    c.body = std::move(body);
    return c;
  }

  FakeCluster cluster;
  std::shared_ptr<detail::ClientCore> client;
  std::shared_ptr<ProducerCore> producer;
  std::optional<Result<MessageView>> result;
  std::atomic<int> calls{0};
};

}  // namespace

TEST_SUITE("sdk/request_reply") {
  TEST_CASE("a reply is matched by its correlation id; a late one is ignored") {  // client §14.27
    Fixture f;
    f.ask_async();
    const std::string properties = f.sent_properties();
    CHECK(proto::find_property(properties, "REPLY_TO_CLIENT") == f.client->id());
    CHECK(proto::find_property(properties, "TTL") == "5000");  // Trap: milliseconds
    CHECK(proto::find_property(properties, "CORRELATION_ID")->size() == 36);

    proto::Command other = f.reply_for("CORRELATION_ID\x01other", "not for us");
    CHECK(ask(*f.client, other).code == 0);
    CHECK(f.calls.load() == 0);

    const proto::Command reply = f.reply_for(properties, "answer");
    CHECK(ask(*f.client, reply).code == 0);
    CHECK(eventually([&] { return f.calls.load() == 1; }));
    REQUIRE(f.result->has_value());
    CHECK((*f.result)->body() == "answer");
    CHECK((*f.result)->born_host() == "10.0.0.2:1000");
    CHECK((*f.result)->property("ARRIVE_TIME").has_value());

    CHECK(ask(*f.client, reply).code == 0);  // late
    CHECK(f.calls.load() == 1);
  }

  TEST_CASE("a compressed reply is inflated") {
    Fixture f;
    f.ask_async();
    const std::string text(10'000, 'x');
    const auto packed = proto::compress(tenon::as_bytes(text), proto::Compression::kZlib).value();
    proto::Command reply = f.reply_for(f.sent_properties(), packed);
    reply.set("sysFlag", std::int64_t{0x301});
    ask(*f.client, reply);
    CHECK(eventually([&] { return f.calls.load() == 1; }));
    CHECK((*f.result)->body() == text);
  }

  TEST_CASE("the brokers know the producer before the first request") {
    // Trap: otherwise the reply has no way to us (client §4.14)
    Fixture f;
    std::atomic<bool> known{false};
    std::atomic<int> before{0};
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      if (r.command.code == RequestCode::kHeartBeat) {
        const auto beat = proto::decode_heartbeat(r.command.body).value();
        known = std::count(beat.producer_groups.begin(), beat.producer_groups.end(), "pg") == 1;
      } else if (r.command.code == RequestCode::kSendMessageV2) {
        before = known ? 1 : -1;
      }
      return std::nullopt;
    });
    f.ask_async();
    f.sent_properties();
    CHECK(before.load() == 1);
  }

  TEST_CASE("nobody replies: 10006 after the time-out, and only then") {
    tenon::ManualClock clock;
    Fixture f(&clock);
    f.ask_async(2s);
    f.sent_properties();
    clock.advance_ms(1'999);
    f.client->timers().run_due();
    CHECK(f.calls.load() == 0);
    clock.advance_ms(1);
    f.client->timers().run_due();
    CHECK(f.calls.load() == 1);
    CHECK(f.result->error().is(Errc::kRequestTimeout));
    CHECK(f.result->error().code.value() == 10006);
    CHECK(f.result->error().outcome_unknown);
  }

  TEST_CASE("a request that cannot be sent fails with the cause, not with 10006") {
    Fixture f;
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kSendMessageV2
                 ? std::optional(Outcome::code(13, "illegal"))
                 : std::nullopt;
    });
    const auto r = f.producer->request(question(), {});
    CHECK(r.error().is(Errc::kRefused));
    CHECK(r.error().response == 13);
    Message empty = question();
    empty.body.clear();
    CHECK(f.producer->request(std::move(empty), {}).error().is(Errc::kMessageIllegal));
  }

  TEST_CASE("closing cancels what waits, once") {
    Fixture f;
    f.ask_async(1h);
    f.sent_properties();
    f.producer->stop();
    CHECK(f.calls.load() == 1);
    CHECK(f.result->error().is(Errc::kCancelled));
  }

  TEST_CASE("a reply goes to the reply topic of the cluster, with what the request said") {
    Fixture f;
    f.cluster.add_topic("c_REPLY_TOPIC", {"a"}, 1);
    f.cluster.put({"T", "a", 0},
                  "question",
                  "CLUSTER\x01"
                  "c\x02"
                  "CORRELATION_ID\x01id-1\x02REPLY_TO_CLIENT\x01him\x02TTL\x01"
                  "3000");
    f.cluster.put({"T", "a", 0}, "no request");
    proto::Command pull;
    pull.code = RequestCode::kPullMessage;
    pull.set("topic", std::string_view("T")).set("queueId", std::int64_t{0});
    pull.set("queueOffset", std::int64_t{0});
    const auto answer = f.cluster.handle({"a:10911", pull}).answer.value();
    auto bytes = std::make_shared<std::string>(answer.body);
    const auto messages = detail::decode_messages(tenon::as_bytes(*bytes), bytes, "a");
    REQUIRE(messages.size() == 2);

    Message body;
    body.body = "answer";
    REQUIRE(f.producer->reply(messages[0], body, {}).has_value());
    const auto sent = f.cluster.requests(RequestCode::kSendReplyMessageV2);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].command.field("b") == "c_REPLY_TOPIC");
    const std::string properties(sent[0].command.field("i").value_or(""));
    CHECK(proto::find_property(properties, "MSG_TYPE") == "reply");
    CHECK(proto::find_property(properties, "CORRELATION_ID") == "id-1");
    CHECK(proto::find_property(properties, "REPLY_TO_CLIENT") == "him");
    CHECK(proto::find_property(properties, "TTL") == "3000");
    const auto no = f.producer->reply(messages[1], body, {});
    CHECK(no.error().is(Errc::kCreateReply));
    CHECK(no.error().code.value() == 10007);
  }

  TEST_CASE("a recall goes to the broker that the handle names") {
    Fixture f;
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      if (r.command.code != RequestCode::kRecallMessage) {
        return std::nullopt;
      }
      proto::Command c;
      c.set("msgId", std::string_view("the-id"));
      return Outcome::ok(std::move(c));
    });
    // v1 T a 1700000060000 ID
    CHECK(f.producer->recall("T", "djEgVCBhIDE3MDAwMDAwNjAwMDAgSUQ=").value() == "the-id");
    const auto sent = f.cluster.requests(RequestCode::kRecallMessage);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].address == "a:10911");
    CHECK(sent[0].command.field("recallHandle") == "djEgVCBhIDE3MDAwMDAwNjAwMDAgSUQ=");
    // the example of client §4.12 names a broker that is not there
    CHECK(f.producer
              ->recall("TopicTest",
                       "djEgVG9waWNUZXN0IGJyb2tlci1hIDE3MDAwMDAwNjAwMDAgMEEwMDAwMDExMjM0MQ==")
              .error()
              .is(Errc::kNoRoute));
    CHECK(f.producer->recall("T", "").error().is(Errc::kInvalidArgument));
    CHECK(f.producer->recall("T", "!!").error().is(Errc::kInvalidArgument));
    CHECK(f.producer->recall("%RETRY%g", "djEgVCBhIDE3MDAwMDAwNjAwMDAgSUQ=")
              .error()
              .is(Errc::kInvalidArgument));
  }
}

TEST_SUITE("sdk/delay and keys") {
  TEST_CASE("a delay by time is a property; at most one kind of delay") {
    Fixture f;
    Message m = question();
    m.delay = 2500ms;
    f.producer->send(m, {}).value();
    m.delay = 0ms;
    m.deliver_at = std::chrono::system_clock::time_point(1'700'000'000'123ms);
    f.producer->send(m, {}).value();
    const auto stored = f.cluster.stored({"T", "a", 0});
    CHECK(proto::find_property(stored[0].properties, "TIMER_DELAY_MS") == "2500");
    CHECK(proto::find_property(stored[1].properties, "TIMER_DELIVER_MS") == "1700000000123");
    m.delay_level = 3;
    CHECK(f.producer->send(m, {}).error().is(Errc::kInvalidArgument));
    m.delay_level = 0;
    CHECK(f.producer->send_batch(std::span(&m, 1), {}, nullptr).error().is(Errc::kInvalidArgument));
  }

  TEST_CASE("messages of one key go to one queue: Java's hash, one attempt") {
    Fixture f;
    f.cluster.add_topic("K", {"a", "b"}, 2);
    Message m = question();
    m.topic = "K";
    for (const char* key : {"TagA", "TagB", "order-1001", "polygenelubricants"}) {
      const auto r = f.producer->send(m, {.sharding_key = key});
      const int index = hash_queue(key, 4);
      CHECK(r.value().queue == Queue{"K", index < 2 ? "a" : "b", index % 2});
    }
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kSendMessageV2 ? std::optional(Outcome::code(1))
                                                           : std::nullopt;
    });
    const auto before = f.cluster.requests(RequestCode::kSendMessageV2).size();
    CHECK_FALSE(f.producer->send(m, {.sharding_key = "TagA"}).has_value());
    CHECK(f.cluster.requests(RequestCode::kSendMessageV2).size() == before + 1);
  }
}
