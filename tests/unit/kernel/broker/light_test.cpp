// Light queues as a client sees them: topics %LMQ% without an entry (spec: broker §19.10, §8.5).
#include "broker_harness.h"

#include "tenon/proto/codes.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::broker::test {
namespace {

using namespace std::chrono_literals;
using C = proto::RequestCode;

/// A broker whose storage dispatches to light queues.
class LightBroker {
 public:
  explicit LightBroker(std::int64_t max = 0) {
    ConfigNode on;
    on.value = true;
    with_.store_options.set("multi_dispatch", on);
    if (max != 0) {
      ConfigNode number;
      number.value = max;
      with_.store_options.set("light_queues_max", number);
    }
    reopen();
  }
  void reopen() {
    broker_.reset();
    broker_ = std::make_unique<TestBroker>(folder_, test_config(folder_->path()), with_);
  }
  std::uint16_t port() const { return broker_->port(); }

 private:
  std::shared_ptr<TempFolder> folder_ = std::make_shared<TempFolder>();
  TestBroker::WithSql with_{};
  std::unique_ptr<TestBroker> broker_{};
};

std::string to(std::string_view queues) {
  return "INNER_MULTI_DISPATCH\x01" + std::string(queues);
}

proto::Command ask(Client& c, std::int32_t code, std::string_view topic) {
  proto::Command r;
  r.code = code;
  r.set("topic", topic);
  r.set("queueId", "0");
  r.set("consumerGroup", "CG");
  r.set("timestamp", "0");
  return c.call(r);
}

}  // namespace

TEST_SUITE("broker/light") {
  TEST_CASE("a message is pulled from its topic and from the light queues it names") {
    LightBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({.body = "1", .properties = to("%LMQ%a,%LMQ%b")})).code == 0);
    REQUIRE(c.call(send_command({.body = "2", .properties = to("%LMQ%b")})).code == 0);
    REQUIRE(c.call(send_command({.body = "3"})).code == 0);
    CHECK(messages_of(c.call(pull_command({}))).size() == 3);
    const auto pulled = c.call(pull_command({.topic = "%LMQ%b"}));
    REQUIRE(pulled.code == 0);
    CHECK(long_field(pulled, "nextBeginOffset") == 2);
    const auto messages = messages_of(pulled);
    REQUIRE(messages.size() == 2);
    // The record is the one of the topic; its offsets in light queues are in the property.
    CHECK(messages[1].topic == "T");
    CHECK(messages[1].queue_offset == 1);
    CHECK(proto::find_property(messages[0].properties, "INNER_MULTI_QUEUE_OFFSET") == "0,0");
    CHECK(proto::find_property(messages[1].properties, "INNER_MULTI_QUEUE_OFFSET") == "1");
    CHECK(messages_of(c.call(pull_command({.topic = "%LMQ%a"}))).size() == 1);
  }

  TEST_CASE("a pull that waits for a light queue gets the first message") {
    LightBroker b;
    Client consumer(b.port());
    Client producer(b.port());
    const auto parked =
        consumer.send(pull_command({.topic = "%LMQ%a", .sys_flag = 6, .suspend_ms = 20'000}));
    CHECK(!consumer.try_receive(parked, 50ms));
    REQUIRE(producer.call(send_command({.properties = to("%LMQ%a")})).code == 0);
    const auto woken = consumer.receive(parked);
    CHECK(woken.code == 0);
    CHECK(messages_of(woken).size() == 1);
  }

  TEST_CASE("offsets of light queues are told, committed and kept") {
    LightBroker b;
    {
      Client c(b.port());
      for (int i = 0; i < 3; ++i) {
        REQUIRE(c.call(send_command({.properties = to("%LMQ%a")})).code == 0);
      }
      CHECK(long_field(ask(c, C::kGetMaxOffset, "%LMQ%a"), "offset") == 3);
      CHECK(long_field(ask(c, C::kGetMinOffset, "%LMQ%a"), "offset") == 0);
      proto::Command units;
      units.code = C::kQueryConsumeQueue;
      units.set("topic", "%LMQ%a").set("queueId", "0").set("index", "1").set("count", "9");
      const auto dumped = c.call(units);
      CHECK(dumped.code == 0);
      CHECK(dumped.body.find("\"maxQueueIndex\":3") != std::string::npos);
      units.set("topic", "%LMQ%unknown");
      CHECK(c.call(units).code == 1);
      CHECK(long_field(ask(c, C::kGetMaxOffset, "%LMQ%unknown"), "offset") == 0);
      CHECK(long_field(ask(c, C::kGetEarliestMsgStoretime, "%LMQ%a"), "timestamp") >
            1'000'000'000'000);
      CHECK(long_field(ask(c, C::kQueryConsumerOffset, "%LMQ%a"), "offset") == 0);
      REQUIRE(
          c.call(pull_command({.topic = "%LMQ%a", .offset = 2, .sys_flag = 5, .commit = 2})).code ==
          0);
    }
    b.reopen();
    Client c(b.port());
    CHECK(long_field(ask(c, C::kQueryConsumerOffset, "%LMQ%a"), "offset") == 2);
    CHECK(long_field(ask(c, C::kGetMaxOffset, "%LMQ%a"), "offset") == 3);
    REQUIRE(c.call(send_command({.properties = to("%LMQ%a")})).code == 0);
    CHECK(messages_of(c.call(pull_command({.topic = "%LMQ%a", .offset = 2}))).size() == 2);
  }

  TEST_CASE("a delayed message enters its light queue when it is delivered") {
    LightBroker b;
    Client c(b.port());
    const auto parked =
        c.send(pull_command({.topic = "%LMQ%a", .sys_flag = 6, .suspend_ms = 20'000}));
    REQUIRE(c.call(send_command({.properties = to("%LMQ%a") + "\x02" + "DELAY\x01" + "1"})).code ==
            0);
    CHECK(!c.try_receive(parked, 100ms));
    const auto woken = c.receive(parked);
    REQUIRE(messages_of(woken).size() == 1);
    CHECK(messages_of(woken)[0].topic == "T");
    CHECK(long_field(ask(c, C::kGetMaxOffset, "%LMQ%a"), "offset") == 1);
  }

  TEST_CASE("a light queue has one queue, and only so many are known") {
    LightBroker b(2);
    Client c(b.port());
    CHECK(c.call(pull_command({.topic = "%LMQ%a", .queue_id = 1})).code == 1);
    CHECK(c.call(pull_command({.topic = "%LMQ%a"})).code == 19);
    CHECK(c.call(pull_command({.topic = "%LMQ%b"})).code == 19);
    CHECK(c.call(pull_command({.topic = "%LMQ%c"})).code == 17);
    CHECK(c.call(pull_command({.topic = "%LMQ%a"})).code == 19);
    CHECK(c.call(pull_command({.topic = "%LMQ%x/y"})).code == 17);
  }

  TEST_CASE("switched off, such topics are unknown") {
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({.properties = to("%LMQ%a")})).code == 0);
    CHECK(c.call(pull_command({.topic = "%LMQ%a"})).code == 17);
    CHECK(long_field(ask(c, C::kGetMaxOffset, "%LMQ%a"), "offset") == 0);
  }
}

}  // namespace tenon::broker::test
