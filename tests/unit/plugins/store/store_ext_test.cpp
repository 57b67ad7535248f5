// The extension of consume queues: read and written as RocketMQ does (spec: store §5.4).
#include "../../../support/store_harness.h"
#include "consume_queue_ext.h"
#include "paths.h"

#include <boost/json.hpp>
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
constexpr const char* kId = "tenon.store.file";

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string from_base64(std::string_view text) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') {
      break;
    }
    bits = bits << 6 | static_cast<std::uint32_t>(kDigits.find(c));
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>(bits >> count & 0xff));
    }
  }
  return out;
}

struct Expected {
  std::string topic{};
  std::uint32_t queue_id = 0;
  std::int64_t offset = 0;
  std::uint64_t phys = 0;
  std::int64_t tags_code = 0;
  std::int64_t store_ms = 0;
  std::string bitmap{};
};

/// tests/data/store/filter-bitmap, unpacked.
struct Golden {
  Golden() {
    const fs::path data = fs::path(data_dir()) / "store" / "filter-bitmap";
    const std::string command =
        "tar -xzf '" + (data / "store.tar.gz").string() + "' -C '" + folder.path().string() + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    const json::value all = json::parse(slurp(data / "expected.json"));
    for (const auto& value : all.at("messages").as_array()) {
      const json::object& ext = value.at("cqExt").as_object();
      Expected e;
      e.topic = std::string(value.at("topic").as_string());
      e.queue_id = value.at("queueId").to_number<std::uint32_t>();
      e.offset = value.at("queueOffset").to_number<std::int64_t>();
      e.phys = value.at("commitLogOffset").to_number<std::uint64_t>();
      e.tags_code = ext.at("tagsCode").to_number<std::int64_t>();
      e.store_ms = ext.at("msgStoreTime").to_number<std::int64_t>();
      if (const auto* map = ext.if_contains("filterBitMap")) {
        e.bitmap = from_base64(map->as_string());
      }
      messages.push_back(std::move(e));
    }
    REQUIRE(messages.size() == 245);
  }
  fs::path root() const { return folder.path() / "store"; }

  TempFolder folder;
  std::vector<Expected> messages{};
};

void check_messages(StoreInstance& store, const Golden& golden) {
  std::map<std::pair<std::string, std::uint32_t>, std::vector<Entry>> queues;
  for (const Expected& want : golden.messages) {
    auto& entries = queues[{want.topic, want.queue_id}];
    if (entries.empty()) {
      entries = store.entries(want.topic, want.queue_id, 0);
    }
    CAPTURE(want.topic);
    CAPTURE(want.offset);
    REQUIRE(want.offset < static_cast<std::int64_t>(entries.size()));
    const Entry& got = entries[static_cast<std::size_t>(want.offset)];
    CHECK(got.phys == want.phys);
    CHECK(got.extended);
    CHECK(got.tags_code == want.tags_code);
    CHECK(got.store_ms == want.store_ms);
    CHECK(got.bitmap == want.bitmap);
  }
}

std::map<std::string, std::string> contents(const fs::path& root) {
  std::map<std::string, std::string> files;
  for (const char* top : {"consumequeue", "consumequeue_ext"}) {
    for (const auto& e : fs::recursive_directory_iterator(root / top)) {
      if (e.is_regular_file()) {
        files[fs::relative(e.path(), root).string()] = slurp(e.path());
      }
    }
  }
  return files;
}

/// A store of our own with small files: 30 units of the queue, 46 of the extension (22 bytes).
struct Small {
  Small()
      : host(folder.path()) {
    host.set("commitlog_file", 65'536);
    host.set("queue_file_bytes", 600);
    host.set("queue_ext", 1);
    host.set("queue_ext_file", 1'024);
    host.set("queue_ext_bitmap_bytes", 2);
    host.set("index_slots", 100);
    host.set("index_items", 400);
    host.index_bits = [](const tenon_arrival& a, std::uint8_t* bits, std::size_t n) {
      REQUIRE(n == 2);
      bits[0] = static_cast<std::uint8_t>(a.queue_offset);
      bits[1] = 1;
    };
  }
  void fill(StoreInstance& store, int count) {
    for (int i = 0; i < count; ++i) {
      Message m;
      m.body = "body";
      m.properties = properties_of({{"TAGS", "TagA"}});
      m.store_ms = 1'700'000'000'000 + i;
      REQUIRE(store.append(m).status == TENON_OK);
    }
  }
  void check(StoreInstance& store, std::size_t count) {
    const auto entries = store.entries("TopicTest", 0, 0);
    REQUIRE(entries.size() == count);
    for (const Entry& e : entries) {
      CAPTURE(e.offset);
      CHECK(e.extended);
      CHECK(e.tags_code == 2598919);
      CHECK(e.bitmap == std::string{static_cast<char>(e.offset), '\x01'});
    }
  }
  fs::path ext() const { return folder.path() / "consumequeue_ext" / "TopicTest" / "0"; }

  TempFolder folder;
  FakeHost host;
};

}  // namespace

TEST_SUITE("store_file/ext") {
  TEST_CASE("the extension that a Java broker wrote is read, switched on or off here") {
    const Golden golden;
    FakeHost host(golden.root());
    SUBCASE("on") {
      host.set("queue_ext", 1);
    }
    SUBCASE("off") {}
    for (int round = 0; round < 2; ++round) {
      StoreInstance store(tenon_entry_store_file, kId, host);
      REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
      check_messages(store, golden);
    }
  }

  TEST_CASE("rebuilt from the log, queues and extension are Java's, byte for byte") {
    const Golden golden;
    const auto before = contents(golden.root());
    fs::remove_all(golden.root() / "consumequeue");
    fs::remove_all(golden.root() / "consumequeue_ext");
    FakeHost host(golden.root());
    host.set("queue_file_bytes", 2'000);
    host.set("queue_ext", 1);
    host.set("queue_ext_file", 2'048);
    host.set("queue_ext_bitmap_bytes", 2);
    std::map<std::uint64_t, std::string> maps;
    for (const Expected& e : golden.messages) {
      maps[e.phys] = e.bitmap;
    }
    host.index_bits = [&](const tenon_arrival& a, std::uint8_t* bits, std::size_t n) {
      const std::string& map = maps.at(a.phys);
      for (std::size_t i = 0; i < n; ++i) {
        bits[i] = map.empty() ? 0xff : static_cast<std::uint8_t>(map[i]);
      }
    };
    StoreInstance store(tenon_entry_store_file, kId, host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    check_messages(store, golden);
    store.stop();
    const auto after = contents(golden.root());
    CHECK(after.size() == before.size());
    for (const auto& [name, bytes] : before) {
      CAPTURE(name);
      REQUIRE(after.contains(name));
      CHECK((after.at(name) == bytes));
    }
  }

  TEST_CASE("many files, a restart, and going on") {
    Small small;
    {
      StoreInstance store(tenon_entry_store_file, kId, small.host);
      REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
      small.fill(store, 100);
      small.check(store, 100);
    }
    CHECK(std::distance(fs::directory_iterator(small.ext()), fs::directory_iterator()) == 3);
    StoreInstance store(tenon_entry_store_file, kId, small.host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    small.check(store, 100);
    small.fill(store, 20);
    small.check(store, 120);
  }

  TEST_CASE("a map of nothing but ones is not kept") {
    Small small;
    small.host.index_bits = {};
    StoreInstance store(tenon_entry_store_file, kId, small.host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    small.fill(store, 3);
    for (const Entry& e : store.entries("TopicTest", 0, 0)) {
      CHECK(e.extended);
      CHECK(e.bitmap.empty());
      CHECK(e.store_ms == 1'700'000'000'000 + e.offset);
    }
  }

  TEST_CASE("switched off later, old entries keep theirs and new ones have none") {
    Small small;
    {
      StoreInstance store(tenon_entry_store_file, kId, small.host);
      REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
      small.fill(store, 5);
    }
    small.host.set("queue_ext", 0);
    StoreInstance store(tenon_entry_store_file, kId, small.host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    small.fill(store, 1);
    const auto entries = store.entries("TopicTest", 0, 0);
    REQUIRE(entries.size() == 6);
    CHECK(entries[4].extended);
    CHECK_FALSE(entries[5].extended);
    CHECK(entries[5].tags_code == 2598919);
  }

  TEST_CASE("a cut of the log cuts the extension, and its place is used again") {
    Small small;
    StoreInstance store(tenon_entry_store_file, kId, small.host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    small.fill(store, 60);
    const auto entries = store.entries("TopicTest", 0, 0);
    REQUIRE(store.table().truncate(store.self(), entries[40].phys, 0, nullptr) == TENON_OK);
    CHECK(std::distance(fs::directory_iterator(small.ext()), fs::directory_iterator()) == 1);
    small.fill(store, 10);
    small.check(store, 50);
  }

  TEST_CASE("a lost end of the extension answers for nobody") {
    Small small;
    {
      StoreInstance store(tenon_entry_store_file, kId, small.host);
      REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
      small.fill(store, 20);
    }
    // The pages of the last ten units never reached the disk.
    const fs::path file = small.ext() / "00000000000000000000";
    {
      std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
      out.seekp(10 * 22);
      out << std::string(10 * 22, '\0');
    }
    StoreInstance store(tenon_entry_store_file, kId, small.host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    small.fill(store, 5);
    const auto entries = store.entries("TopicTest", 0, 0);
    REQUIRE(entries.size() == 25);
    for (const Entry& e : entries) {
      CAPTURE(e.offset);
      const bool lost = e.offset >= 10 && e.offset < 20;
      CHECK(e.extended == !lost);
      CHECK(store_file::is_ext_address(e.tags_code) == lost);  // filters take it as "may match"
      if (!lost) {
        CHECK(e.bitmap == std::string{static_cast<char>(e.offset), '\x01'});
      }
    }
  }

  TEST_CASE("files of the extension go with the messages that they speak of") {
    Small small;
    StoreInstance store(tenon_entry_store_file, kId, small.host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    for (int i = 0; i < 200; ++i) {  // four files of the log
      Message m;
      m.body = std::string(1'000, 'x');
      REQUIRE(store.append(m).status == TENON_OK);
    }
    tenon_retention policy{};
    policy.size = sizeof policy;
    policy.flags = TENON_RETENTION_MANUAL;
    policy.now_ms = INT64_MAX / 2;
    policy.max_files = 2;
    policy.disk_clean_pct = policy.disk_force_pct = policy.disk_full_pct = 100;
    tenon_retention_result result{};
    result.size = sizeof result;
    REQUIRE(store.table().retention(store.self(), &policy, &result, nullptr) == TENON_OK);
    REQUIRE(result.files == 2);
    const std::int64_t min = store.bounds("TopicTest", 0).min;
    CHECK(min > 92);
    CHECK(std::distance(fs::directory_iterator(small.ext()), fs::directory_iterator()) == 3);
    for (const Entry& e : store.entries("TopicTest", 0, min)) {
      CHECK(e.bitmap == std::string{static_cast<char>(e.offset), '\x01'});
    }
  }

  TEST_CASE("a dropped topic takes its extension along") {
    Small small;
    StoreInstance store(tenon_entry_store_file, kId, small.host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    small.fill(store, 5);
    std::uint32_t dropped = 0;
    REQUIRE(store.table().drop_topics(store.self(), nullptr, 0, &dropped, nullptr) == TENON_OK);
    CHECK(dropped == 1);
    CHECK_FALSE(fs::exists(small.ext()));
  }

  TEST_CASE("only whole units are units") {
    // Size 22, tags code 5, time 6, two bytes of bits.
    std::vector<std::uint8_t> unit{0, 22, 0, 0, 0, 0, 0, 0, 0, 5, 0,
                                   0, 0,  0, 0, 0, 0, 6, 0, 2, 9, 8};
    const auto read = store_file::parse_ext_unit(unit);
    REQUIRE(read.has_value());
    CHECK(read->tags_code == 5);
    CHECK(read->store_ms == 6);
    CHECK(read->bitmap[1] == 8);
    CHECK_FALSE(store_file::parse_ext_unit(std::span(unit).first(21)).has_value());
    unit[1] = 23;  // contradicts the length of the bits
    CHECK_FALSE(store_file::parse_ext_unit(unit).has_value());
    unit[0] = unit[1] = 0xff;  // the end of a file
    CHECK_FALSE(store_file::parse_ext_unit(unit).has_value());
    CHECK(store_file::is_ext_address(INT64_MIN + 28));
    CHECK_FALSE(store_file::is_ext_address(INT32_MIN));
  }
}

}  // namespace tenon::test
