// Messages for any time over a real broker.
#include "broker_harness.h"
#include "paths.h"

#include "tenon/base/endian.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using C = proto::RequestCode;

namespace {

constexpr std::int64_t kStart = 1'700'000'000'000;  ///< of a ManualClock
constexpr std::int64_t kDay = 86'400'000;

constexpr std::size_t kWheelSlots = 7 * 86'400 * 2;

std::int64_t long_at(const std::string& bytes, std::size_t at) {
  return load_be<std::int64_t>(bytes.data() + at);
}
std::int32_t int_at(const std::string& bytes, std::size_t at) {
  return load_be<std::int32_t>(bytes.data() + at);
}

std::string property(std::string_view name, std::int64_t value) {
  return std::string(name) + '\x01' + std::to_string(value);
}

proto::Command timed(std::string body,
                     std::string_view name,
                     std::int64_t value,
                     std::string uniq = "U1") {
  return send_command(
      {.body = std::move(body), .properties = property(name, value) + "\x02UNIQ_KEY\x01" + uniq});
}

proto::Command recall(std::string_view handle, std::string_view topic = "T") {
  proto::Command c;
  c.code = C::kRecallMessage;
  c.set("producerGroup", "PG").set("topic", topic).set("recallHandle", handle);
  return c;
}

/// Waits for a message at the offset; the texts live in the answer.
proto::Command wait_message(Client& c, std::int64_t offset, std::string topic = "T") {
  return c.call(pull_command(
      {.topic = std::move(topic), .offset = offset, .sys_flag = 6, .suspend_ms = 20'000}));
}

bool nothing_at(Client& c, std::int64_t offset) {
  return c.call(pull_command({.offset = offset, .sys_flag = 6, .suspend_ms = 250})).code == 19;
}

std::string body_at(Client& c, std::int64_t offset) {
  const auto pulled = wait_message(c, offset);
  REQUIRE(pulled.code == 0);
  return std::string(as_text(messages_of(pulled).at(0).body));
}

/// A broker on a folder and a clock that outlive it.
TestBroker reopened(const std::shared_ptr<TempFolder>& folder,
                    const Clock& clock,
                    bool recalls = false) {
  BrokerConfig config = test_config(folder->path());
  config.recall_message = recalls;
  return TestBroker(folder, config, clock);
}

/// Copies the folder of a running broker: what a crash at this moment leaves. A file that goes while
/// it is copied begins the copy anew.
std::shared_ptr<TempFolder> crashed_copy(const TempFolder& live) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    auto copy = std::make_shared<TempFolder>();
    const std::string command =
        "cp -a '" + live.path().string() + "/.' '" + copy->path().string() + "/' 2>/dev/null";
    if (std::system(command.c_str()) == 0) {
      return copy;
    }
  }
  FAIL("a running broker's folder cannot be copied");
  return {};
}

}  // namespace

TEST_SUITE("broker/timer") {
  TEST_CASE("a message comes at its millisecond, not before, as a 5.x broker shows it") {
    ManualClock clock;
    TestBroker b(test_config(""), &clock);
    Client c(b.port());
    REQUIRE(c.call(send_command({.queue_id = 0})).code == 0);
    const auto sent = c.call(timed("later", "TIMER_DELAY_MS", 12'345));
    REQUIRE(sent.code == 0);
    CHECK(long_field(sent, "queueId") == 0);
    CHECK(max_offset(c, "rmq_sys_wheel_timer") == 1);
    clock.advance_ms(12'344);
    CHECK(nothing_at(c, 1));
    clock.advance_ms(1);
    const auto pulled = wait_message(c, 1);
    REQUIRE(pulled.code == 0);
    const auto m = messages_of(pulled).at(0);
    CHECK(m.topic == "T");
    CHECK(as_text(m.body) == "later");
    // Trap: all of these stay (spec store §19).
    CHECK(proto::find_property(m.properties, "TIMER_DELAY_MS") == "12345");
    CHECK(proto::find_property(m.properties, "REAL_TOPIC") == "T");
    CHECK(proto::find_property(m.properties, "REAL_QID") == "0");
    CHECK(proto::find_property(m.properties, "TIMER_OUT_MS") == "1700000012344");
    CHECK(proto::find_property(m.properties, "TIMER_ENQUEUE_MS") == std::to_string(kStart));
    CHECK(proto::find_property(m.properties, "TIMER_DEQUEUE_MS") ==
          std::to_string(kStart + 12'345));
    CHECK(proto::find_property(m.properties, "UNIQ_KEY") == "U1");
  }

  TEST_CASE("seconds, an absolute time, the past, and forty days") {
    ManualClock clock;
    TestBroker b(test_config(""), &clock);
    Client c(b.port());
    REQUIRE(c.call(timed("past", "TIMER_DELIVER_MS", kStart - 5)).code == 0);
    CHECK(body_at(c, 0) == "past");
    REQUIRE(c.call(timed("sec", "TIMER_DELAY_SEC", 7)).code == 0);
    REQUIRE(c.call(timed("abs", "TIMER_DELIVER_MS", kStart + 9'000)).code == 0);
    REQUIRE(c.call(timed("far", "TIMER_DELAY_SEC", 40 * 86'400)).code == 0);
    const auto beyond = c.call(timed("no", "TIMER_DELAY_SEC", 40 * 86'400 + 1));
    CHECK(beyond.code == 13);
    CHECK(beyond.remark ==
          "timer message illegal, the delay time should not be bigger than the max delay "
          "3456000000ms; or if set del msg, the delay time should be bigger than the current time");
    CHECK(c.call(send_command({.properties = "TIMER_DELAY_SEC\x01soon"})).code == 13);
    clock.advance_ms(7'000);
    CHECK(body_at(c, 1) == "sec");
    clock.advance_ms(2'002);
    CHECK(body_at(c, 2) == "abs");
    clock.advance_ms(40 * kDay - 9'003);
    CHECK(nothing_at(c, 3));
    clock.advance_ms(2);
    CHECK(body_at(c, 3) == "far");
  }

  TEST_CASE(
      "a delay level wins and takes the wish away; a half-given wish is no send to the wheel") {
    ManualClock clock;
    TestBroker b(test_config(""), &clock);
    Client c(b.port());
    REQUIRE(c.call(send_command({.properties = "DELAY\x01"
                                               "1\x02TIMER_DELAY_SEC\x01"
                                               "500"}))
                .code == 0);
    clock.advance_ms(1'000);
    const auto pulled = wait_message(c, 0);
    const auto m = messages_of(pulled).at(0);
    CHECK(proto::find_property(m.properties, "DELAY") == "1");
    CHECK_FALSE(proto::find_property(m.properties, "TIMER_DELAY_SEC").has_value());
    // Delivered before: sent again by a client, it is no timer message any more.
    REQUIRE(c.call(send_command({.body = "again",
                                 .properties = "TIMER_DELAY_SEC\x01"
                                               "500\x02TIMER_OUT_MS\x01"
                                               "5"}))
                .code == 0);
    CHECK(body_at(c, 1) == "again");
    CHECK(c.call(send_command({.topic = "rmq_sys_wheel_timer"})).code == 16);
  }

  TEST_CASE("a broker without the timer refuses and says why") {
    BrokerConfig config = test_config("");
    config.timer_wheel = false;
    TestBroker b(config);
    Client c(b.port());
    const auto r = c.call(timed("x", "TIMER_DELAY_SEC", 5));
    CHECK(r.code == 1);
    CHECK(r.remark == "accurate timer message is not enabled, timerWheelEnable is false");
  }

  TEST_CASE("a far message is stored again each roll window and comes once") {
    auto folder = std::make_shared<TempFolder>();
    ManualClock clock;
    BrokerConfig config = test_config(folder->path());
    {
      TestBroker b(folder, config, clock);
      Client c(b.port());
      REQUIRE(c.call(timed("far", "TIMER_DELAY_SEC", 5 * 86'400)).code == 0);
      clock.advance_ms(2 * kDay + 1);
      CHECK(wait_message(c, 1, "rmq_sys_wheel_timer").code == 0);
    }
    TestBroker b(folder, config, clock);
    Client c(b.port());
    clock.advance_ms(2 * kDay);
    const auto rolled = wait_message(c, 2, "rmq_sys_wheel_timer");
    REQUIRE(rolled.code == 0);
    CHECK(proto::find_property(messages_of(rolled).at(0).properties, "TIMER_ROLL_TIMES") == "2");
    clock.advance_ms(kDay - 2);
    CHECK(nothing_at(c, 0));
    clock.advance_ms(3);
    CHECK(body_at(c, 0) == "far");
    clock.advance_ms(5 * kDay);
    CHECK(nothing_at(c, 1));
  }

  TEST_CASE("a far message is stored again before the log that holds it expires") {
    auto folder = std::make_shared<TempFolder>();
    ManualClock clock;
    BrokerConfig config = test_config(folder->path());
    config.retention.file_reserved_hours = 3;
    TestBroker b(folder, config, clock);
    Client c(b.port());
    REQUIRE(c.call(timed("far", "TIMER_DELAY_SEC", 86'400)).code == 0);
    clock.advance_ms(2 * 3'600'000 + 1);
    CHECK(wait_message(c, 1, "rmq_sys_wheel_timer").code == 0);
  }

  TEST_CASE("a clean restart and a crash lose nothing and repeat nothing") {
    auto folder = std::make_shared<TempFolder>();
    ManualClock clock;
    std::shared_ptr<TempFolder> after_crash;
    {
      TestBroker b = reopened(folder, clock);
      Client c(b.port());
      for (int i = 0; i < 50; ++i) {
        REQUIRE(c.call(timed(std::to_string(i), "TIMER_DELAY_MS", 1'000 + 100 * i)).code == 0);
      }
      clock.advance_ms(2'950);
      wait_message(c, 19);
      after_crash = crashed_copy(*folder);
    }
    std::string name;
    SUBCASE("clean") {
      name = "clean";
    }
    SUBCASE("crash: the log alone tells what was delivered") {
      CHECK_FALSE(std::filesystem::exists(after_crash->path() / "config" / "timerPending"));
      folder = after_crash;
    }
    SUBCASE("clean, then the snapshot is lost") {
      std::filesystem::remove(folder->path() / "config" / "timerPending");
    }
    SUBCASE("clean, then the snapshot is damaged") {
      write_text(folder->path() / "config" / "timerPending", "nonsense");
    }
    TestBroker b = reopened(folder, clock);
    Client c(b.port());
    clock.advance_ms(60'000);
    std::multiset<std::string> bodies;
    for (std::int64_t at = 0; bodies.size() < 50;) {
      const auto pulled = wait_message(c, at);
      REQUIRE(pulled.code == 0);
      for (const auto& m : messages_of(pulled)) {
        bodies.emplace(as_text(m.body));
      }
      at = long_field(pulled, "nextBeginOffset");
    }
    for (int i = 0; i < 50; ++i) {
      CHECK(bodies.count(std::to_string(i)) == 1);
    }
    CHECK(nothing_at(c, 50));
  }

  TEST_CASE("a recalled message does not come; the others of its time do") {
    auto folder = std::make_shared<TempFolder>();
    ManualClock clock;
    std::string handle;
    {
      TestBroker b = reopened(folder, clock, true);
      Client c(b.port());
      const auto sent = c.call(timed("gone", "TIMER_DELAY_SEC", 30, "UA"));
      handle = text_field(sent, "recallHandle");
      REQUIRE(c.call(timed("stays", "TIMER_DELAY_SEC", 30, "UB")).code == 0);
      const auto r = c.call(recall(handle));
      CHECK(r.code == 0);
      CHECK(r.remark == "not set any response code");  // remoting §1.8
      CHECK(text_field(r, "msgId") == "UA");
      SUBCASE("in one run") {
        clock.advance_ms(40'000);
        CHECK(body_at(c, 0) == "stays");
        CHECK(nothing_at(c, 1));
        const auto late = c.call(recall(handle));
        CHECK(late.code == 604);
        CHECK(late.remark == "recall failed, timestamp invalid");
      }
      SUBCASE("over a restart") {}
      SUBCASE("over a restart without the snapshot") {
        b.stop();
        std::filesystem::remove(folder->path() / "config" / "timerPending");
      }
    }
    TestBroker b = reopened(folder, clock, true);
    Client c(b.port());
    clock.advance_ms(40'000);
    CHECK(body_at(c, 0) == "stays");
    CHECK(nothing_at(c, 1));
  }

  TEST_CASE("recalls are refused as Java refuses them") {
    ManualClock clock;
    BrokerConfig config = test_config("");
    SUBCASE("not enabled, which is the default") {
      TestBroker b(config, &clock);
      Client c(b.port());
      const auto sent = c.call(timed("x", "TIMER_DELAY_SEC", 30));
      const auto r = c.call(recall(text_field(sent, "recallHandle")));  // given all the same
      CHECK(r.code == 16);
      CHECK(r.remark == "recall failed, operation is forbidden");
    }
    SUBCASE("enabled") {
      config.recall_message = true;
      TestBroker b(config, &clock);
      Client c(b.port());
      const auto sent = c.call(timed("x", "TIMER_DELAY_SEC", 30));
      const std::string handle = text_field(sent, "recallHandle");
      REQUIRE(c.call(send_command({.topic = "Other"})).code == 0);
      CHECK(c.call(recall(handle, "Unknown")).code == 17);
      CHECK(c.call(recall(handle, "Unknown")).remark ==
            "recall failed, the topic[Unknown] not exist");
      CHECK(c.call(recall("?")).code == 604);
      CHECK(c.call(recall("?")).remark == "recall handle is invalid");
      CHECK(c.call(recall(handle, "Other")).code == 604);
      CHECK(c.call(recall(handle, "Other")).remark == "recall failed, topic not match");
      const auto far = c.call(timed("x", "TIMER_DELAY_SEC", 40 * 86'400));
      CHECK(c.call(recall(text_field(far, "recallHandle"))).code == 604);
    }
  }

  TEST_CASE("what a 5.3.3 broker left pending comes in time, and only that") {
    // tests/data/store/v5-timer: four delivered, four pending, stopped cleanly.
    auto folder = std::make_shared<TempFolder>();
    const auto archive =
        std::filesystem::path(tenon::test::data_dir()) / "store" / "v5-timer" / "store.tar.gz";
    const std::string command = "tar -xzf '" + archive.string() + "' --strip-components=1 -C '" +
                                folder->path().string() + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    ManualClock clock(1'796'022'650'000);
    BrokerConfig config = test_config(folder->path());
    config.name = "broker-a";
    const auto pull = [](Client& c, std::int32_t queue, std::int64_t offset, std::int64_t wait) {
      return c.call(pull_command({.topic = "TopicTimer",
                                  .queue_id = queue,
                                  .offset = offset,
                                  .sys_flag = 6,
                                  .suspend_ms = wait}));
    };
    {
      TestBroker b(folder, config, clock);
      Client c(b.port());
      CHECK(pull(c, 0, 5, 250).code == 19);
      CHECK(pull(c, 1, 3, 250).code == 19);
      // timer-far-1: TIMER_DELAY_SEC 40001, stored at …622407, so due at …062623407.
      clock.advance_ms(1'796'062'623'406 - clock.wall_ms());
      CHECK(pull(c, 1, 3, 250).code == 19);
      clock.advance_ms(1);
      const auto first = pull(c, 1, 3, 20'000);
      REQUIRE(first.code == 0);
      CHECK(proto::find_property(messages_of(first).at(0).properties, "KEYS") == "timer-far-1");
    }
    CHECK(std::filesystem::exists(folder->path() / "timerwheel.taken"));
    {
      // For the way back: the three pending ones, each in its second, far-1 not any more, although an
      // older one is pending; the queue was read up to its end.
      const std::string wheel = read_text(folder->path() / "timerwheel");
      REQUIRE(wheel.size() == kWheelSlots * 32);
      std::map<std::int64_t, std::array<std::int64_t, 3>> slots;
      for (std::size_t at = 0; at < wheel.size(); at += 32) {
        if (const auto second = long_at(wheel, at); second != 0) {
          REQUIRE(static_cast<std::size_t>(second) % kWheelSlots == at / 32);
          slots[second] = {long_at(wheel, at + 8), long_at(wheel, at + 16), int_at(wheel, at + 24)};
        }
      }
      CHECK(slots == decltype(slots){{1'796'062'625, {104, 104, 1}},
                                     {1'796'109'022, {0, 0, 1}},
                                     {1'796'109'024, {52, 52, 1}}});
      const std::string log = read_text(folder->path() / "timerlog" / "00000000000000000000");
      REQUIRE(log.size() == 5200);  // as that broker had them
      const std::int64_t read_ms = clock.wall_ms() / 1000 * 1000;
      for (const auto& [at, phys, due_ms] :
           {std::array<std::int64_t, 3>{0, 1372, 1'796'109'022'000},
            {52, 2067, 1'796'109'024'000},
            {104, 2419, 1'796'062'625'000}}) {
        const auto u = static_cast<std::size_t>(at);
        CHECK(int_at(log, u) == 52);
        CHECK(long_at(log, u + 4) == -1);
        CHECK(int_at(log, u + 12) == 1);
        CHECK(long_at(log, u + 16) + int_at(log, u + 24) == due_ms);
        CHECK(long_at(log, u + 28) == phys);
        CHECK(int_at(log, u + 40) == proto::java_hash("TopicTimer"));
      }
      CHECK(int_at(log, 156) == 0);
      const std::string check = read_text(folder->path() / "config" / "timercheck");
      CHECK(std::array{
                long_at(check, 0), long_at(check, 8), long_at(check, 16), long_at(check, 24)} ==
            std::array<std::int64_t, 4>{read_ms, 156, 8, 8});
    }
    TestBroker b(folder, config, clock);
    Client c(b.port());
    CHECK(pull(c, 1, 4, 250).code == 19);
    clock.advance_ms(2'014);  // timer-far-3
    const auto second = pull(c, 1, 4, 20'000);
    REQUIRE(second.code == 0);
    CHECK(proto::find_property(messages_of(second).at(0).properties, "KEYS") == "timer-far-3");
    clock.advance_ms(1'796'109'022'264 - clock.wall_ms());
    // Offset 5 is the message of delay level 18, which came meanwhile.
    CHECK(pull(c, 0, 6, 250).code == 19);
    clock.advance_ms(1);
    const auto third = pull(c, 0, 6, 20'000);
    CHECK(proto::find_property(messages_of(third).at(0).properties, "KEYS") == "timer-far-0");
    clock.advance_ms(2'000);
    const auto fourth = pull(c, 0, 7, 20'000);
    CHECK(proto::find_property(messages_of(fourth).at(0).properties, "KEYS") == "timer-far-2");
    clock.advance_ms(10 * kDay);
    CHECK(pull(c, 0, 8, 250).code == 19);
    CHECK(pull(c, 1, 5, 250).code == 19);
  }
}
