// `tenon store repair`: what is made anew is what the broker had written, what goes is kept, and what is
// right is left alone.
#include "tenon/store_tool/repair.h"

#include "golden_stores.h"
#include "stores.h"

#include "tenon/store_tool/build.h"
#include "tenon/store_tool/log_walk.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tenon::test {
namespace {

namespace fs = std::filesystem;

store_tool::RepairOptions options_of(bool apply, bool all) {
  store_tool::RepairOptions options;
  options.apply = apply;
  options.all = all;
  options.wall_ms = 1'800'000'000'000;
  options.inspect.delays = store_tool::DelayTable::parse(store_tool::kDefaultDelayLevels).value();
  return options;
}

store_tool::RepairPlan run(const GoldenStore& store, bool apply = true, bool all = false) {
  auto done = store_tool::repair(store.root(), options_of(apply, all));
  REQUIRE_MESSAGE(done.has_value(), done.error().detail);
  return std::move(done).value();
}

/// Log, queues, extension; index files by their order, as their names are times.
std::map<std::string, std::string> data_of(const GoldenStore& store) {
  auto files = contents(store.root(), {"commitlog", "consumequeue", "consumequeue_ext"});
  int n = 0;
  for (const auto& entry : contents(store.root(), {"index"})) {
    files["index " + std::to_string(++n)] = entry.second;
  }
  return files;
}

void check_same(const std::map<std::string, std::string>& before,
                const std::map<std::string, std::string>& after) {
  for (const auto& entry : before) {
    INFO(entry.first);
    REQUIRE(after.contains(entry.first));
    CHECK(after.at(entry.first) == entry.second);
  }
  CHECK(after.size() == before.size());
}

void check_well(const GoldenStore& store) {
  const Checked checked = check_store(store.root());
  INFO(checked.text());
  CHECK(checked.result.errors == 0);
  CHECK(checked.result.warnings == 0);
  CHECK_FALSE(fs::exists(store / "abort"));
}

}  // namespace

TEST_SUITE("store_tool/repair") {
  TEST_CASE("all queues and the index made anew are the broker's, byte for byte") {
    const std::string name =
        each_golden([](const GoldenFolder& f) {
          return f.plain && !f.trimmed &&
                 !f.ext;  // bit maps are not made anew, nor keys of deleted records
        }).name;
    const GoldenStore store(name);
    const auto before = data_of(store);
    const store_tool::RepairPlan plan = run(store, true, true);
    CHECK(plan.index);
    CHECK(plan.queues.size() > 2);
    check_same(before, data_of(store));
    CHECK(fs::exists(fs::path(plan.side) / "consumequeue"));
    CHECK(fs::exists(fs::path(plan.side) / "index"));
    CHECK_FALSE(fs::exists(fs::path(plan.side) / "new"));
    check_well(store);
  }

  TEST_CASE("queues of a log without its front keep the units of messages that are gone") {
    const GoldenStore store("trimmed");
    const auto before = contents(store.root(), {"consumequeue"});
    run(store, true, true);
    check_same(before, contents(store.root(), {"consumequeue"}));
    check_well(store);
  }

  TEST_CASE("a folder in order is left alone") {
    const GoldenStore store("basic-clean");
    const auto before = contents(store.root(), {"."});
    CHECK(run(store).nothing());
    const auto after = contents(store.root(), {"."});
    check_same(before, after);
  }

  TEST_CASE("a dry run says what would be done and does nothing") {
    const GoldenStore store("basic-clean");
    fs::remove_all(store / "consumequeue/TopicB/2");
    flip_bit(store / "consumequeue/TopicRoll/0/00000000000000010000", 100);
    const auto before = contents(store.root(), {"."});
    const store_tool::RepairPlan plan = run(store, false);
    CHECK(plan.queues == std::vector<store_tool::QueueKey>{{"TopicB", 2u}, {"TopicRoll", 0u}});
    CHECK_FALSE(plan.index);
    CHECK(plan.side.empty());
    check_same(before, contents(store.root(), {"."}));
  }

  TEST_CASE("only what is wrong is made anew, and the damaged file is kept") {
    const GoldenStore store("basic-clean");
    const auto before = data_of(store);
    fs::remove_all(store / "consumequeue/TopicB/2");
    const fs::path damaged = "consumequeue/TopicRoll/0/00000000000000010000";
    flip_bit(store / damaged.string(), 100);
    const std::string bad = slurp(store / damaged.string());
    const store_tool::RepairPlan plan = run(store);
    CHECK(plan.queues.size() == 2);
    check_same(before, data_of(store));
    CHECK(slurp(fs::path(plan.side) / damaged) == bad);
    CHECK_FALSE(fs::exists(fs::path(plan.side) / "index"));
    check_well(store);
  }

  TEST_CASE("a damaged index is made anew alone") {
    const GoldenStore store("basic-clean");
    const auto before = data_of(store);
    const auto index = contents(store.root(), {"index"});
    flip_bit(store / index.begin()->first, 40 + 200 * 4 + 50 * 20 + 3);
    const store_tool::RepairPlan plan = run(store);
    CHECK(plan.queues.empty());
    CHECK(plan.index);
    check_same(before, data_of(store));
    check_well(store);
  }

  TEST_CASE("the checkpoint says which full index files are whole") {
    const GoldenStore store("basic-clean");
    fs::remove_all(store / "index");
    const auto before = open_store(store.root());
    store_tool::IndexBuilder small(store / "index", {10, 20}, 1'700'000'000'000);
    store_tool::LogWalk walk(before->log(), before->log().first_base(), false);
    for (store_tool::Frame frame; walk.next(frame);) {
      if (frame.kind == store_tool::Frame::Kind::kRecord) {
        REQUIRE(small.add(frame.record).has_value());
      }
    }
    REQUIRE(small.finish().has_value());
    auto options = options_of(true, false);
    options.open.index_shape = {10, 20};
    const auto repair_with = [&](bool index) {
      fs::remove_all(store / "consumequeue/TopicB/2");  // something to do
      options.index = index;
      REQUIRE(store_tool::repair(store.root(), options).has_value());
      const std::string bytes = slurp(store / "checkpoint");
      return store_format::parse_checkpoint(
          {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    };
    const store_format::Checkpoint made = repair_with(true);
    const auto after = store_tool::Folder::open(store.root(), options.open);
    REQUIRE(after.has_value());
    const auto& files = after.value()->index();
    REQUIRE(files.size() > 2);
    CHECK(made.index_done == files[files.size() - 2].header.end_phys);
    CHECK(made.index_last == files.back().header.end_phys);
    CHECK(repair_with(false).index_done == made.index_done);  // an index that is right stays known
  }

  TEST_CASE("the log is cut where recovery cuts it, and what goes is kept") {
    const GoldenStore store("basic-killed");
    const std::string last = "commitlog/00000000000000524288";
    std::uint64_t first = 0;
    {
      const auto folder = open_store(store.root());
      proto::MessageView m;
      REQUIRE(store_tool::read_record(folder->log().at(524288), 524288, m));
      first = static_cast<std::uint64_t>(m.total_bytes);
    }
    flip_bit(store / last, first + 88);  // a body
    const std::string bad = slurp(store / last);
    const auto found = check_store(store.root());
    REQUIRE(found.result.cut.has_value());
    const store_tool::RepairPlan plan = run(store);
    REQUIRE(plan.found.cut.has_value());
    CHECK(plan.found.cut->at == 524288 + first);
    const std::string kept = slurp(fs::path(plan.side) / (last + ".from-" + std::to_string(first)));
    CHECK(kept == bad.substr(first, kept.size()));
    CHECK(kept.size() == plan.found.cut->bytes);
    const std::string now = slurp(store / last);
    CHECK(now.substr(0, first) == bad.substr(0, first));
    CHECK(now.find_first_not_of('\0', first) == std::string::npos);
    check_well(store);
    const Checked after = check_store(store.root());
    CHECK(after.result.log_end == 524288 + first);
    CHECK(after.result.records == 200 - plan.found.cut->records - 1);
  }

  TEST_CASE("damage that recovery does not look at stays, and nothing behind it is lost") {
    const GoldenStore store("basic-clean");
    flip_bit(store / "commitlog/00000000000000000000", 3);  // the length of the first record
    const auto before = contents(store.root(), {"commitlog"});
    fs::remove_all(store / "consumequeue/TopicRoll");
    const store_tool::RepairPlan plan = run(store);
    CHECK_FALSE(plan.found.cut.has_value());
    check_same(before, contents(store.root(), {"commitlog"}));
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    CHECK(checked.result.errors == 1);  // the record itself
    CHECK(checked.result.records == 1204);
  }

  TEST_CASE("a broken set of log files is refused") {
    const GoldenStore store("basic-clean");
    fs::remove(store / "commitlog/00000000000000524288");
    const auto before = contents(store.root(), {"."});
    const auto refused = store_tool::repair(store.root(), options_of(true, true));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == Errc::kCorrupt);
    CHECK(refused.error().detail.find("00000000000000524288") != std::string::npos);
    auto after = contents(store.root(), {"."});
    check_same(before, after);
  }

  TEST_CASE("an extension with damage goes, and its queue has plain tags codes") {
    const GoldenStore store("filter-bitmap");
    flip_bit(store / "consumequeue_ext/TopicF/0/00000000000000000000", 9);
    const store_tool::RepairPlan plan = run(store);
    CHECK(plan.queues.size() == 1);
    CHECK_FALSE(fs::exists(store / "consumequeue_ext/TopicF/0"));
    CHECK(fs::exists(fs::path(plan.side) / "consumequeue_ext/TopicF/0"));
    check_well(store);
  }
}

}  // namespace tenon::test
