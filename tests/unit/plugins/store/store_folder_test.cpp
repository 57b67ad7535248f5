// Folders of RocketMQ in all their forms: the log elsewhere, queues in RocksDB or not there, records
// of all versions, and the lines of the checklist (spec: store §26) about files.
#include "small_store.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace tenon::test {
namespace {

namespace fs = std::filesystem;

struct Small : SmallStore {
  ~Small() { store.reset(); }  // before the folder that it is in
  fs::path operator/(const char* below) const { return root.path() / below; }

  TempFolder elsewhere;
};

Message keyed(const std::string& key, std::size_t body = 200) {
  Message m;
  m.body = std::string(body, 'b');
  m.properties = properties_of({{"KEYS", key}});
  return m;
}

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& e : fs::directory_iterator(folder)) {
    found.push_back(e.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// A whole record as another broker wrote it.
std::string raw_record(const proto::MessageRecord& m) {
  std::string bytes(proto::encoded_message_bytes(m), '\0');
  proto::encode_message(m, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

void append_raw(StoreInstance& store, const std::string& bytes) {
  const tenon_bytes piece{reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
  REQUIRE(store.table().append_raw(store.self(), store.log().end, &piece, 1, nullptr) == TENON_OK);
}

}  // namespace

TEST_SUITE("store_file/folder") {
  TEST_CASE("the log lies in a folder of its own") {
    Small s;
    const fs::path log = s.elsewhere.path() / "big disk" / "log";
    s.host.set("commitlog_folder", log.string() + "/");
    s.open();
    for (int i = 0; i < 30; ++i) {
      s.store->append(keyed("k" + std::to_string(i)));
    }
    s.store->stop();
    CHECK(files_of(log).size() == 3);
    CHECK_FALSE(fs::exists(s / "commitlog"));
    fs::remove_all(s / "consumequeue");
    s.open();
    CHECK(s.store->bounds("TopicTest", 0).max == 30);
    CHECK(s.store->query("TopicTest", "k7").size() == 1);
    CHECK(s.store->append(keyed("more")).queue_offset == 30);

    tenon_retention p{};
    p.size = sizeof p;
    p.flags = TENON_RETENTION_MANUAL;
    p.now_ms = INT64_MAX / 2;
    p.max_files = 1;
    tenon_retention_result r{};
    r.size = sizeof r;
    CHECK(s.store->table().retention(s.store->self(), &p, &r, nullptr) == TENON_OK);
    CHECK(r.files == 1);
    CHECK(files_of(log).front().filename() == "00000000000000004096");
  }

  TEST_CASE("an existing folder whose log was moved away is served, and back") {
    Small s;
    s.open();
    for (int i = 0; i < 30; ++i) {
      s.store->append(keyed("k"));
    }
    s.store->stop();
    fs::create_directory(s.elsewhere.path() / "log");
    for (const fs::path& file : files_of(s / "commitlog")) {
      fs::rename(file, s.elsewhere.path() / "log" / file.filename());
    }
    s.host.set("commitlog_folder", (s.elsewhere.path() / "log").string());
    s.open();
    CHECK(s.store->append(keyed("k")).queue_offset == 30);
    s.store->stop();
    // A link does it without the option.
    fs::remove(s / "commitlog");
    fs::create_directory_symlink(s.elsewhere.path() / "log", s / "commitlog");
    s.host.set("commitlog_folder", "");
    s.open();
    CHECK(s.store->entries("TopicTest", 0, 0).size() == 31);
  }

  TEST_CASE("a log folder that cannot be meant is refused, and nothing is touched") {
    Small s;
    s.open();
    s.store->append(keyed("k"));
    s.store->stop();
    std::string text;
    SUBCASE("several with another separator") {
      s.host.set("commitlog_folder", "/disk1/log:/disk2/log");
      text = "several folders are separated by commas";
    }
    SUBCASE("relative") {
      s.host.set("commitlog_folder", "log");
      text = "must be a full path";
    }
    SUBCASE("not mounted") {
      fs::rename(s / "commitlog", s / "away");
      s.host.set("commitlog_folder", s.elsewhere / "log");
      text = "is its disk mounted?";
    }
    SUBCASE("two logs") {
      fs::copy(s / "commitlog", s.elsewhere.path() / "log");
      s.host.set("commitlog_folder", s.elsewhere / "log");
      text = "has files too";
    }
    const std::string queue = slurp(s / "consumequeue/TopicTest/0/00000000000000000000");
    const tenon_status status = s.try_open();
    CHECK(status < 0);
    INFO(s.store->error());
    CHECK(s.store->error().find(text) != std::string::npos);
    CHECK(slurp(s / "consumequeue/TopicTest/0/00000000000000000000") == queue);
    CHECK_FALSE(fs::exists(s / "abort"));
  }

  TEST_CASE("queues in RocksDB form are made anew from the log, whose front is gone") {
    Small s;
    s.open();
    for (int i = 0; i < 40; ++i) {
      s.store->append(keyed("k" + std::to_string(i)));
    }
    const std::int64_t first_left = [&] {
      const auto entries = s.store->entries("TopicTest", 0, 0);
      return std::find_if(
                 entries.begin(), entries.end(), [](const Entry& e) { return e.phys >= 4096; })
          ->offset;
    }();
    s.store->stop();
    fs::remove(s / "commitlog/00000000000000000000");
    fs::remove_all(s / "consumequeue");
    fs::create_directory(s / "consumequeue");
    for (const char* name : {"CURRENT",
                             "IDENTITY",
                             "LOCK",
                             "LOG",
                             "MANIFEST-000004",
                             "OPTIONS-000007",
                             "000008.sst"}) {
      std::ofstream(s / "consumequeue" / name) << "rocks";
    }
    s.open();
    CHECK(s.store->bounds("TopicTest", 0).min == first_left);
    CHECK(s.store->bounds("TopicTest", 0).max == 40);
    CHECK(s.store->append(keyed("more")).queue_offset == 40);
    s.store->stop();
    CHECK(slurp(s / "consumequeue/000008.sst") == "rocks");  // the way back to RocksDB stays
  }

  TEST_CASE("records of both versions, IPv4 and IPv6 hosts, in one log") {
    Small s;
    s.open();
    const proto::HostAddr v4{{10, 1, 2, 3}, 54321, false};
    proto::HostAddr v6{};
    v6.v6 = true;
    v6.ip = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
    v6.port = 10911;
    const std::string long_topic = "%RETRY%" + std::string(190, 'g');
    const std::string keys = properties_of({{"KEYS", "both"}, {"TAGS", "T"}});
    std::vector<std::string> records;
    for (const std::string& topic : {std::string("TopicTest"), long_topic}) {
      for (int i = 0; i < 4; ++i) {
        proto::MessageRecord m;
        m.topic = topic;
        m.queue_offset = i;
        m.phys_offset = static_cast<std::int64_t>(s.store->log().end);
        m.born_host = i % 2 == 0 ? v4 : v6;
        m.store_host = i / 2 == 0 ? v4 : v6;
        m.store_ms = 1'700'000'000'000 + i;
        m.body = as_bytes("body");
        m.properties = keys;
        records.push_back(raw_record(m));
        append_raw(*s.store, records.back());
      }
    }
    s.store->stop();
    fs::remove_all(s / "consumequeue");
    fs::remove_all(s / "index");
    s.open();
    std::size_t n = 0;
    for (const std::string& topic : {std::string("TopicTest"), long_topic}) {
      const auto entries = s.store->entries(topic, 0, 0);
      INFO(topic << " " << s.host.log_text());
      REQUIRE(entries.size() == 4);
      for (const Entry& e : entries) {
        CHECK(s.store->fetch(e.phys, e.bytes) == records[n++]);
        CHECK(s.store->time_of(topic, 0, e.offset) == 1'700'000'000'000 + e.offset);
        CHECK(e.tags_code == 'T');
      }
      CHECK(s.store->query(topic, "both").size() == 4);
    }
    CHECK(load_be<std::uint32_t>(records[4].data() + 4) == 0xDAA320ABu);
  }

  // store §26.9
  TEST_CASE("queue file 2 is named 00000000000006000000 and begins with queue offset 300 000") {
    Small s;
    s.host.set("queue_file_bytes", 6'000'000);
    s.open();
    for (const std::int64_t offset : {299'999, 300'000}) {  // as behind a front that was deleted
      proto::MessageRecord m;
      m.topic = "TopicTest";
      m.queue_offset = offset;
      m.phys_offset = static_cast<std::int64_t>(s.store->log().end);
      m.body = as_bytes("body");
      append_raw(*s.store, raw_record(m));
    }
    CHECK(s.host.wait([&] { return s.store->bounds("TopicTest", 0).max == 300'001; }));
    CHECK(s.store->bounds("TopicTest", 0).min == 299'999);
    s.store->stop();
    const auto files = files_of(s / "consumequeue/TopicTest/0");
    REQUIRE(files.size() == 2);
    CHECK(files[1].filename() == "00000000000006000000");
    const std::string unit = slurp(files[1]).substr(0, 20);
    CHECK(load_be<std::uint64_t>(unit.data()) == 104);  // behind the first record
  }

  // store §26.11
  TEST_CASE("an index file is full after its items minus one, and the checkpoint tells its end") {
    Small s;
    s.open();
    for (int i = 0; i < 39; ++i) {
      Message m = keyed("k" + std::to_string(i));
      m.store_ms = 1'700'000'000'000 + i;
      s.store->append(m);
    }
    CHECK(s.store->query("TopicTest", "k38").size() == 1);  // waits for the index
    CHECK(files_of(s / "index").size() == 1);
    Message m = keyed("k39");
    m.store_ms = 1'700'000'001'000;
    s.store->append(m);
    CHECK(s.store->query("TopicTest", "k39").size() == 1);
    const auto files = files_of(s / "index");
    REQUIRE(files.size() == 2);
    s.store->stop();
    const std::string full = slurp(files[0]);
    CHECK(load_be<std::uint32_t>(full.data() + 36) == 40);  // counts from 1
    CHECK(load_be<std::int64_t>(full.data() + 8) == 1'700'000'000'038);
    CHECK(load_be<std::int64_t>(slurp(s / "checkpoint").data() + 16) == 1'700'000'000'038);
    CHECK(load_be<std::uint32_t>(slurp(files[1]).data() + 36) == 2);
  }

  // store §26.12
  TEST_CASE("keys of one hash share a chain: both are found, the asker looks at the keys") {
    Small s;
    s.open();
    const std::uint64_t first = s.store->append(keyed("Aa")).phys;
    const std::uint64_t second = s.store->append(keyed("BB")).phys;
    const std::uint64_t other = s.store->append(keyed("Cc")).phys;
    for (const char* key : {"Aa", "BB"}) {
      auto hits = s.store->query("TopicTest", key);
      std::sort(hits.begin(), hits.end());
      CHECK(hits == std::vector<std::uint64_t>{first, second});
    }
    CHECK(s.store->query("TopicTest", "Cc") == std::vector<std::uint64_t>{other});
  }

  // store §26.5
  TEST_CASE("a batch that does not fit moves as a whole, the filler begins where it would have") {
    Small s;
    s.open();
    const tenon_append_result before = s.store->append(keyed("first", 3000));
    proto::MessageRecord part;
    part.topic = "TopicTest";
    const std::string body(300, 'b');
    part.body = as_bytes(body);
    const std::string one = raw_record(part);
    Message batch;
    batch.flags = TENON_RECORD_BATCH;
    const std::size_t end = before.phys + before.bytes;
    for (std::size_t n = 0; end + n * one.size() + 8 <= 4096; ++n) {
      batch.body += one;  // one too many
    }
    tenon_record record = to_record(batch);
    record.count = static_cast<std::uint32_t>(batch.body.size() / one.size());
    tenon_append_result r{};
    s.store->table().append(s.store->self(), &record, sizeof record, 1, &r, sizeof r, nullptr);
    CHECK(r.status == TENON_OK);
    CHECK(r.phys == 4096);
    s.store->stop();
    const std::string log = slurp(s / "commitlog/00000000000000000000");
    CHECK(load_be<std::uint32_t>(log.data() + end) == 4096 - end);
    CHECK(load_be<std::uint32_t>(log.data() + end + 4) == 0xcbd43194u);
  }
}

}  // namespace tenon::test
