// Named statistics and the runtime table as tools read them (spec: broker §16).
#include "stats/stats.h"

#include "broker_harness.h"

#include "tenon/proto/bodies_admin.h"

#include <doctest/doctest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <vector>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using C = proto::RequestCode;

namespace {

proto::Command stats_request(std::string_view name, std::string_view key) {
  proto::Command c;
  c.code = C::kViewBrokerStatsData;
  c.set("statsName", name).set("statsKey", key);
  return c;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) {
    out.push_back(word);
  }
  return out;
}

}  // namespace

TEST_SUITE("broker/stats") {
  TEST_CASE("windows of a minute, an hour and a day") {
    StatsItems items;
    StatsItem& item = items.item("N", "k");
    CHECK_FALSE(items.data("N", "other").has_value());
    item.add(6, 2);
    std::int64_t now = 1'700'000'000'000;
    items.sample(now);  // the first sample has a zero one before it
    auto d = *items.data("N", "k");
    CHECK(d.minute.sum == 6);
    CHECK(d.minute.tps == doctest::Approx(0.6));
    CHECK(d.minute.average == doctest::Approx(3));
    CHECK(d.hour.sum == 6);
    CHECK(d.day.sum == 6);
    for (int i = 0; i < 360; ++i) {  // an hour
      now += 10'000;
      item.add(10);
      items.sample(now);
    }
    d = *items.data("N", "k");
    CHECK(d.minute.sum == 60);  // seven samples are a minute
    CHECK(d.minute.tps == doctest::Approx(1));
    CHECK(d.minute.average == doctest::Approx(10));
    CHECK(d.hour.sum == 3600);
    CHECK(d.hour.tps == doctest::Approx(1));
    CHECK(d.day.sum == 3606);
  }

  TEST_CASE("a view counts under the keys of tools") {
    StatsItems items;
    StatsView view(items);
    view.put("T", 3, 300);
    view.got({"G", "T", 5, 2, 200, 7, true});
    items.sample(1'700'000'000'000);
    CHECK(items.data("TOPIC_PUT_NUMS", "T")->minute.sum == 3);
    CHECK(items.data("TOPIC_PUT_SIZE", "T")->minute.sum == 300);
    CHECK(items.data("GROUP_GET_NUMS", "T@G")->minute.sum == 2);
    CHECK(items.data("GROUP_GET_SIZE", "T@G")->minute.sum == 200);
    CHECK(items.data("GROUP_GET_LATENCY", "5@T@G")->minute.average == doctest::Approx(7));
    CHECK(items.data("GROUP_GET_FROM_DISK_NUMS", "T@G")->minute.sum == 2);
  }

  TEST_CASE("delayed messages are counted by queue when they are stored and when they are due") {
    ManualClock clock;
    BrokerConfig config = test_config("");
    TestBroker b(config, &clock);
    Client c(b.port());
    const std::string delay(
        "DELAY\x01"
        "1");
    REQUIRE(c.call(send_command({.queue_id = 1, .properties = delay})).code == 0);
    CHECK(c.call(stats_request("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@0")).code == 0);
    CHECK(c.call(stats_request("QUEUE_PUT_SIZE", "SCHEDULE_TOPIC_XXXX@0")).code == 0);
    CHECK(c.call(stats_request("TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX")).code == 0);
    CHECK(c.call(stats_request("QUEUE_PUT_NUMS", "T@1")).code == 1);
    const auto got = stats_request("QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@0@SCHEDULE_CONSUMER");
    CHECK(c.call(got).code == 1);
    CHECK(c.call(stats_request("TOPIC_PUT_NUMS", "T")).code == 1);
    clock.advance_ms(1'000);
    REQUIRE(c.call(pull_command({.queue_id = 1, .sys_flag = 6, .suspend_ms = 20'000})).code == 0);
    // It can be had before it is counted.
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (c.call(got).code != 0) {
      REQUIRE(std::chrono::steady_clock::now() < give_up);
    }
    CHECK(c.call(stats_request("TOPIC_PUT_NUMS", "T")).code == 0);
    for (const char* name : {"GROUP_GET_NUMS", "GROUP_GET_SIZE"}) {
      const auto by_group = stats_request(name, "SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER");
      while (c.call(by_group).code != 0) {
        REQUIRE(std::chrono::steady_clock::now() < give_up);
      }
    }
  }

  TEST_CASE("times of appends fall into Java's classes") {
    ThreadStats t;
    for (const std::uint64_t ms : {0, 1, 10, 11, 999, 10'000, 10'001}) {
      t.put_took(ms, 1);
    }
    CHECK(t.put_max_ms.load() == 10'001);
    TimeCounts counts{};
    for (std::size_t i = 0; i < counts.size(); ++i) {
      counts[i] = t.put_times[i].load();
    }
    CHECK(distribution_text(counts) ==
          "[<=0ms]:1 [0~10ms]:2 [10~50ms]:1 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 "
          "[500ms~1s]:1 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:1 [10s~]:1 ");
    CHECK(percentile_text(counts, 0.4) == "10.00");
    CHECK(percentile_text(TimeCounts{}, 0.99) == "0.00");
  }

  TEST_CASE("a topic's puts, a group's gets and its send-backs can be read; others are an error") {
    // broker §23.54
    TestBroker b;
    Client c(b.port());
    const auto unknown = c.call(stats_request("TOPIC_PUT_NUMS", "T"));
    CHECK(unknown.code == 1);
    CHECK(unknown.remark == "The stats <TOPIC_PUT_NUMS> <T> not exist");
    const auto sent = c.call(send_command({}));
    REQUIRE(sent.code == 0);
    REQUIRE(c.call(pull_command({})).code == 0);
    const auto id = proto::parse_offset_message_id(text_field(sent, "msgId"));
    proto::Command back;
    back.code = C::kConsumerSendMsgBack;
    back.set("offset", id.value().phys_offset)
        .set("group", "CG")
        .set("delayLevel", std::int64_t{0});
    REQUIRE(c.call(back).code == 0);
    for (const auto& [name, key] : {std::pair{"TOPIC_PUT_NUMS", "T"},
                                    std::pair{"TOPIC_PUT_SIZE", "T"},
                                    std::pair{"GROUP_GET_NUMS", "T@CG"},
                                    std::pair{"GROUP_GET_SIZE", "T@CG"},
                                    std::pair{"GROUP_GET_LATENCY", "0@T@CG"},
                                    std::pair{"SNDBCK_PUT_NUMS", "T@CG"}}) {
      const auto r = c.call(stats_request(name, key));
      CHECK_MESSAGE(r.code == 0, name);
      CHECK(proto::decode_broker_stats_data(r.body).has_value());
    }
  }

  TEST_CASE("every key that tools read is in the runtime table, in the form they read") {
    // broker §23.52
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    proto::Command info;
    info.code = C::kGetBrokerRuntimeInfo;
    const auto table = proto::decode_kv_table(c.call(info).body).value();
    for (const char* key : {"bootTimestamp",
                            "runtime",
                            "putMessageEntireTimeMax",
                            "getMessageEntireTimeMax",
                            "putMessageTimesTotal",
                            "putMessageFailedTimes",
                            "putMessageSizeTotal",
                            "putMessageAverageSize",
                            "putMessageDistributeTime",
                            "putLatency99",
                            "putLatency999",
                            "dispatchMaxBuffer",
                            "commitLogDiskRatio",
                            "consumeQueueDiskRatio",
                            "commitLogMinOffset",
                            "commitLogMaxOffset",
                            "brokerVersionDesc",
                            "brokerVersion",
                            "msgPutTotalYesterdayMorning",
                            "msgPutTotalTodayMorning",
                            "msgPutTotalTodayNow",
                            "msgGetTotalYesterdayMorning",
                            "msgGetTotalTodayMorning",
                            "msgGetTotalTodayNow",
                            "sendThreadPoolQueueSize",
                            "sendThreadPoolQueueCapacity",
                            "pullThreadPoolQueueSize",
                            "pullThreadPoolQueueCapacity",
                            "queryThreadPoolQueueSize",
                            "queryThreadPoolQueueCapacity",
                            "EndTransactionQueueSize",
                            "EndTransactionThreadPoolQueueCapacity",
                            "sendThreadPoolQueueHeadWaitTimeMills",
                            "pullThreadPoolQueueHeadWaitTimeMills",
                            "queryThreadPoolQueueHeadWaitTimeMills",
                            "dispatchBehindBytes",
                            "pageCacheLockTimeMills",
                            "earliestMessageTimeStamp",
                            "startAcceptSendRequestTimeStamp",
                            "remainTransientStoreBufferNumbs",
                            "remainHowManyDataToFlush",
                            "commitLogDirCapacity",
                            "brokerActive",
                            "brokerRole"}) {
      CHECK_MESSAGE(table.count(key) == 1, key);
    }
    for (const char* key :
         {"putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferedTps"}) {
      const auto three = words(table.at(key));
      REQUIRE_MESSAGE(three.size() == 3, key);
      for (const std::string& number : three) {
        CHECK(std::stod(number) >= 0);
      }
    }
    const auto capacity = words(table.at("commitLogDirCapacity"));
    REQUIRE(capacity.size() == 8);
    CHECK(std::stod(capacity[2]) > 0);
    CHECK(std::stod(capacity[6]) >= 0);
    CHECK(words(table.at("putMessageDistributeTime")).size() == 13);
    CHECK(table.at("commitLogDiskRatio") != "-1");
  }
}
