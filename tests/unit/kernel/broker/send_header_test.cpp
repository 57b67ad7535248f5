#include "processors/send_header.h"

#include "append/delay_levels.h"

#include <doctest/doctest.h>

#include <string>

using namespace tenon;
using namespace tenon::broker;

namespace {

proto::CommandView command(std::int32_t code, std::initializer_list<proto::Field> fields) {
  proto::CommandView c;
  c.code = code;
  for (const proto::Field& f : fields) {
    c.fields.push_back(f);
  }
  return c;
}

}  // namespace

TEST_SUITE("broker/send_header") {
  TEST_CASE("one-letter and long names mean the same") {
    SendHeader header;
    SUBCASE("310") {
      const auto c = command(310,
                             {{"a", "g"},
                              {"b", "T"},
                              {"c", "TBW102"},
                              {"d", "4"},
                              {"e", "-1"},
                              {"f", "1"},
                              {"g", "1700000000000"},
                              {"h", "5"},
                              {"i", "K\x01v"},
                              {"j", "2"},
                              {"k", "TRUE"},
                              {"l", "16"},
                              {"m", "true"},
                              {"n", "broker-a"}});
      REQUIRE(parse_send_header(c, header).has_value());
    }
    SUBCASE("10") {
      const auto c = command(10,
                             {{"producerGroup", "g"},
                              {"topic", "T"},
                              {"defaultTopic", "TBW102"},
                              {"defaultTopicQueueNums", "4"},
                              {"queueId", "-1"},
                              {"sysFlag", "1"},
                              {"bornTimestamp", "1700000000000"},
                              {"flag", "5"},
                              {"properties", "K\x01v"},
                              {"reconsumeTimes", "2"},
                              {"unitMode", "true"},
                              {"maxReconsumeTimes", "16"},
                              {"batch", "true"},
                              {"a", "not this"}});
      REQUIRE(parse_send_header(c, header).has_value());
    }
    CHECK(header.group == "g");
    CHECK(header.topic == "T");
    CHECK(header.default_topic == "TBW102");
    CHECK(header.default_queue_count == 4);
    CHECK(header.queue_id == -1);
    CHECK(header.sys_flag == 1);
    CHECK(header.born_ms == 1700000000000);
    CHECK(header.flag == 5);
    CHECK(header.properties == "K\x01v");
    CHECK(header.reconsume_times == 2);
    CHECK(header.unit_mode);
    CHECK(header.max_reconsume_times == 16);
    CHECK(header.batch);
  }

  TEST_CASE("what is missing or no number is named") {
    SendHeader header;
    const auto missing = parse_send_header(command(310, {{"a", "g"}}), header);
    REQUIRE(missing.has_error());
    CHECK(missing.error().detail == "the custom field <c> is null");
    const auto bad = parse_send_header(command(10, {{"queueId", "x"}}), header);
    REQUIRE(bad.has_error());
    CHECK(bad.error().detail.find("queueId") != std::string::npos);
  }

  TEST_CASE("properties that mean something to the broker") {
    const auto p = scan_properties(
        "KEYS\x01"
        "a b\x02TAGS\x01t\x02WAIT\x01"
        "FALSE\x02"
        "DELAY\x01"
        "3\x02UNIQ_KEY\x01u\x02"
        "TRAN_MSG\x01True");
    CHECK(p.keys == "a b");
    CHECK(p.tags == "t");
    CHECK(p.uniq_key == "u");
    CHECK(p.delay_level == 3);
    CHECK(p.transaction);
    CHECK_FALSE(p.wait_stored());
    CHECK(scan_properties("").wait_stored());
    CHECK(scan_properties("DELAY\x01x").delay_illegal);
    CHECK_FALSE(scan_properties("TRAN_MSG\x01"
                                "false")
                    .transaction);
  }

  TEST_CASE("the stored text") {
    Arena arena;
    const auto text = [&](std::string_view in, const PropertyChanges& changes) {
      return std::string(rewrite_properties(in, changes, arena));
    };
    CHECK(text("", {.cluster = "C"}) ==
          "CLUSTER\x01"
          "C");
    CHECK(text("A\x01"
               "1\x02WAIT\x01true\x02"
               "CLUSTER\x01old\x02"
               "B\x01"
               "2\x02",
               {.cluster = "C"}) ==
          "A\x01"
          "1\x02"
          "B\x01"
          "2\x02"
          "CLUSTER\x01"
          "C");
    // Only a message that goes to another topic first keeps WAIT (store §3.3).
    CHECK(text("DELAY\x01"
               "3\x02WAIT\x01true",
               {.cluster = "C", .real_topic = "T", .real_queue_id = 12}) ==
          "DELAY\x01"
          "3\x02WAIT\x01true\x02"
          "CLUSTER\x01"
          "C\x02REAL_TOPIC\x01T\x02REAL_QID\x01"
          "12");
    CHECK(text("DELAY\x01"
               "3",
               {.cluster = "C", .dead_letter = true}) ==
          "DELAY\x01-1\x02"
          "CLUSTER\x01"
          "C");
  }

  TEST_CASE("delay levels") {
    const auto levels =
        DelayLevels::parse("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h");
    REQUIRE(levels.has_value());
    CHECK(levels.value().max_level() == 18);
    CHECK(levels.value().delay_ms(1) == 1'000);
    CHECK(levels.value().delay_ms(18) == 7'200'000);
    CHECK(levels.value().clamp(99) == 18);
    CHECK(levels.value().delay_ms(99) == 1'000);
    CHECK(levels.value().deliver_ms(3, 5) == 10'005);
    for (const char* bad : {"1", "s", "1s  2s", "1x", "-1s"}) {
      CHECK_MESSAGE(DelayLevels::parse(bad).has_error(), bad);
    }
  }
}
