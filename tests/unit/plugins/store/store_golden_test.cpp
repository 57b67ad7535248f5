// Store folders written by official Java brokers, served by tenon.store.file (tests/data/store).
#include "../../../support/store_harness.h"
#include "golden_stores.h"
#include "paths.h"

#include "tenon/base/endian.h"

#include <boost/json.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <openssl/sha.h>

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

std::string sha256(std::string_view bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char c : digest) {
    text += kDigits[c >> 4];
    text += kDigits[c & 15];
  }
  return text;
}

/// A scenario unpacked into a folder of its own.
struct Golden {
  explicit Golden(const std::string& name)
      : expected(json::parse(slurp(data(name) / "expected.json")).as_object()) {
    const std::string command = "tar -xzf '" + (data(name) / "store.tar.gz").string() + "' -C '" +
                                folder.path().string() + "'";
    REQUIRE(std::system(command.c_str()) == 0);
  }
  static fs::path data(const std::string& name) {
    return fs::path(tenon::test::data_dir()) / "store" / name;
  }
  fs::path root() const { return folder.path() / "store"; }
  const json::array& list(const char* key) const { return expected.at(key).as_array(); }

  TempFolder folder;
  json::object expected;
};

std::string text_of(const json::object& o, const char* key) {
  return std::string(o.at(key).as_string());
}
std::int64_t number(const json::object& o, const char* key) {
  return o.at(key).to_number<std::int64_t>();
}
std::uint32_t queue_id_of(const json::object& o) {
  return o.at("queueId").to_number<std::uint32_t>();
}

void check_messages(StoreInstance& store, const Golden& golden) {
  std::map<std::pair<std::string, std::uint32_t>, std::vector<Entry>> queues;
  for (const auto& value : golden.list("messages")) {
    const json::object& m = value.as_object();
    const std::pair key{text_of(m, "topic"), queue_id_of(m)};
    if (!queues.contains(key)) {
      queues[key] = store.entries(key.first, key.second, store.bounds(key.first, key.second).min);
    }
    const auto& entries = queues[key];
    const std::int64_t offset = number(m, "queueOffset");
    INFO(key.first << "/" << key.second << " offset " << offset);
    const auto it = std::find_if(
        entries.begin(), entries.end(), [&](const Entry& e) { return e.offset == offset; });
    REQUIRE(it != entries.end());
    CHECK(static_cast<std::int64_t>(it->phys) == number(m, "commitLogOffset"));
    CHECK(it->bytes == number(m, "storeSize"));
    // In the extension's place stands its address.
    CHECK(it->tags_code == number(m, m.contains("cqExt") ? "tagsHash" : "tagsCode"));
    const std::string record = store.fetch(it->phys, it->bytes);
    CHECK(sha256(record) == text_of(m, "recordSha256"));
    CHECK(store.message_at(it->phys) == record);
    CHECK(store.time_of(key.first, key.second, offset) == number(m, "storeTimestamp"));
  }
}

void check_queues(StoreInstance& store, const Golden& golden) {
  for (const auto& value : golden.list("queues")) {
    const json::object& q = value.as_object();
    const std::string topic = text_of(q, "topic");
    const Bounds bounds = store.bounds(topic, queue_id_of(q));
    INFO(topic << "/" << queue_id_of(q));
    CHECK(bounds.min == number(q, "minOffset"));
    CHECK(bounds.max == number(q, "maxOffset"));
    if (q.contains("earliestMsgStoreTime")) {
      CHECK(store.time_of(topic, queue_id_of(q), bounds.min) == number(q, "earliestMsgStoreTime"));
    }
  }
}

/// Equal to the broker's answer or nearer in time: Java chooses the file by its modification time,
/// which a mapped file gets at odd moments and a copy loses; we choose by the messages.
void check_searches(StoreInstance& store, const Golden& golden, std::uint32_t boundary) {
  int nearer = 0;
  for (const auto& value : golden.list("searchOffset")) {
    const json::object& s = value.as_object();
    const std::string topic = text_of(s, "topic");
    const std::int64_t at = number(s, "timestamp");
    INFO(topic << "/" << queue_id_of(s) << " at " << at);
    const auto found = store.offset_by_time(topic, queue_id_of(s), at, boundary);
    REQUIRE(found.has_value());
    if (*found != number(s, "offset")) {
      const auto ours = store.time_of(topic, queue_id_of(s), *found);
      const auto java = store.time_of(topic, queue_id_of(s), number(s, "offset"));
      REQUIRE(ours.has_value());
      REQUIRE(java.has_value());
      CHECK(std::abs(*ours - at) < std::abs(*java - at));
      ++nearer;
    }
  }
  CHECK(nearer <= 6);
}

void check_keys(StoreInstance& store, const Golden& golden) {
  for (const auto& value : golden.list("keyQueries")) {
    const json::object& q = value.as_object();
    auto hits = store.query(text_of(q, "topic"),
                            text_of(q, "key"),
                            number(q, "beginTs"),
                            number(q, "endTs"),
                            q.at("maxNum").to_number<std::uint32_t>());
    std::sort(hits.begin(), hits.end());  // the broker answers in order of position
    std::vector<std::uint64_t> expected;
    for (const auto& offset : q.at("offsets").as_array()) {
      expected.push_back(offset.to_number<std::uint64_t>());
    }
    INFO(text_of(q, "topic") << "#" << text_of(q, "key"));
    CHECK(hits == expected);
  }
}

void check_all(StoreInstance& store, const Golden& golden, std::uint32_t boundary) {
  check_messages(store, golden);
  check_queues(store, golden);
  check_searches(store, golden, boundary);
  check_keys(store, golden);
}

/// Everything that the store reads and writes, by path below the root, index files by their order.
std::map<std::string, std::string> contents(const fs::path& root) {
  std::map<std::string, std::string> files;
  for (const char* top : {"commitlog", "consumequeue"}) {
    for (const auto& e : fs::recursive_directory_iterator(root / top)) {
      if (e.is_regular_file()) {
        files[fs::relative(e.path(), root).string()] = slurp(e.path());
      }
    }
  }
  std::set<fs::path> index;
  for (const auto& e : fs::directory_iterator(root / "index")) {
    index.insert(e.path());
  }
  int i = 0;
  for (const fs::path& path : index) {
    files["index " + std::to_string(++i)] = slurp(path);
  }
  return files;
}

void check_same_files(const std::map<std::string, std::string>& before,
                      const std::map<std::string, std::string>& after) {
  for (const auto& [name, bytes] : before) {
    INFO(name);
    REQUIRE(after.contains(name));
    CHECK(sha256(after.at(name)) == sha256(bytes));
  }
  CHECK(after.size() == before.size());
}

}  // namespace

TEST_SUITE("store_file/golden") {
  TEST_CASE("a folder of a Java broker is served as that broker served it") {
    const GoldenFolder& chosen = each_golden(kPlainGolden);
    const std::string name = chosen.name;
    const std::uint32_t boundary = chosen.v5 ? TENON_BOUNDARY_LOWER : TENON_BOUNDARY_NEAREST;
    const Golden golden(name);
    FakeHost host(golden.root());  // no sizes configured: the folder tells
    {
      StoreInstance store(tenon_entry_store_file, kId, host);
      REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
      CHECK(store.recovered().was_abnormal == (golden.expected.at("abortFile").as_bool() ? 1 : 0));
      CHECK(std::to_string(store.recovered().end) ==
            text_of(golden.expected.at("runtimeInfo").as_object(), "commitLogMaxOffset"));
      CHECK(std::to_string(store.recovered().min_phys) ==
            text_of(golden.expected.at("runtimeInfo").as_object(), "commitLogMinOffset"));
      check_all(store, golden, boundary);
    }
    // Appending, and a second start.
    StoreInstance store(tenon_entry_store_file, kId, host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    const json::object& q = golden.list("queues").back().as_object();
    Message m;
    m.topic = text_of(q, "topic");
    m.queue_id = queue_id_of(q);
    m.body = "after";
    m.properties = properties_of({{"KEYS", "after-java"}});
    const tenon_append_result r = store.append(m);
    CHECK(r.queue_offset == number(q, "maxOffset"));
    CHECK(store.query(m.topic, "after-java") == std::vector<std::uint64_t>{r.phys});
    store.stop();
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    CHECK(store.bounds(m.topic, m.queue_id).max == r.queue_offset + 1);
    check_messages(store, golden);
    check_keys(store, golden);
  }

  TEST_CASE("opening and closing a folder of a Java broker changes no byte of its data") {
    const Golden golden("basic-clean");
    const auto before = contents(golden.root());
    FakeHost host(golden.root());
    StoreInstance store(tenon_entry_store_file, kId, host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    store.stop();
    check_same_files(before, contents(golden.root()));
  }

  TEST_CASE("queues and index made anew from the log are those of the Java broker") {
    const GoldenFolder& chosen = each_golden(kPlainGolden);
    const std::string name = chosen.name;
    CAPTURE(name);
    const Golden golden(name);
    const auto before = contents(golden.root());
    for (const char* gone : {"consumequeue", "index", "checkpoint"}) {
      fs::remove_all(golden.root() / gone);
    }
    FakeHost host(golden.root());
    const json::object& sizes = golden.expected.at("brokerSettings").as_object();
    host.set("queue_file_bytes", std::stoll(text_of(sizes, "mappedFileSizeConsumeQueue")));
    host.set("index_slots", std::stoll(text_of(sizes, "maxHashSlotNum")));
    host.set("index_items", std::stoll(text_of(sizes, "maxIndexNum")));
    host.set("queue_ext", chosen.ext ? "true" : "false");
    StoreInstance store(tenon_entry_store_file, kId, host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    check_all(store, golden, chosen.v5 ? TENON_BOUNDARY_LOWER : TENON_BOUNDARY_NEAREST);
    store.stop();
    if (chosen.trimmed || chosen.ext) {
      return;  // keys of deleted records and bit maps are not in the log
    }
    auto after = contents(golden.root());
    // The all-zero file that Java had ahead is gone after our clean stop.
    for (const auto& [file, bytes] : before) {
      if (!after.contains(file) && bytes.find_first_not_of('\0') == std::string::npos) {
        after[file] = bytes;
      }
    }
    check_same_files(before, after);
  }
}

}  // namespace tenon::test
