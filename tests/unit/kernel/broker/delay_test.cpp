// Delay levels and send-back over a real broker.
#include "broker_harness.h"
#include "paths.h"

#include "tenon/base/endian.h"
#include "tenon/proto/bodies_admin.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using C = proto::RequestCode;

namespace {

proto::Command send_back(std::int64_t offset, std::int32_t level, std::string_view group = "CG") {
  proto::Command c;
  c.code = C::kConsumerSendMsgBack;
  c.set("offset", offset).set("group", group).set("delayLevel", std::int64_t{level});
  c.set("originTopic", "T").set("unitMode", "false").set("maxReconsumeTimes", std::int64_t{16});
  return c;
}

proto::MessageView first(const proto::Command& pulled) {
  const auto messages = messages_of(pulled);
  REQUIRE(messages.size() == 1);
  return messages[0];
}

}  // namespace

TEST_SUITE("broker/delay") {
  TEST_CASE("a delayed message appears in its topic when its time has come, not before") {
    // broker §23.20, store §26.22
    ManualClock clock;
    BrokerConfig config = test_config("");
    TestBroker b(config, &clock);
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    const auto sent = c.call(send_command({.queue_id = 2,
                                           .body = "later",
                                           .properties = "DELAY\x01"
                                                         "3\x02TAGS\x01t"}));
    REQUIRE(sent.code == 0);
    CHECK(long_field(sent, "queueId") == 2);  // the requested one, not the level's
    clock.advance_ms(9'999);
    CHECK(c.call(pull_command({.queue_id = 2, .sys_flag = 6, .suspend_ms = 150})).code == 19);
    clock.advance_ms(1);
    const auto pulled = c.call(
        pull_command({.queue_id = 2, .sys_flag = 6, .suspend_ms = 20'000, .subscription = "t"}));
    REQUIRE(pulled.code == 0);
    const auto m = first(pulled);
    CHECK(m.topic == "T");
    CHECK(m.queue_id == 2);
    CHECK(as_text(m.body) == "later");
    // Trap: these stay in the stored text (spec broker §12.2).
    CHECK(proto::find_property(m.properties, "DELAY") == "3");
    CHECK(proto::find_property(m.properties, "REAL_TOPIC") == "T");
    CHECK(proto::find_property(m.properties, "REAL_QID") == "2");
    proto::Command offsets;
    offsets.code = C::kGetAllDelayOffset;
    // A message can be had before the position behind it is noted.
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (c.call(offsets).body != "{\"offsetTable\":{3:1}}") {
      REQUIRE(std::chrono::steady_clock::now() < give_up);
    }
  }

  TEST_CASE("a level beyond the last one is the last one") {
    // broker §23.20
    ManualClock clock;
    BrokerConfig config = test_config("");
    config.message_delay_level = "1s 2s";
    TestBroker b(config, &clock);
    Client c(b.port());
    REQUIRE(c.call(send_command({.properties = "DELAY\x01"
                                               "99"}))
                .code == 0);
    clock.advance_ms(2'000);
    CHECK(c.call(pull_command({.sys_flag = 6, .suspend_ms = 20'000})).code == 0);
  }

  TEST_CASE("delayed messages survive a restart") {
    auto folder = std::make_shared<TempFolder>();
    BrokerConfig config = test_config(folder->path());
    {
      TestBroker b(folder);
      Client c(b.port());
      REQUIRE(c.call(send_command({.body = "x",
                                   .properties = "DELAY\x01"
                                                 "1"}))
                  .code == 0);
    }
    TestBroker b(folder);
    Client c(b.port());
    const auto pulled = c.call(pull_command({.sys_flag = 6, .suspend_ms = 9'000}));
    REQUIRE(pulled.code == 0);
    CHECK(as_text(first(pulled).body) == "x");
  }

  TEST_CASE("what a 4.9.7 broker left pending comes at its time, what it delivered does not") {
    // tests/data/store/delay: 12 of 26 delivered, positions of levels 1 to 3 in delayOffset.json.
    auto folder = std::make_shared<TempFolder>();
    const auto archive =
        std::filesystem::path(tenon::test::data_dir()) / "store" / "delay" / "store.tar.gz";
    const std::string command = "tar -xzf '" + archive.string() + "' --strip-components=1 -C '" +
                                folder->path().string() + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    ManualClock clock(1'796'022'254'000);
    BrokerConfig config = test_config(folder->path());
    config.name = "broker-a";
    TestBroker b(folder, config, clock);
    Client c(b.port());
    const auto pull = [&](std::int32_t queue, std::int64_t offset, std::int64_t wait) {
      return c.call(pull_command({.topic = "TopicDelay",
                                  .queue_id = queue,
                                  .offset = offset,
                                  .sys_flag = 6,
                                  .suspend_ms = wait}));
    };
    clock.advance_ms(9'868);
    CHECK(pull(1, 6, 250).code == 19);
    clock.advance_ms(1);  // the fifth of level 3
    REQUIRE(pull(1, 6, 20'000).code == 0);
    CHECK(pull(0, 7, 250).code == 19);
    clock.advance_ms(3 * 3'600'000);
    std::set<std::string> keys;
    for (const auto& [queue, count] : {std::pair{0, 14}, {1, 13}}) {
      for (std::int64_t at = 0; at < count;) {
        const auto pulled = pull(queue, at, 20'000);
        REQUIRE(pulled.code == 0);
        for (const auto& m : messages_of(pulled)) {
          keys.emplace(proto::find_property(m.properties, "UNIQ_KEY").value_or(""));
        }
        at = long_field(pulled, "nextBeginOffset");
      }
      CHECK(pull(queue, count, 250).code == 19);
    }
    CHECK(keys.size() == 27);
  }

  TEST_CASE("positions come from the backup of a file that is none, and keep what others wrote") {
    auto folder = std::make_shared<TempFolder>();
    const auto file = folder->path() / "config" / "delayOffset.json";
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "[]";
    std::ofstream(file.string() + ".bak")
        << R"({"dataVersion":{"counter":3,"timestamp":5},"offsetTable":{2:7}})";
    {
      ManualClock clock;
      TestBroker b(folder, test_config(folder->path()), clock);
      Client c(b.port());
      REQUIRE(c.call(send_command({.body = "x",
                                   .properties = "DELAY\x01"
                                                 "1"}))
                  .code == 0);
      clock.advance_ms(1'000);
      REQUIRE(c.call(pull_command({.sys_flag = 6, .suspend_ms = 9'000})).code == 0);
    }
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto table = proto::decode_delay_offset_table(text);
    REQUIRE_MESSAGE(table.has_value(), text);
    CHECK(table.value().offsets == std::map<std::int32_t, std::int64_t>{{1, 1}, {2, 7}});
    CHECK(table.value().extra ==
          std::map<std::string, std::string>{{"dataVersion", R"({"counter":3,"timestamp":5})"}});
  }

  TEST_CASE("a message sent back comes again through the retry topic, then as a dead letter") {
    // broker §23.23, §23.24
    ManualClock clock;
    BrokerConfig config = test_config("");
    TestBroker b(config, &clock);
    Client c(b.port());
    const auto sent = c.call(send_command({.body = "again", .properties = "TAGS\x01t"}));
    REQUIRE(sent.code == 0);
    const auto id = proto::parse_offset_message_id(text_field(sent, "msgId")).value();
    REQUIRE(c.call(send_back(id.phys_offset, 0)).code == 0);
    clock.advance_ms(10'000);  // level 3 + 0 reconsumptions
    const auto pulled =
        c.call(pull_command({.topic = "%RETRY%CG", .sys_flag = 6, .suspend_ms = 20'000}));
    REQUIRE(pulled.code == 0);
    const auto m = first(pulled);
    CHECK(m.reconsume_times == 1);
    CHECK(as_text(m.body) == "again");
    CHECK(proto::find_property(m.properties, "RETRY_TOPIC") == "T");
    CHECK(proto::find_property(m.properties, "ORIGIN_MESSAGE_ID") == text_field(sent, "msgId"));
    CHECK(proto::find_property(m.properties, "TAGS") == "t");

    // A negative level goes to the dead letters at once.
    REQUIRE(c.call(send_back(m.phys_offset, -1)).code == 0);
    const auto dead = c.call(pull_command({.topic = "%DLQ%CG"}));
    REQUIRE(dead.code == 0);
    CHECK(first(dead).reconsume_times == 2);
    CHECK(proto::find_property(first(dead).properties, "ORIGIN_MESSAGE_ID") ==
          text_field(sent, "msgId"));
  }

  TEST_CASE("send-back of nothing, and of a group without retries") {
    // broker §23.25
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    const auto wrong = c.call(send_back(123'456, 0));
    CHECK(wrong.code == 1);
    CHECK(wrong.remark == "look message by offset failed, 123456");
    proto::SubscriptionGroupConfig g;
    g.name = "NoRetry";
    g.retry_queue_count = 0;
    proto::Command update;
    update.code = C::kUpdateAndCreateSubscriptiongroup;
    update.body = proto::encode(g);
    REQUIRE(c.call(update).code == 0);
    CHECK(c.call(send_back(0, 0, "NoRetry")).code == 0);
    CHECK(c.call(pull_command({.topic = "%RETRY%NoRetry"})).code == 17);
  }

  TEST_CASE("an illegal delay is refused, never lost") {
    TestBroker b;
    Client c(b.port());
    CHECK(c.call(send_command({.properties = "DELAY\x01x"})).code == 1);
    CHECK(c.call(send_command({.properties = "DELAY\x01"
                                             "0"}))
              .code == 0);
    CHECK(c.call(pull_command({})).code == 0);
  }
}
