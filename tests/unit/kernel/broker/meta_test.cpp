// The JSON files of a broker in Java's form (spec: store §8.3), and what survives a restart.
#include "broker_harness.h"
#include "meta/groups.h"
#include "meta/json_file.h"
#include "meta/offsets.h"
#include "meta/rocksdb_tables.h"
#include "meta/topics.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;

namespace {

constexpr std::string_view kOffsetsJson =
    "{\n\t\"offsetTable\":{\n\t\t\"%RETRY%CG1@CG1\":{0:0\n\t\t},\n\t\t\"TopicA@CG1\":{0:7,1:0,3:1\n"
    "\t\t}\n\t}\n}";

Result<> always_ok(std::string_view) {
  return ok();
}

}  // namespace

TEST_SUITE("broker/meta") {
  TEST_CASE("a file is replaced at once and its predecessor kept as .bak") {
    const TempFolder folder;
    const auto file = folder.path() / "config" / "x.json";
    REQUIRE(save_json_file(file, "one").has_value());
    CHECK_FALSE(std::filesystem::exists(file.string() + ".bak"));
    REQUIRE(save_json_file(file, "two").has_value());
    CHECK(read_text(file) == "two");
    CHECK(read_text(file.string() + ".bak") == "one");
    REQUIRE(save_json_file(file, "three").has_value());
    CHECK(read_text(file.string() + ".bak") == "two");
    CHECK_FALSE(std::filesystem::exists(file.string() + ".tmp"));
  }

  // store §26.25
  TEST_CASE("loading falls back to .bak for a missing, an empty and a damaged file") {
    const TempFolder folder;
    const auto file = folder.path() / "x.json";
    std::string seen;
    const auto parse = [&](std::string_view text) -> Result<> {
      if (text == "bad") {
        return Error{Errc::kInvalid, "bad text"};
      }
      seen = text;
      return ok();
    };
    REQUIRE(load_json_file(file, parse).has_value());  // both missing: nothing to read
    CHECK(seen.empty());
    write_text(file.string() + ".bak", "old");
    SUBCASE("missing") {}
    SUBCASE("empty") {
      write_text(file, "");
    }
    SUBCASE("damaged") {
      write_text(file, "bad");
    }
    REQUIRE(load_json_file(file, parse).has_value());
    CHECK(seen == "old");
    write_text(file, "new");
    REQUIRE(load_json_file(file, parse).has_value());
    CHECK(seen == "new");
  }

  TEST_CASE("a damaged file without a backup is an error that names it and the remedy") {
    const TempFolder folder;
    const auto file = folder.path() / "x.json";
    write_text(file, "bad");
    const auto bad = load_json_file(file, [](std::string_view) -> Result<> {
      return Error{Errc::kInvalid, "unreadable"};
    });
    REQUIRE(bad.has_error());
    CHECK(bad.error().detail.find(file.string()) != std::string::npos);
    CHECK(bad.error().detail.find("move the damaged file") != std::string::npos);
    write_text(file.string() + ".bak", "bad too");
    CHECK(load_json_file(file, [](std::string_view) -> Result<> {
            return Error{Errc::kInvalid, "unreadable"};
          }).has_error());
    CHECK(load_json_file(file, always_ok).has_value());
  }

  // store §26.24
  TEST_CASE("consumerOffset.json is read and written in Java's form") {
    const TempFolder folder;
    write_text(folder.path() / "config/consumerOffset.json", kOffsetsJson);
    Offsets offsets(folder.path());
    REQUIRE(offsets.load().has_value());
    CHECK(offsets.query("CG1", "TopicA", 0) == 7);
    CHECK(offsets.query("CG1", "TopicA", 2) == -1);
    CHECK(offsets.query("Nobody", "TopicA", 0) == -1);
    REQUIRE(offsets.persist().has_value());
    CHECK_FALSE(std::filesystem::exists(folder.path() / "config/consumerOffset.json.bak"));
    offsets.commit("CG1", "TopicA", 0, 3);  // backwards is allowed
    REQUIRE(offsets.persist().has_value());
    std::string expected(kOffsetsJson);
    expected.replace(expected.find("0:7"), 3, "0:3");
    CHECK(read_text(folder.path() / "config/consumerOffset.json") == expected);
    CHECK(offsets.topics_of("CG1") == std::set<std::string>{"%RETRY%CG1", "TopicA"});
    CHECK(offsets.groups_of("TopicA") == std::set<std::string>{"CG1"});
    offsets.remove_group("CG1");
    CHECK(offsets.query("CG1", "TopicA", 0) == -1);
  }

  TEST_CASE("with light queues the offsets are those of lmqConsumerOffset.json, and go there") {
    const TempFolder folder;
    const auto config = folder.path() / "config";
    write_text(config / "consumerOffset.json", "{\"offsetTable\":{\"T@g\":{0:1},\"Old@g\":{0:4}}}");
    write_text(config / "lmqConsumerOffset.json",
               "{\"lmqOffsetTable\":{\"%LMQ%a@%LMQ%a\":5},\"offsetTable\":{\"T@g\":{0:2,1:3}}}");
    const auto now = std::filesystem::last_write_time(config / "consumerOffset.json");
    std::int64_t of_t = 2;
    SUBCASE("the younger file") {
      std::filesystem::last_write_time(config / "lmqConsumerOffset.json",
                                       now + std::chrono::hours(1));
    }
    SUBCASE("the older file fills up") {
      std::filesystem::last_write_time(config / "lmqConsumerOffset.json",
                                       now - std::chrono::hours(1));
      of_t = 1;
    }
    {
      Offsets offsets(folder.path());
      offsets.keep_light_file();
      REQUIRE(offsets.load().has_value());
      CHECK(offsets.query("g", "T", 0) == of_t);
      CHECK(offsets.query("g", "Old", 0) == 4);
      CHECK(offsets.query("%LMQ%a", "%LMQ%a", 0) == 5);
      offsets.commit("%LMQ%a", "%LMQ%a", 0, 6);
      offsets.commit("g", "%LMQ%b", 0, 7);  // an ordinary group of a light queue
      REQUIRE(offsets.persist().has_value());
    }
    const std::string light = read_text(config / "lmqConsumerOffset.json");
    CHECK(light.find("\"%LMQ%a@%LMQ%a\":6") != std::string::npos);
    CHECK(light.find("\"%LMQ%b@g\":{0:7") != std::string::npos);
    std::filesystem::remove(config / "consumerOffset.json");
    std::filesystem::remove(config / "consumerOffset.json.bak");
    Offsets offsets(folder.path());
    offsets.keep_light_file();
    REQUIRE(offsets.load().has_value());
    CHECK(offsets.query("g", "T", 0) == of_t);
    CHECK(offsets.query("%LMQ%a", "%LMQ%a", 0) == 6);
    CHECK(offsets.query("g", "%LMQ%b", 0) == 7);
  }

  TEST_CASE("tables that lie in RocksDB alone are refused, not started without") {
    const TempFolder folder;
    const auto config = folder.path() / "config";
    CHECK(refuse_rocksdb_tables(folder.path()).has_value());
    write_text(config / "topics.json", "{}");
    for (const char* table : {"topics", "subscriptionGroups", "consumerOffsets"}) {
      std::filesystem::create_directories(config / table);
      write_text(config / table / "CURRENT", "MANIFEST-000005\n");
    }
    write_text(config / "consumerOffset.json.bak", "{}");
    const auto refused = refuse_rocksdb_tables(folder.path());
    REQUIRE(refused.has_error());
    CHECK(refused.error().detail.find("subscriptionGroups is in RocksDB") != std::string::npos);
    write_text(config / "subscriptionGroup.json", "{}");
    CHECK(refuse_rocksdb_tables(folder.path()).has_value());
    // The broker itself: nothing starts, nothing is made.
    std::filesystem::remove(config / "subscriptionGroup.json");
    ConfigNode options = small_store_options();
    const auto registry = test_registry();
    PluginSlots slots;
    slots.storage = {"tenon.store.file", &options};
    CHECK(Broker::start(test_config(folder.path()), *registry, slots).has_error());
    CHECK_FALSE(std::filesystem::exists(folder.path() / "commitlog"));
  }

  TEST_CASE("topics.json: the file wins over the built-in topics, its version is kept") {
    const TempFolder folder;
    const ManualClock clock;
    BrokerConfig config = test_config(folder.path());
    write_text(folder.path() / "config/topics.json",
               "{\"dataVersion\":{\"counter\":7,\"timestamp\":1700000000001},\"topicConfigTable\":{"
               "\"DefaultCluster\":{\"order\":false,\"perm\":1,\"readQueueNums\":16,"
               "\"topicFilterType\":\"SINGLE_TAG\",\"topicName\":\"DefaultCluster\","
               "\"topicSysFlag\":0,\"writeQueueNums\":16}}}");
    Topics topics(config, clock);
    REQUIRE(topics.load().has_value());
    CHECK(topics.version() == proto::DataVersion{1700000000001, 7});
    CHECK(topics.find("DefaultCluster")->config().perm == 1);
    CHECK(topics.find("TBW102")->config().perm == 7);
    CHECK(topics.find("TBW102")->config().write_queue_count == 8);
    CHECK(topics.find("broker-t")->config().perm == 7);
    CHECK(topics.find("SCHEDULE_TOPIC_XXXX")->config().read_queue_count == 18);
    CHECK(topics.find("BenchmarkTest")->config().read_queue_count == 1024);
    CHECK(topics.find("DefaultCluster_REPLY_TOPIC") != nullptr);
    CHECK(topics.find("RMQ_SYS_TRACE_TOPIC") == nullptr);
    CHECK(topics.is_system("RMQ_SYS_TRACE_TOPIC"));
    CHECK(topics.is_system("rmq_sys_anything"));
    CHECK(topics.is_system("broker-t"));
    CHECK_FALSE(topics.is_system("Mine"));

    int changes = 0;
    topics.on_change([&] { ++changes; });
    const TopicPtr made = topics.create_for_send("Mine", "TBW102", 4, 0);
    REQUIRE(made != nullptr);
    CHECK(made->config().read_queue_count == 4);
    CHECK(made->config().perm == 6);
    CHECK(changes == 1);
    CHECK(topics.create_for_send("Mine", "TBW102", 2, 0) == made);
    CHECK(changes == 1);
    CHECK(topics.create_for_send("Many", "TBW102", 100, 0)->config().write_queue_count == 8);
    CHECK(topics.create_for_send("None", "Mine", 4, 0) == nullptr);  // Mine does not inherit
    CHECK(topics.version().counter == 9);

    const std::string text = read_text(folder.path() / "config/topics.json");
    CHECK(text.find("\t\t\"Mine\":{\n\t\t\t\"order\":false,\n\t\t\t\"perm\":6,\n"
                    "\t\t\t\"readQueueNums\":4,\n\t\t\t\"topicFilterType\":\"SINGLE_TAG\",\n"
                    "\t\t\t\"topicName\":\"Mine\",\n\t\t\t\"topicSysFlag\":0,\n"
                    "\t\t\t\"writeQueueNums\":4\n\t\t}") != std::string::npos);
    Topics again(config, clock);
    REQUIRE(again.load().has_value());
    CHECK(again.find("Mine") != nullptr);
    CHECK(again.version() == topics.version());
  }

  TEST_CASE("a persisted TBW102 creates nothing once automatic creation is off") {
    const TempFolder folder;
    const ManualClock clock;
    BrokerConfig config = test_config(folder.path());
    {
      Topics topics(config, clock);
      REQUIRE(topics.load().has_value());
      REQUIRE(topics.create_for_send("A", "TBW102", 4, 0) != nullptr);
    }
    config.auto_create_topic = false;
    Topics topics(config, clock);
    REQUIRE(topics.load().has_value());
    REQUIRE(topics.find("TBW102") != nullptr);
    CHECK(topics.create_for_send("B", "TBW102", 4, 0) == nullptr);
    CHECK(topics.create_for_send("C", "DefaultCluster", 20, 0)->config().write_queue_count == 16);
    CHECK(topics.create_for_send("%RETRY%g", "TBW102", 4, 0)->config().write_queue_count == 1);
  }

  TEST_CASE("order topics follow the name server's table") {
    const TempFolder folder;
    const ManualClock clock;
    BrokerConfig config = test_config(folder.path());
    Topics topics(config, clock);
    REQUIRE(topics.load().has_value());
    topics.create_for_send("A", "TBW102", 4, 0);
    const auto before = topics.version();
    topics.set_order_topics({{"A", "broker-t:4"}});
    CHECK(topics.find("A")->config().order);
    CHECK(topics.version().counter == before.counter + 1);
    topics.set_order_topics({{"A", "broker-t:4"}});
    CHECK(topics.version().counter == before.counter + 1);  // nothing changed
    topics.set_order_topics({});
    CHECK_FALSE(topics.find("A")->config().order);
  }

  TEST_CASE("groups: predefined ones, creation on demand, the file") {
    const TempFolder folder;
    const ManualClock clock;
    BrokerConfig config = test_config(folder.path());
    {
      Groups groups(config, clock);
      REQUIRE(groups.load().has_value());
      CHECK(groups.find("TOOLS_CONSUMER") != nullptr);
      CHECK(groups.find("CG") == nullptr);
      const GroupPtr made = groups.find_or_create("CG");
      REQUIRE(made != nullptr);
      CHECK(made->retry_max_times == 16);
      CHECK(groups.table().version.counter == 1);
      REQUIRE(groups.persist().has_value());
    }
    config.auto_create_group = false;
    Groups groups(config, clock);
    REQUIRE(groups.load().has_value());
    CHECK(groups.find_or_create("CG") != nullptr);
    CHECK(groups.find_or_create("Other") == nullptr);
    CHECK(groups.find_or_create("CID_RMQ_SYS_X") != nullptr);
    CHECK(groups.remove("CG").value());
    CHECK_FALSE(groups.remove("CG").value());
  }

  TEST_CASE("unknown members of the files survive a rewrite") {
    const TempFolder folder;
    write_text(folder.path() / "config/consumerOffset.json",
               "{\"dataVersion\":{\"counter\":5},\"offsetTable\":{\"T@g\":{\"0\":1}}}");
    Offsets offsets(folder.path());
    REQUIRE(offsets.load().has_value());
    CHECK(offsets.query("g", "T", 0) == 1);  // quoted keys are fine
    offsets.commit("g", "T", 0, 2);
    REQUIRE(offsets.persist().has_value());
    CHECK(read_text(folder.path() / "config/consumerOffset.json").find("dataVersion") !=
          std::string::npos);
  }
}
