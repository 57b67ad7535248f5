// Subscriptions by expression: what a pull gets, what a wrong one is told, the file of expressions
// and the retry topic (spec: broker §9.6, §9.7).
#include "append/log.h"
#include "broker_harness.h"
#include "meta/consumer_filters.h"
#include "util/bloom.h"

#include "tenon/proto/json.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

extern "C" const tenon_entry tenon_entry_filter_sql92;

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;

namespace {

class StandingClock final : public Clock {
 public:
  std::int64_t wall_ms() const noexcept override { return now; }
  std::uint64_t mono_ns() const noexcept override {
    return static_cast<std::uint64_t>(now) * 1'000'000;
  }
  std::int64_t now = 1'700'000'000'000;
};

BrokerConfig sql_config(const std::shared_ptr<TempFolder>& folder) {
  BrokerConfig config = test_config(folder->path());
  config.property_filter = true;
  return config;
}

std::string number_property(int n) {
  std::string text;
  proto::append_property(text, "num", std::to_string(n));
  proto::append_property(text, "color", n % 2 == 0 ? "red" : "green");
  return text;
}

void send_numbers(Client& c, int count, const std::string& topic = "T") {
  for (int i = 0; i < count; ++i) {
    REQUIRE(c.call(send_command({.topic = topic, .properties = number_property(i)})).code == 0);
  }
}

proto::HeartbeatData sql_beat(const std::string& group,
                              const std::string& expression,
                              std::int64_t version = 1,
                              const std::string& topic = "T") {
  auto beat = consumer_beat("client-" + group, group, topic, "*", version);
  beat.consumers[0].subscriptions[0].expression_type = "SQL92";
  beat.consumers[0].subscriptions[0].sub_string = expression;
  return beat;
}

std::vector<int> numbers(const proto::Command& answer) {
  std::vector<int> out;
  for (const auto& m : messages_of(answer)) {
    out.push_back(std::stoi(std::string(proto::find_property(m.properties, "num").value_or("-1"))));
  }
  return out;
}

proto::Command check_command(const std::string& type, const std::string& text) {
  proto::Command c;
  c.code = proto::RequestCode::kCheckClientConfig;
  proto::JsonWriter w(c.body);
  w.begin_object().member("clientId", "id").member("group", "CG").key("subscriptionData");
  w.begin_object().member("expressionType", type).member("subString", text);
  w.member("topic", "T").end_object().end_object();
  return c;
}

/// The table alone, with the real plug-in behind it.
struct Table {
  std::shared_ptr<TempFolder> folder = std::make_shared<TempFolder>();
  StandingClock clock{};
  BrokerConfig config = test_config(folder->path());
  std::unique_ptr<host::PluginRegistry> registry = test_registry();
  std::unique_ptr<host::Instance> plugin{};
  Filters filters{};
  std::unique_ptr<ConsumerFilters> table{};

  Table() {
    host::InstanceOptions options;
    options.name = "filter";
    auto created = registry->create("tenon.filter.sql92", options);
    REQUIRE(created.has_value());
    plugin = std::move(created).value();
    REQUIRE(plugin->init().has_value());
    REQUIRE(plugin->activate().has_value());
    filters.add(plugin->interface<tenon_filter>("tenon.filter/1").value());
    reopen();
  }
  void reopen() {
    table = std::make_unique<ConsumerFilters>(config, clock, filters);
    REQUIRE(table->load().has_value());
  }
  Result<FilterPtr> subscribe(const std::string& group,
                              const std::string& text,
                              std::int64_t version) {
    return table->subscribe(group, sql_beat(group, text, version).consumers[0].subscriptions[0]);
  }
  GroupFilter of(const std::string& group) {
    const GroupFilterPtr found = table->find(group, "T");
    REQUIRE(found != nullptr);
    return *found;
  }
  std::vector<std::uint8_t> bits(const std::string& properties) {
    tenon_arrival a{};
    a.topic = host::abi_str("T");
    a.properties = {reinterpret_cast<const std::uint8_t*>(properties.data()), properties.size()};
    std::vector<std::uint8_t> out(table->bitmap_bytes(), 0x55);
    table->fill_bits(a, out.data(), out.size());
    return out;
  }
};

}  // namespace

TEST_SUITE("broker/filter") {
  TEST_CASE("a push consumer's expression comes by heartbeat and decides what it gets") {
    const auto folder = std::make_shared<TempFolder>();
    TestBroker b(folder, sql_config(folder), {});
    Client c(b.port());
    send_numbers(c, 20);
    REQUIRE(c.call(heartbeat_command(sql_beat("CG", "num > 14 AND color = 'red'"))).code == 0);
    REQUIRE(c.call(heartbeat_command(sql_beat("CG2", "num < 2"))).code == 0);
    const auto first = c.call(pull_command({.sys_flag = 0, .sub_version = 1}));
    CHECK(first.code == 0);
    CHECK(numbers(first) == std::vector<int>{16, 18});
    CHECK(long_field(first, "nextBeginOffset") == 20);
    const auto second = c.call(pull_command({.group = "CG2", .sys_flag = 0, .sub_version = 1}));
    CHECK(numbers(second) == std::vector<int>{0, 1});
    CHECK(c.call(pull_command({.sys_flag = 0, .sub_version = 2})).code == 25);
  }

  TEST_CASE("an expression in the pull itself needs no heartbeat, and a wrong one is answered 23") {
    const auto folder = std::make_shared<TempFolder>();
    TestBroker b(folder, sql_config(folder), {});
    Client c(b.port());
    send_numbers(c, 5);
    const auto r =
        c.call(pull_command({.subscription = "num = 3 OR num = 4", .expression_type = "SQL92"}));
    CHECK(numbers(r) == std::vector<int>{3, 4});
    const auto wrong =
        c.call(pull_command({.subscription = "num > '3'", .expression_type = "SQL92"}));
    CHECK(wrong.code == 23);
    CHECK(wrong.remark == "parse the consumer's subscription failed");
  }

  TEST_CASE("a pull is answered 27 while the expression of its group does not compile") {
    const auto folder = std::make_shared<TempFolder>();
    TestBroker b(folder, sql_config(folder), {});
    Client c(b.port());
    send_numbers(c, 3);
    REQUIRE(c.call(heartbeat_command(sql_beat("CG", "num >"))).code == 0);
    const auto r = c.call(pull_command({.sys_flag = 0, .sub_version = 1}));
    CHECK(r.code == 27);
    CHECK(r.remark ==
          "The broker's consumer filter data is not exist!Your expression may be wrong!");
    REQUIRE(c.call(heartbeat_command(sql_beat("CG", "num > 0", 2))).code == 0);
    CHECK(numbers(c.call(pull_command({.sys_flag = 0, .sub_version = 2}))) ==
          std::vector<int>{1, 2});
    REQUIRE(c.call(heartbeat_command(sql_beat("CG", "num > > 0", 3))).code == 0);
    CHECK(c.call(pull_command({.sys_flag = 0, .sub_version = 3})).code == 27);
  }

  // broker §23.38
  TEST_CASE(
      "while such filters are off a pull is answered 1, and a wrong expression 27 before that") {
    const auto folder = std::make_shared<TempFolder>();
    BrokerConfig config = sql_config(folder);
    config.property_filter = false;
    TestBroker b(folder, config, {});
    Client c(b.port());
    send_numbers(c, 1);
    REQUIRE(c.call(heartbeat_command(sql_beat("CG", "num > 0"))).code == 0);
    const auto off = c.call(pull_command({.sys_flag = 0, .sub_version = 1}));
    CHECK(off.code == 1);
    CHECK(off.remark == "The broker does not support consumer to filter message by SQL92");
    REQUIRE(c.call(heartbeat_command(sql_beat("CG", "num >", 2))).code == 0);
    CHECK(c.call(pull_command({.sys_flag = 0, .sub_version = 2})).code == 27);
    const auto asked = c.call(check_command("SQL92", "num > 0"));
    CHECK(asked.code == 1);
    CHECK(asked.remark == "The broker does not support consumer to filter message by SQL92");
  }

  TEST_CASE("a client that asks whether its expression is right gets the parser's words") {
    const auto folder = std::make_shared<TempFolder>();
    TestBroker b(folder, sql_config(folder), {});
    Client c(b.port());
    CHECK(c.call(check_command("SQL92", "num BETWEEN 1 AND 2")).code == 0);
    CHECK(c.call(check_command("TAG", "a || b")).code == 0);
    const auto wrong = c.call(check_command("SQL92", "num > '3'"));
    CHECK(wrong.code == 23);
    CHECK(wrong.remark == "java.lang.RuntimeException: Value ''3'' cannot be compared.");
  }

  // broker §23.31, the part of expressions
  TEST_CASE("an expression that nothing matches moves on by what was looked at") {
    const auto folder = std::make_shared<TempFolder>();
    TestBroker b(folder, sql_config(folder), {});
    Client c(b.port());
    REQUIRE(c.call(send_command({.properties = number_property(0)})).code == 0);  // makes the topic
    std::vector<std::int32_t> sent;
    for (int i = 1; i < 950; ++i) {
      sent.push_back(c.send(send_command({.properties = number_property(i)})));
    }
    for (const std::int32_t opaque : sent) {
      REQUIRE(c.receive(opaque).code == 0);
    }
    PullSpec pull{.subscription = "num = 940", .expression_type = "SQL92"};
    const auto first = c.call(pull_command(pull));
    CHECK(first.code == 20);
    CHECK(long_field(first, "nextBeginOffset") == 800);
    pull.offset = 800;
    CHECK(numbers(c.call(pull_command(pull))) == std::vector<int>{940});
  }

  TEST_CASE("a waiting pull is woken by a message that its expression wants, not by others") {
    const auto folder = std::make_shared<TempFolder>();
    TestBroker b(folder, sql_config(folder), {});
    Client c(b.port());
    send_numbers(c, 1);
    const auto waiting = c.send(pull_command({.offset = 1,
                                              .sys_flag = 6,
                                              .suspend_ms = 15'000,
                                              .subscription = "num = 7",
                                              .expression_type = "SQL92"}));
    Client other(b.port());
    REQUIRE(other.call(send_command({.properties = number_property(6)})).code == 0);
    CHECK_FALSE(c.try_receive(waiting, std::chrono::milliseconds(200)).has_value());
    REQUIRE(other.call(send_command({.properties = number_property(7)})).code == 0);
    CHECK(numbers(c.receive(waiting)) == std::vector<int>{7});
  }

  TEST_CASE("retried messages pass whatever they hold, unless the broker judges them too") {
    for (const bool judged : {false, true}) {
      CAPTURE(judged);
      const auto folder = std::make_shared<TempFolder>();
      BrokerConfig config = sql_config(folder);
      config.filter_support_retry = judged;
      TestBroker b(folder, config, {});
      Client c(b.port());
      send_numbers(c, 1);
      auto beat = sql_beat("CG", "num > 5");
      proto::SubscriptionData retry;
      retry.topic = "%RETRY%CG";
      retry.sub_version = 1;
      beat.consumers[0].subscriptions.push_back(retry);
      REQUIRE(c.call(heartbeat_command(beat)).code == 0);
      for (int n : {4, 6}) {
        std::string properties = number_property(n);
        proto::append_property(properties, "RETRY_TOPIC", "T");
        REQUIRE(c.call(send_command({.topic = "%RETRY%CG", .properties = properties})).code == 0);
      }
      const auto r = c.call(pull_command({.topic = "%RETRY%CG", .sys_flag = 0, .sub_version = 1}));
      CHECK(numbers(r) == (judged ? std::vector<int>{6} : std::vector<int>{4, 6}));
    }
  }

  // broker §23.39
  TEST_CASE("size and positions of the bit map are RocketMQ's") {
    struct Size {
      std::uint32_t error, expected, k, m;
    };
    for (const Size& s :
         {Size{20, 32, 3, 112}, {10, 32, 4, 160}, {20, 64, 3, 216}, {1, 32, 7, 312}}) {
      const Bloom bloom(s.error, s.expected);
      CHECK(bloom.hash_count() == s.k);
      CHECK(bloom.bit_count() == s.m);
    }
    const Bloom bloom(20, 32);
    CHECK(murmur3_low("GroupA#TopicTest") == 0x4099a908411c9e8e);
    CHECK(bloom.positions("GroupA", "TopicTest") == std::vector<std::uint32_t>{105, 17, 70});
    CHECK(murmur3_low("g1#t1") == 0x0ecd611d7446589f);
    CHECK(bloom.positions("g1", "t1") == std::vector<std::uint32_t>{19, 102, 73});
    CHECK(bloom.positions("%RETRY%g", "t") == std::vector<std::uint32_t>{95, 100, 72});
    CHECK(bloom.positions("CG_SQL", "TopicA") == std::vector<std::uint32_t>{37, 11, 60});
    // What a 4.9.7 broker with four expected groups wrote (tests/data/store, filter-bitmap).
    CHECK(Bloom(20, 4).positions("GroupSql1", "TopicF") == std::vector<std::uint32_t>{10, 15, 11});
  }

  TEST_CASE("an expression keeps its birth until its text changes, and a dead one comes back") {
    Table t;
    REQUIRE(t.subscribe("G", "num > 5", 1).has_value());
    const std::int64_t born = t.clock.now;
    t.clock.now += 1'000;
    REQUIRE(t.subscribe("G", "num > 5", 2).has_value());
    CHECK(t.of("G").born_ms == born);
    CHECK(t.of("G").client_version == 2);
    t.table->group_gone("G");
    CHECK(t.of("G").is_dead());
    REQUIRE(t.subscribe("G", "num > 5", 2).has_value());
    CHECK_FALSE(t.of("G").is_dead());
    CHECK(t.of("G").born_ms == born);
    REQUIRE(t.subscribe("G", "num > 9", 1).has_value());
    CHECK(t.of("G").expression == "num > 5");  // an older version changes nothing
    REQUIRE(t.subscribe("G", "num > 6", 3).has_value());
    CHECK(t.of("G").born_ms == born + 1'000);
    REQUIRE(t.subscribe("G", "num >", 4).has_error());
    CHECK(t.table->find("G", "T") == nullptr);
  }

  TEST_CASE("a topic that a group leaves is dead for it, another group's stays") {
    Table t;
    REQUIRE(t.subscribe("G", "num > 5", 1).has_value());
    REQUIRE(t.subscribe("H", "num > 5", 1).has_value());
    t.table->subscribed(consumer_beat("id", "G", "T").consumers[0]);  // by tags now
    CHECK(t.of("G").is_dead());
    CHECK_FALSE(t.of("H").is_dead());
  }

  TEST_CASE("the file is written as RocketMQ writes it, read back dead, and cleaned by time") {
    Table t;
    REQUIRE(t.subscribe("CG_SQL", "num > 5", 77).has_value());
    REQUIRE(t.table->persist().has_value());
    const auto file = t.folder->path() / "config" / "consumerFilter.json";
    CHECK(read_text(file) ==
          "{\n\t\"filterDataByTopic\":{\n\t\t\"T\":{\n\t\t\t\"groupFilterData\":{\n"
          "\t\t\t\t\"CG_SQL\":{\n\t\t\t\t\t\"bloomFilterData\":{\n\t\t\t\t\t\t\"bitNum\":112,\n"
          "\t\t\t\t\t\t\"bitPos\":[" +
              [&] {
                std::string out;
                for (const auto bit : t.of("CG_SQL").bits) {
                  out += (out.empty() ? "" : ",") + std::to_string(bit);
                }
                return out;
              }() +
              "]\n\t\t\t\t\t},\n\t\t\t\t\t\"bornTime\":1700000000000,\n"
              "\t\t\t\t\t\"clientVersion\":77,\n\t\t\t\t\t\"consumerGroup\":\"CG_SQL\",\n"
              "\t\t\t\t\t\"dead\":false,\n\t\t\t\t\t\"deadTime\":0,\n"
              "\t\t\t\t\t\"expression\":\"num > 5\",\n\t\t\t\t\t\"expressionType\":\"SQL92\",\n"
              "\t\t\t\t\t\"topic\":\"T\"\n\t\t\t\t}\n\t\t\t},\n\t\t\t\"topic\":\"T\"\n\t\t}\n"
              "\t}\n}");
    t.clock.now += 60'000;
    t.reopen();
    CHECK(t.of("CG_SQL").is_dead());
    CHECK(t.of("CG_SQL").dead_ms == t.clock.now - 30'000);
    CHECK(t.of("CG_SQL").born_ms == t.clock.now - 60'000);
    CHECK(t.bits(number_property(6)) != std::vector<std::uint8_t>(14, 0));  // dead ones count
    t.clock.now += t.config.filter_clean_ms;
    REQUIRE(t.table->persist().has_value());
    CHECK(t.table->find("CG_SQL", "T") == nullptr);
  }

  // broker §23.40
  TEST_CASE("a file for bit maps of another size is forgotten as a whole") {
    Table t;
    REQUIRE(t.subscribe("G", "num > 5", 1).has_value());
    REQUIRE(t.table->persist().has_value());
    t.config.expected_filter_groups = 64;
    t.reopen();
    CHECK(t.table->find("G", "T") == nullptr);
  }

  TEST_CASE("bits say which groups want a message; no expression at all says nothing") {
    Table t;
    CHECK(t.bits(number_property(6)) == std::vector<std::uint8_t>(14, 0xff));
    const auto filter = t.subscribe("G", "num > 5", 1);
    REQUIRE(filter.has_value());
    REQUIRE(t.subscribe("H", "num > 100", 1).has_value());
    const std::vector<std::uint8_t> wanted = t.bits(number_property(6));
    for (const std::uint32_t bit : t.of("G").bits) {
      CHECK((wanted[bit / 8] & 1 << bit % 8) != 0);
    }
    const std::vector<std::uint8_t> unwanted = t.bits(number_property(5));
    CHECK(unwanted == std::vector<std::uint8_t>(14, 0));

    const auto verdict = [&](const std::vector<std::uint8_t>& map, std::int64_t store_ms) {
      tenon_index_entry e{};
      e.flags = TENON_EXTENDED;
      e.store_ms = store_ms;
      e.bitmap = {map.data(), map.size()};
      std::uint8_t out = 9;
      filter.value()->match_index(&e, 1, &out);
      return int{out};
    };
    const std::int64_t later = t.clock.now + 1;
    CHECK(verdict(wanted, later) == Filter::kUndecided);  // a hit is looked at all the same
    CHECK(verdict(unwanted, later) == Filter::kNo);
    CHECK(verdict(unwanted, t.clock.now) == Filter::kUndecided);  // stored before its birth
    CHECK(verdict({}, later) == Filter::kUndecided);
    CHECK(verdict(std::vector<std::uint8_t>(13, 0), later) == Filter::kUndecided);
  }
}
