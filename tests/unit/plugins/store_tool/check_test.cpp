// `tenon store check` on recorded folders: nothing is wrong with them, and each damage is found where
// it is.
#include "golden_stores.h"
#include "stores.h"

#include "tenon/base/endian.h"
#include "tenon/store_format/index.h"
#include "tenon/store_tool/log_walk.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
using store_tool::Finding;
using store_tool::Severity;

constexpr const char* kFirstLog = "commitlog/00000000000000000000";

/// Position of the n-th record of the log and its length.
std::pair<std::uint64_t, std::uint64_t> nth_record(const std::string& root, int n) {
  const auto folder = open_store(root);
  store_tool::LogWalk walk(folder->log(), 0, true);
  store_tool::Frame frame;
  for (int i = 0; walk.next(frame); i += frame.kind == store_tool::Frame::Kind::kRecord ? 1 : 0) {
    if (frame.kind == store_tool::Frame::Kind::kRecord && i == n) {
      break;
    }
  }
  return {frame.at, frame.bytes};
}

std::string index_file(const GoldenStore& store) {
  std::string name;
  for (const auto& e : fs::directory_iterator(store / "index")) {
    name = std::max(name, e.path().filename().string());
  }
  return "index/" + name;
}

std::string be64(std::uint64_t value) {
  std::string bytes(8, '\0');
  store_be(bytes.data(), value);
  return bytes;
}

}  // namespace

TEST_SUITE("store_tool/check") {
  TEST_CASE("nothing is wrong with a folder of a Java broker") {
    const std::string name = each_golden(kPlainGolden).name;
    const GoldenStore store(name);
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    CHECK(checked.result.errors == 0);
    CHECK(checked.result.warnings == 0);
    CHECK(checked.result.records > 0);
    CHECK(checked.result.index_items > 0);
    CHECK_FALSE(checked.result.cut.has_value());
  }

  TEST_CASE("a flipped bit of a body is found at its record") {
    const GoldenStore store("basic-clean");
    const auto [at, bytes] = nth_record(store.root(), 3);
    flip_bit(store / kFirstLog, at + 88);  // first byte of the body
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    CHECK(checked.result.errors == 1);
    REQUIRE(checked.of("record-crc").size() == 1);
    CHECK(checked.of("record-crc")[0].file == kFirstLog);
    CHECK(checked.of("record-crc")[0].position == at);
    // Seven files: a start after a clean stop does not read the first one.
    CHECK_FALSE(checked.result.cut.has_value());
  }

  TEST_CASE("a flipped bit of a length loses one record, and what follows is checked") {
    const GoldenStore store("basic-clean");
    const auto [at, bytes] = nth_record(store.root(), 3);
    flip_bit(store / kFirstLog, at + 3);
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    REQUIRE(checked.of("log-damage").size() == 1);
    CHECK(checked.of("log-damage")[0].position == at);
    CHECK(checked.result.records == 1204);
    CHECK(checked.result.damages == 1);
    CHECK(checked.result.errors == 1);  // its unit and its keys are no faults of their own
  }

  TEST_CASE("recovery's cut is told with what goes with it") {
    const GoldenStore store("basic-killed");
    const std::uint64_t last_file = 524288;  // the third of three files, five records
    const auto folder = open_store(store.root());
    proto::MessageView m;
    REQUIRE(store_tool::read_record(folder->log().at(last_file), last_file, m));
    const auto first = static_cast<std::uint64_t>(m.total_bytes);
    std::uint64_t records = 0;
    store_tool::LogWalk walk(folder->log(), last_file, true);
    store_tool::Frame frame;
    while (walk.next(frame)) {
      ++records;
    }
    REQUIRE(records > 2);
    flip_bit(store / "commitlog/00000000000000524288", first + 88);  // of the second record
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    REQUIRE(checked.result.cut.has_value());
    CHECK(checked.result.cut->at == last_file + first);
    CHECK(checked.result.cut->records == records - 2);
  }

  TEST_CASE("a log file that was cut short is found, and the records that are gone") {
    const GoldenStore store("basic-clean");
    fs::resize_file(store / "commitlog/00000000000000262144", 100'000);
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    REQUIRE(checked.of("file-size").size() == 1);
    CHECK(checked.of("file-size")[0].file == "commitlog/00000000000000262144");
    REQUIRE(checked.of("log-damage").size() == 1);
    CHECK(checked.of("log-damage")[0].file == "commitlog/00000000000000262144");
    CHECK(checked.of("log-damage")[0].position <= 100'000);
    CHECK(checked.result.records < 1205);
    CHECK(checked.result.log_end == 1'574'372);
  }

  TEST_CASE("a missing log file is found") {
    const GoldenStore store("basic-clean");
    fs::remove(store / "commitlog/00000000000000524288");
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    REQUIRE(checked.of("missing-file").size() == 1);
    CHECK(checked.of("missing-file")[0].file == "commitlog/00000000000000524288");
    CHECK(checked.result.errors > 1);  // units and entries that point there
  }

  TEST_CASE("zeros at the end after a clean stop are told by units that point there") {
    const GoldenStore store("basic-clean");
    const fs::path last = store / "commitlog/00000000000001572864";
    write_at(last, 0, std::string(1508, '\0'));  // 1574372 - 1572864
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    CHECK(checked.result.log_end == 1'572'864);
    CHECK(checked.of("unit-beyond").size() > 0);
    CHECK(checked.of("index-foreign").size() > 0);
  }

  TEST_CASE("a missing queue is found with its messages") {
    const GoldenStore store("basic-clean");
    fs::remove_all(store / "consumequeue/TopicB/2");
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    CHECK(checked.result.errors == 1);
    REQUIRE(checked.of("queue-missing").size() == 1);
    CHECK(checked.of("queue-missing")[0].file == "consumequeue/TopicB/2");
    CHECK(checked.of("queue-missing")[0].topic == "TopicB");
  }

  TEST_CASE("the units that a queue lacks at its end are a fault only after a clean stop") {
    const GoldenStore store("basic-clean");
    const fs::path units = store / "consumequeue/TopicRoll/0/00000000000000020000";
    write_at(units, 90 * 20, std::string(10 * 20, '\0'));  // offsets 1090 to 1099
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    REQUIRE(checked.of("units-missing").size() == 1);
    CHECK(checked.of("units-missing")[0].queue_offset == 1090);
    CHECK(checked.of("units-missing")[0].position == 90 * 20);
    CHECK(checked.of("units-missing")[0].severity == Severity::kError);
    std::ofstream(store / "abort").close();
    CHECK(check_store(store.root()).result.errors == 0);
  }

  TEST_CASE("a flipped bit in a unit is found at the unit") {
    const GoldenStore store("basic-clean");
    std::uint64_t at = 0;
    SUBCASE("position") {
      at = 7;
    }
    SUBCASE("length") {
      at = 11;
    }
    SUBCASE("tags code") {
      at = 19;
    }
    flip_bit(store / "consumequeue/TopicRoll/0/00000000000000010000", 40 * 20 + at);
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    CHECK(checked.result.errors == 1);
    REQUIRE(checked.of("unit-wrong").size() == 1);
    const Finding f = checked.of("unit-wrong")[0];
    CHECK(f.file == "consumequeue/TopicRoll/0/00000000000000010000");
    CHECK(f.position == 40 * 20);
    CHECK(f.queue_offset == 540);
  }

  TEST_CASE("units behind the end of a queue are told: they would come back") {
    const GoldenStore store("basic-clean");
    write_at(store / "consumequeue/TopicB/0/00000000000000000000", 5000, std::string(20, '\x01'));
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    CHECK(checked.result.errors == 0);
    CHECK(checked.of("units-stale").size() == 1);
  }

  TEST_CASE("a flipped bit in the extension is found at the unit that points there") {
    const GoldenStore store("filter-bitmap");
    flip_bit(store / "consumequeue_ext/TopicF/0/00000000000000000000",
             9);  // tags code of the first
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    REQUIRE(checked.of("unit-wrong").size() == 1);
    CHECK(checked.of("unit-wrong")[0].queue_offset == 0);
  }

  TEST_CASE("a foreign entry of the index is found at the entry") {
    const GoldenStore store("basic-clean");
    const std::string name = index_file(store);
    const store_format::IndexShape shape{200, 800};
    const auto folder = open_store(store.root());
    CHECK(folder->index_shape().slots == 200);
    std::uint64_t entry = 50;
    SUBCASE("no record begins there") {
      const auto item = store_format::load_index_item(folder->index().back().file->bytes().data() +
                                                      shape.item_at(50));
      write_at(store / name, shape.item_at(50) + 4, be64(item.phys - 1));
    }
    SUBCASE("a record without that key") {
      flip_bit(store / name, shape.item_at(50) + 3);
    }
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    REQUIRE(checked.of("index-foreign").size() == 1);
    CHECK(checked.of("index-foreign")[0].file == name);
    CHECK(checked.of("index-foreign")[0].position ==
          shape.item_at(static_cast<std::uint32_t>(entry)));
    CHECK(checked.of("index-missing").size() == 1);  // the key that the entry was for
    CHECK(checked.result.index_wrong);
  }

  TEST_CASE("a broken chain of the index is found: keys behind it cannot be") {
    const GoldenStore store("basic-clean");
    const std::string name = index_file(store);
    const store_format::IndexShape shape{200, 800};
    SUBCASE("link") {
      flip_bit(store / name, shape.item_at(300) + 19);
    }
    SUBCASE("slot") {
      const auto folder = open_store(store.root());
      const auto item = store_format::load_index_item(folder->index().back().file->bytes().data() +
                                                      shape.item_at(300));
      flip_bit(store / name, shape.slot_at(shape.slot_of(item.hash)) + 3);
    }
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    CHECK(checked.of("index-chain").size() >= 1);
    CHECK(checked.of("index-chain")[0].file == name);
    CHECK(checked.of("index-foreign").empty());
  }

  TEST_CASE("an index file that is gone is no damage at its old end, and is in the middle") {
    const GoldenStore store("basic-clean");
    fs::remove(store / index_file(store));
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    REQUIRE(checked.of("index-behind").size() == 1);
    CHECK(checked.of("index-behind")[0].severity == Severity::kError);
    CHECK(checked.result.index_wrong);
  }

  TEST_CASE("files that do not belong there are named, and the rest is checked") {
    const GoldenStore store("basic-clean");
    std::ofstream(store / "commitlog/notes.txt") << "x";
    std::ofstream(store / "consumequeue/TopicB/1/123") << "x";
    std::ofstream(store / "index/20300101000000000") << "not an index";
    const Checked checked = check_store(store.root());
    INFO(checked.text());
    CHECK(checked.of("foreign-file").size() == 2);
    CHECK(checked.of("file-size").size() == 1);
    CHECK(checked.result.records == 1205);
  }

  TEST_CASE("random bytes in any file never crash the check, and most are found") {
    const GoldenStore store("basic-killed");
    std::vector<fs::path> files;
    for (const char* top : {"commitlog", "consumequeue", "index", "checkpoint"}) {
      if (fs::is_regular_file(store / top)) {
        files.push_back(store / top);
        continue;
      }
      for (const auto& e : fs::recursive_directory_iterator(store / top)) {
        if (e.is_regular_file()) {
          files.push_back(e.path());
        }
      }
    }
    std::uint64_t seed = 88172645463325252u;
    const auto random = [&](std::uint64_t below) {
      seed ^= seed << 13;
      seed ^= seed >> 7;
      seed ^= seed << 17;
      return seed % below;
    };
    int found = 0;
    for (int round = 0; round < 60; ++round) {
      const fs::path& path = files[random(files.size())];
      const std::string before = slurp(path);
      CAPTURE(path.string());
      std::string bytes(1 + random(40), '\0');
      for (char& c : bytes) {
        c = static_cast<char>(random(256));
      }
      // The beginning of a file is where its data is.
      const std::uint64_t at = random(std::min<std::uint64_t>(before.size() - 40, 3000));
      write_at(path, at, bytes);
      const Checked checked = check_store(store.root());
      found += checked.result.errors + checked.result.warnings > 0 ? 1 : 0;
      write_at(path, at, before.substr(at, bytes.size()));
    }
    // Flags and most properties of a record are under no checksum.
    CHECK(found > 30);
    CHECK(check_store(store.root()).result.errors == 0);
  }

  TEST_CASE("a folder that a broker uses is refused, unless a snapshot is wanted") {
    const GoldenStore store("basic-clean");
    int told[2];
    int wait_for[2];
    REQUIRE(::pipe(told) == 0);
    REQUIRE(::pipe(wait_for) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {  // the broker
      const auto lock = store_tool::WriteLock::take(store.root());
      const char ready = lock ? 'y' : 'n';
      char end = 0;
      ::close(wait_for[1]);
      const bool sent = ::write(told[1], &ready, 1) == 1;
      const bool heard = ::read(wait_for[0], &end, 1) >= 0;
      ::_exit(sent && heard ? 0 : 1);
    }
    char ready = 0;
    REQUIRE(::read(told[0], &ready, 1) == 1);
    CHECK(ready == 'y');
    const auto refused = store_tool::Folder::open(store.root(), {});
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == Errc::kConflict);
    CHECK(refused.error().detail.find("--snapshot") != std::string::npos);
    CHECK(check_store(store.root(), true).result.errors == 0);
    CHECK_FALSE(store_tool::WriteLock::take(store.root()).has_value());
    for (const int fd : {told[0], told[1], wait_for[0], wait_for[1]}) {
      ::close(fd);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(store_tool::Folder::open(store.root(), {}).has_value());
  }

  TEST_CASE("what is no store folder is said so") {
    const TempFolder empty;
    const auto none = store_tool::Folder::open(empty.path().string(), {});
    REQUIRE_FALSE(none.has_value());
    CHECK(none.error().code == Errc::kNotFound);
    CHECK(store_tool::Folder::open((empty.path() / "x").string(), {}).error().code ==
          Errc::kNotFound);
    fs::create_directories(empty.path() / "dledger-n0" / "data");
    CHECK(store_tool::Folder::open(empty.path().string(), {}).error().code == Errc::kIncompatible);
  }
}

}  // namespace tenon::test
