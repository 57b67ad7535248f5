// Messages, units, index entries and figures of recorded folders against what their brokers said.
#include "tenon/store_tool/dump.h"

#include "golden_stores.h"
#include "paths.h"
#include "stores.h"

#include "tenon/proto/json.h"
#include "tenon/store_tool/stat.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tenon::test {
namespace {

namespace fs = std::filesystem;

/// expected.json of a scenario; see tests/data/store/README.md.
proto::JsonDocument expected(const std::string& name) {
  auto parsed =
      proto::JsonDocument::parse(slurp(fs::path(data_dir()) / "store" / name / "expected.json"));
  REQUIRE(parsed.has_value());
  return std::move(parsed).value();
}

using Place = std::tuple<std::string, std::int64_t, std::int64_t>;

/// topic, queue, offset → position in the log
std::map<Place, std::int64_t> dumped(const store_tool::Folder& folder,
                                     const store_tool::Filter& filter) {
  std::map<Place, std::int64_t> found;
  const std::uint64_t n =
      store_tool::dump_messages(folder, filter, [&](const proto::MessageView& m) {
        found[{std::string(m.topic), m.queue_id, m.queue_offset}] = m.phys_offset;
        return true;
      });
  CHECK(n >= found.size());
  return found;
}

}  // namespace

TEST_SUITE("store_tool/dump") {
  TEST_CASE("the messages are those that the broker served") {
    const std::string name = each_golden(kPlainGolden).name;
    const GoldenStore store(name);
    const auto folder = open_store(store.root());
    const proto::JsonDocument document = expected(name);
    const proto::JsonNode messages = document.root()["messages"];
    std::map<Place, std::int64_t> all;
    std::set<std::string> topics;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const proto::JsonNode m = messages.at(i);
      topics.emplace(m["topic"].string());
      all[{
          std::string(m["topic"].string()), *m["queueId"].integer(), *m["queueOffset"].integer()}] =
          *m["commitLogOffset"].integer();
    }
    CHECK(dumped(*folder, {}) == all);
    for (const std::string& topic : topics) {
      std::map<Place, std::int64_t> of_topic;
      for (const auto& entry : all) {
        if (std::get<0>(entry.first) == topic) {
          of_topic.insert(entry);
        }
      }
      store_tool::Filter filter;
      filter.topic = topic;
      CHECK(dumped(*folder, filter) == of_topic);
      filter.scan = true;
      CHECK(dumped(*folder, filter) == of_topic);
    }
  }

  TEST_CASE("a key finds exactly the messages that have it") {
    const GoldenStore store("basic-clean");
    const auto folder = open_store(store.root());
    const proto::JsonDocument document = expected("basic-clean");
    const proto::JsonNode queries = document.root()["keyQueries"];
    int asked = 0;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const proto::JsonNode q = queries.at(i);
      if (*q["maxNum"].integer() < 32 || *q["beginTs"].integer() > 0) {
        continue;  // these are cut
      }
      std::set<std::int64_t> wanted;
      for (std::size_t n = 0; n < q["matchingOffsets"].size(); ++n) {
        wanted.insert(*q["matchingOffsets"].at(n).integer());
      }
      store_tool::Filter filter;
      filter.topic = q["topic"].string();
      filter.key = q["key"].string();
      CAPTURE(filter.key);
      for (const bool scan : {false, true}) {
        filter.scan = scan;
        std::set<std::int64_t> found;
        store_tool::dump_messages(*folder, filter, [&](const proto::MessageView& m) {
          found.insert(m.phys_offset);
          return true;
        });
        CHECK(found == wanted);
      }
      ++asked;
    }
    CHECK(asked > 3);
  }

  TEST_CASE("ranges of offsets and times include their ends") {
    const GoldenStore store("basic-clean");
    const auto folder = open_store(store.root());
    store_tool::Filter filter;
    filter.topic = "TopicRoll";
    filter.queue_id = 0;
    filter.from_offset = 498;
    filter.to_offset = 502;
    std::vector<std::int64_t> offsets;
    std::vector<std::int64_t> times;
    store_tool::dump_messages(*folder, filter, [&](const proto::MessageView& m) {
      offsets.push_back(m.queue_offset);
      times.push_back(m.store_ms);
      return true;
    });
    CHECK(offsets == std::vector<std::int64_t>{498, 499, 500, 501, 502});
    store_tool::Filter by_time;
    by_time.topic = "TopicRoll";
    by_time.from_ms = times.front();
    by_time.to_ms = times.back();
    CHECK(dumped(*folder, by_time).size() >= 5);
    by_time.max = 2;
    CHECK(dumped(*folder, by_time).size() == 2);
    filter.queue_id = 7;
    CHECK(dumped(*folder, filter).empty());
  }

  TEST_CASE("units come with their extension") {
    const GoldenStore store("filter-bitmap");
    const auto folder = open_store(store.root());
    const proto::JsonDocument document = expected("filter-bitmap");
    const proto::JsonNode messages = document.root()["messages"];
    std::map<Place, store_tool::UnitLine> lines;
    store_tool::dump_units(*folder, {}, [&](const store_tool::UnitLine& line) {
      lines[{line.queue->topic, line.queue->id, line.offset}] = line;
      return true;
    });
    CHECK(lines.size() == messages.size());
    int extended = 0;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const proto::JsonNode m = messages.at(i);
      const Place place{
          std::string(m["topic"].string()), *m["queueId"].integer(), *m["queueOffset"].integer()};
      REQUIRE(lines.contains(place));
      const store_tool::UnitLine& line = lines.at(place);
      CHECK(static_cast<std::int64_t>(line.unit.phys) == *m["commitLogOffset"].integer());
      CHECK(line.unit.tags_code == *m["tagsCode"].integer());
      REQUIRE(line.ext.has_value() == m["cqExt"].present());
      extended += line.ext ? 1 : 0;
    }
    CHECK(extended > 200);
  }

  TEST_CASE("figures without reading all are the broker's") {
    const std::string name = each_golden(kPlainGolden).name;
    const GoldenStore store(name);
    const auto folder = open_store(store.root());
    const store_tool::Stat stat = store_tool::stat_of(*folder);
    const proto::JsonDocument document = expected(name);
    const proto::JsonNode info = document.root()["runtimeInfo"];
    CHECK(static_cast<std::int64_t>(stat.log_min) == info["commitLogMinOffset"].integer());
    CHECK(static_cast<std::int64_t>(stat.log_end) == info["commitLogMaxOffset"].integer());
    std::map<std::pair<std::string, std::int64_t>, std::pair<std::int64_t, std::int64_t>> wanted;
    const proto::JsonNode queues = document.root()["queues"];
    for (std::size_t i = 0; i < queues.size(); ++i) {
      const proto::JsonNode q = queues.at(i);
      wanted[{std::string(q["topic"].string()), *q["queueId"].integer()}] = {
          *q["minOffset"].integer(), *q["maxOffset"].integer()};
    }
    for (const auto& topic : stat.topics) {
      for (const auto& q : topic.queues) {
        const std::pair<std::string, std::int64_t> key{topic.topic, q.id};
        INFO(topic.topic << "/" << q.id);
        REQUIRE(wanted.contains(key));
        CHECK(wanted[key] == std::pair(q.min_offset, q.max_offset));
      }
    }
  }
}

}  // namespace tenon::test
