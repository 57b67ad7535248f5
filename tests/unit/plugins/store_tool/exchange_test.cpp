// Topics from store to store, and a DLedger log into a plain store.
#include "tenon/store_tool/exchange.h"

#include "paths.h"
#include "stores.h"

#include "tenon/proto/json.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tenon::test {
namespace {

namespace fs = std::filesystem;

struct Stored {
  std::string properties{};
  std::string body{};
  std::int64_t store_ms = 0;
  bool operator==(const Stored& other) const {
    return properties == other.properties && body == other.body && store_ms == other.store_ms;
  }
};
using Place = std::tuple<std::string, std::int64_t, std::int64_t>;

std::map<Place, Stored> messages_of(const std::string& root, const std::set<std::string>& topics) {
  std::map<Place, Stored> found;
  const auto folder = open_store(root);
  for (const std::string& topic : topics) {
    store_tool::Filter filter;
    filter.topic = topic;
    store_tool::dump_messages(*folder, filter, [&](const proto::MessageView& m) {
      found[{topic, m.queue_id, m.queue_offset}] = {
          std::string(m.properties),
          std::string(reinterpret_cast<const char*>(m.body.data()), m.body.size()),
          m.store_ms};
      return true;
    });
  }
  return found;
}

void export_to(const GoldenStore& store,
               const std::set<std::string>& topics,
               const fs::path& file) {
  const auto folder = open_store(store.root());
  const auto done = store_tool::export_topics(*folder, topics, {}, file.string(), {});
  REQUIRE_MESSAGE(done.has_value(), done.error().detail);
  CHECK(done.value().topics == topics);
}

store_tool::ImportOptions import_options() {
  store_tool::ImportOptions options;
  options.delays = store_tool::DelayTable::parse(store_tool::kDefaultDelayLevels).value();
  options.wall_ms = 1'900'000'000'000;
  options.log_file_bytes = 262144;
  options.queue_file_bytes = 10000;
  options.index_shape = {200, 800};
  return options;
}

void check_well(const std::string& root) {
  const Checked checked = check_store(root);
  INFO(checked.text());
  CHECK(checked.result.errors == 0);
  CHECK(checked.result.warnings == 0);
  CHECK_FALSE(fs::exists(fs::path(root) / "abort"));
}

std::set<std::string> topics_in_config(const std::string& root) {
  std::set<std::string> names;
  const auto parsed = proto::JsonDocument::parse(slurp(fs::path(root) / "config/topics.json"));
  REQUIRE(parsed.has_value());
  const proto::JsonNode table = parsed.value().root()["topicConfigTable"];
  for (std::size_t i = 0; i < table.size(); ++i) {
    names.emplace(table.member(i).first);
  }
  return names;
}

}  // namespace

TEST_SUITE("store_tool/exchange") {
  TEST_CASE("exported topics are in a new store what they were") {
    const GoldenStore store("basic-clean");
    const std::set<std::string> topics{"TopicA", "TopicRoll"};
    const fs::path file = store.parent() / "topics.export";
    export_to(store, topics, file);
    const std::string to = (store.parent() / "new").string();
    const auto done = store_tool::import_topics(to, file.string(), import_options());
    REQUIRE_MESSAGE(done.has_value(), done.error().detail);
    CHECK(done.value().records == 1162);
    CHECK(messages_of(to, topics) == messages_of(store.root(), topics));
    CHECK(topics_in_config(to) == topics);
    check_well(to);
    // Once more: the queues are there.
    const auto again = store_tool::import_topics(to, file.string(), import_options());
    REQUIRE_FALSE(again.has_value());
    CHECK(again.error().code == Errc::kConflict);
    check_well(to);
  }

  TEST_CASE("an import leaves the other topics alone") {
    const GoldenStore source("basic-clean");
    const GoldenStore target("trimmed");
    const fs::path file = source.parent() / "a.export";
    export_to(source, {"TopicA"}, file);
    const auto before = messages_of(target.root(), {"TopicTrim", "TopicB"});
    auto options = import_options();
    const auto done = store_tool::import_topics(target.root(), file.string(), options);
    REQUIRE_MESSAGE(done.has_value(), done.error().detail);
    CHECK(messages_of(target.root(), {"TopicTrim", "TopicB"}) == before);
    CHECK(messages_of(target.root(), {"TopicA"}) == messages_of(source.root(), {"TopicA"}));
    CHECK(topics_in_config(target.root()).contains("TopicTrim"));
    check_well(target.root());
    for (const auto& e : fs::directory_iterator(target.root())) {
      CHECK_FALSE(e.path().filename().string().starts_with("repair-"));
    }
  }

  TEST_CASE("with append a queue goes on behind its last message") {
    const GoldenStore store("basic-killed");
    fs::remove(store / "abort");
    const fs::path file = store.parent() / "b.export";
    export_to(store, {"TopicB"}, file);
    const auto before = messages_of(store.root(), {"TopicB"});
    auto options = import_options();
    options.append = true;
    const auto done = store_tool::import_topics(store.root(), file.string(), options);
    REQUIRE_MESSAGE(done.has_value(), done.error().detail);
    const auto after = messages_of(store.root(), {"TopicB"});
    CHECK(after.size() == 2 * before.size());
    for (const auto& entry : before) {
      CHECK(after.at(entry.first) == entry.second);
    }
    std::size_t fresh = 0;
    for (const auto& entry : after) {
      fresh += entry.second.store_ms == options.wall_ms ? 1 : 0;
    }
    CHECK(fresh == before.size());
    check_well(store.root());
  }

  TEST_CASE("a damaged export is refused before anything is written") {
    const GoldenStore source("basic-clean");
    const GoldenStore target("trimmed");
    const fs::path file = source.parent() / "a.export";
    export_to(source, {"TopicA"}, file);
    const auto before = contents(target.root(), {"."});
    SUBCASE("cut short") {
      fs::resize_file(file, fs::file_size(file) - 100);
    }
    SUBCASE("without its end") {
      fs::resize_file(file, fs::file_size(file) - 16);
    }
    SUBCASE("a flipped bit of a body") {
      const std::string all = slurp(file);
      flip_bit(file, all.find("body 0 ") + 2);
    }
    SUBCASE("something else") {
      write_at(file, 0, "PK");
    }
    const auto done = store_tool::import_topics(target.root(), file.string(), import_options());
    REQUIRE_FALSE(done.has_value());
    CHECK((done.error().code == Errc::kCorrupt || done.error().code == Errc::kIncompatible));
    CHECK(contents(target.root(), {"."}) == before);
  }

  TEST_CASE("a topic that is not there is no empty file") {
    const GoldenStore store("basic-clean");
    const fs::path file = store.parent() / "x.export";
    const auto folder = open_store(store.root());
    const auto done =
        store_tool::export_topics(*folder, {"TopicA", "Nothing"}, {}, file.string(), {});
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().code == Errc::kNotFound);
    CHECK(done.error().detail.find("Nothing") != std::string::npos);
    CHECK_FALSE(fs::exists(file));
    CHECK_FALSE(fs::exists(file.string() + ".part"));
  }
}

TEST_SUITE("store_tool/dledger") {
  // replication D1
  TEST_CASE("the log of a DLedger broker becomes a plain store, its source stays as it is") {
    const GoldenStore store("dledger");
    const auto before = contents(store.root(), {"."});
    const std::string to = (store.parent() / "plain").string();
    store_tool::DledgerOptions options;
    options.delays = store_tool::DelayTable::parse(store_tool::kDefaultDelayLevels).value();
    options.wall_ms = 1'900'000'000'000;
    std::vector<store_tool::Finding> findings;
    options.sink = [&](const store_tool::Finding& f) { findings.push_back(f); };
    const auto done = store_tool::import_dledger({store.root()}, to, options);
    REQUIRE_MESSAGE(done.has_value(), done.error().detail);
    CHECK(findings.empty());
    CHECK(contents(store.root(), {"."}) == before);
    check_well(to);

    const auto expected = proto::JsonDocument::parse(
        slurp(fs::path(data_dir()) / "store" / "dledger" / "expected.json"));
    REQUIRE(expected.has_value());
    const proto::JsonNode wanted = expected.value().root()["messages"];
    CHECK(done.value().records == wanted.size());
    CHECK(done.value().end_index + 1 >= static_cast<std::int64_t>(wanted.size()));
    const auto found = messages_of(to, done.value().topics);
    CHECK(found.size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const proto::JsonNode m = wanted.at(i);
      const Place place{
          std::string(m["topic"].string()), *m["queueId"].integer(), *m["queueOffset"].integer()};
      REQUIRE(found.contains(place));
      CHECK(found.at(place).store_ms == *m["storeTimestamp"].integer());
      CHECK(static_cast<std::int64_t>(found.at(place).body.size()) ==
            *m["storedBodyLength"].integer());
    }
    for (const auto& e : fs::directory_iterator(store / "config")) {
      if (e.path().extension() == ".json") {
        CHECK(slurp(fs::path(to) / "config" / e.path().filename()) == slurp(e.path()));
      }
    }
    const auto again = store_tool::import_dledger({store.root()}, to, options);
    REQUIRE_FALSE(again.has_value());
    CHECK(again.error().code == Errc::kConflict);
  }

  TEST_CASE("of several members the one that is ahead is taken; a damaged entry ends a log") {
    const GoldenStore ahead("dledger");
    const GoldenStore behind("dledger");
    flip_bit(behind / "dledger-n0/data/00000000000000262144", 11);  // index of an entry
    store_tool::DledgerOptions options;
    std::vector<store_tool::Finding> findings;
    options.sink = [&](const store_tool::Finding& f) { findings.push_back(f); };
    const std::string to = (ahead.parent() / "plain").string();
    const auto done = store_tool::import_dledger({behind.root(), ahead.root()}, to, options);
    REQUIRE_MESSAGE(done.has_value(), done.error().detail);
    CHECK(done.value().source == ahead.root() + "/dledger-n0");
    CHECK(done.value().records == 50);
    const std::string part = (ahead.parent() / "part").string();
    const auto less = store_tool::import_dledger({behind.root()}, part, options);
    REQUIRE_MESSAGE(less.has_value(), less.error().detail);
    CHECK(less.value().records < 50);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].kind == "entry-tail");
    check_well(part);
  }

  TEST_CASE("a queue without messages keeps its position") {
    const GoldenStore store("dledger");
    fs::create_directories(store / "consumequeue/TopicOld/1");
    const fs::path units = store / "consumequeue/TopicOld/1/00000000000000010000";
    { std::ofstream file(units, std::ios::binary); }
    fs::resize_file(units, 10000);
    std::string unit(20, '\0');
    unit[11] = 100;
    write_at(units, 0, unit);  // offset 500, of a record that the log has no more
    const std::string to = (store.parent() / "plain").string();
    const auto done = store_tool::import_dledger({store.root()}, to, {});
    REQUIRE_MESSAGE(done.has_value(), done.error().detail);
    check_well(to);
    const auto folder = open_store(to);
    const store_tool::QueueFiles* queue = folder->find_queue("TopicOld", 1);
    REQUIRE(queue != nullptr);
    CHECK(store_tool::queue_end(*queue) == 501);
  }

  TEST_CASE("a folder without a DLedger log is refused") {
    const GoldenStore store("basic-clean");
    const auto done =
        store_tool::import_dledger({store.root()}, (store.parent() / "to").string(), {});
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().code == Errc::kNotFound);
  }
}

}  // namespace tenon::test
