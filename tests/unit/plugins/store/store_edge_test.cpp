// The checklist of the format (spec: store §26), line by line where the other tests do not cover it.
#include "../../../support/seed.h"
#include "small_store.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
constexpr const char* kId = "tenon.store.file";

struct Small : SmallStore {
  Small() { open(); }
  ~Small() { store.reset(); }  // before the folder that it is in
  /// Forgets the running store as a killed process would: on a copy of its files.
  void crash() {
    auto copy = std::make_unique<TempFolder>();
    fs::copy(folder(), copy->path(), fs::copy_options::recursive);
    store.reset();
    crashed = std::move(copy);
    host.set_root(crashed->path());
  }
  fs::path folder() const { return crashed == nullptr ? root.path() : crashed->path(); }
  fs::path log_file(int n) const {
    char name[32];
    std::snprintf(name, sizeof name, "%020d", n * 4096);
    return folder() / "commitlog" / name;
  }

  std::unique_ptr<TempFolder> crashed;
};

Message sized(std::size_t bytes) {
  Message m;
  m.body = std::string(bytes - 91 - m.topic.size(), 'b');
  return m;
}

std::uint32_t word(const fs::path& path, std::uint64_t at) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(at));
  char bytes[4] = {};
  in.read(bytes, 4);
  return load_be<std::uint32_t>(bytes);
}

void poke(const fs::path& path, std::uint64_t at, char value) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(value);
}

}  // namespace

TEST_SUITE("store_file/format") {
  // store §26.4
  TEST_CASE("a record fills a file up to the eight bytes of the filler, one byte more rolls") {
    Small s;
    for (int i = 0; i < 3; ++i) {
      s.store->append(sized(1000));
    }
    SUBCASE("exact") {
      CHECK(s.store->append(sized(1088)).phys == 3000);
      CHECK(s.store->append(sized(200)).phys == 4096);
      s.store->stop();
      CHECK(word(s.log_file(0), 4088) == 8);
      CHECK(word(s.log_file(0), 4092) == 0xcbd43194u);
    }
    SUBCASE("one more") {
      CHECK(s.store->append(sized(1089)).phys == 4096);
      s.store->stop();
      CHECK(word(s.log_file(0), 3000) == 1096);
      CHECK(word(s.log_file(0), 3004) == 0xcbd43194u);
    }
    s.open();
    CHECK(s.store->recovered().was_abnormal == 0);
    CHECK(s.store->append(sized(200)).phys > 4096);
  }

  TEST_CASE("a record that fits into no file is refused and nothing is written") {
    Small s;
    CHECK(s.store->append(sized(4088)).status == TENON_OK);
    CHECK(s.store->append(sized(4089)).status == TENON_INVALID);
    CHECK(s.store->log().end == 4088);
  }

  // store §26.6
  TEST_CASE("prepared and rollback records have no queue entry; only prepared ones are indexed") {
    Small s;
    Message m;
    m.properties = properties_of({{"KEYS", "p"}});
    m.sys_flag = proto::sys_flag::kTransactionPrepared;
    CHECK(s.store->append(m).queue_offset == 0);
    m.properties = properties_of({{"KEYS", "r"}});
    m.sys_flag = proto::sys_flag::kTransactionRollback;
    CHECK(s.store->append(m).queue_offset == 0);
    CHECK(s.store->query("TopicTest", "p").size() == 1);
    CHECK(s.store->query("TopicTest", "r").empty());
    m.sys_flag = proto::sys_flag::kTransactionCommit;
    CHECK(s.store->append(m).queue_offset == 0);
    CHECK(s.store->bounds("TopicTest", 0).max == 1);
  }

  // store §26.8
  TEST_CASE("a negative tag hash is stored with its sign extended") {
    Small s;
    Message m;
    m.properties = properties_of({{"TAGS", "payment-success"}});
    s.store->append(m);
    CHECK(s.store->entries("TopicTest", 0, 0).at(0).tags_code ==
          static_cast<std::int64_t>(0xFFFFFFFF9FAEEF3Cull));
  }

  // store §26.2, store §26.3
  TEST_CASE("an IPv6 born host moves the store time, and a body of nothing has CRC 0") {
    Small s;
    Message m;
    m.born_host.v6 = true;
    m.store_ms = 1'700'000'000'123;
    const auto r = s.store->append(m);
    const std::string record = s.store->fetch(r.phys, r.bytes);
    CHECK(load_be<std::int64_t>(record.data() + 68) == 1'700'000'000'123);
    CHECK(load_be<std::int32_t>(record.data() + 8) == 0);
    CHECK(load_be<std::int32_t>(record.data() + 36) == proto::sys_flag::kBornHostV6);
    m.body = "a";  // CRC-32 e8b7be43, of which bit 31 is cleared
    const auto one = s.store->append(m);
    CHECK(load_be<std::uint32_t>(s.store->fetch(one.phys, one.bytes).data() + 8) == 0x68b7be43u);
  }

  // store §26.18
  TEST_CASE("a read ends with its queue file") {
    Small s;
    for (int i = 0; i < 20; ++i) {
      s.store->append(sized(120));
    }
    CHECK(fs::exists(s.folder() / "consumequeue/TopicTest/0/00000000000000000160"));
    tenon_index_entry out[32];
    std::size_t n = 0;
    std::int64_t next = 0;
    const tenon_queue q = s.store->queue("TopicTest", 0);
    s.store->table().index_read(s.store->self(), q, 3, out, sizeof out[0], 32, &n, &next, nullptr);
    CHECK(n == 5);
    CHECK(next == 8);
  }

  TEST_CASE("queues made anew behind a cut front begin with filler") {
    Small s;
    for (int i = 0; i < 30; ++i) {
      s.store->append(sized(300));  // 13 to a file
    }
    s.store->stop();
    fs::remove(s.log_file(0));
    fs::remove_all(s.folder() / "consumequeue");
    s.open();
    CHECK(s.store->bounds("TopicTest", 0).min == 13);
    CHECK(s.store->bounds("TopicTest", 0).max == 30);
    CHECK(s.store->entries("TopicTest", 0, 13).size() == 17);
    CHECK(word(s.folder() / "consumequeue/TopicTest/0/00000000000000000160", 8) == 0x7fffffffu);
    CHECK(s.store->append(sized(300)).queue_offset == 30);
  }

  TEST_CASE("an emptied log folder starts everything at 0") {
    Small s;
    for (int i = 0; i < 30; ++i) {
      Message m = sized(300);
      m.properties = properties_of({{"KEYS", "k"}});
      s.store->append(m);
    }
    s.store->stop();
    fs::remove_all(s.folder() / "commitlog");
    s.open();
    CHECK(s.store->bounds("TopicTest", 0).max == 0);
    CHECK(s.store->query("TopicTest", "k").empty());
    CHECK(s.store->append(sized(300)).queue_offset == 0);
    CHECK(s.store->log().end == 300);
  }

  TEST_CASE("one flipped bit in the last record cuts exactly it, and nothing old comes back") {
    Small s;
    for (int i = 0; i < 9; ++i) {
      Message m = sized(300);
      m.properties = properties_of({{"KEYS", "k" + std::to_string(i)}});
      m.body.resize(m.body.size() - m.properties.size());
      REQUIRE(s.store->append(m).bytes == 300);
    }
    s.crash();
    poke(s.log_file(0), 8 * 300 + 100, 'X');
    s.open();
    CHECK(s.store->recovered().was_abnormal == 1);
    CHECK(s.store->recovered().end == 2400);
    CHECK(s.store->recovered().cut_bytes == 300);
    CHECK(s.store->bounds("TopicTest", 0).max == 8);
    CHECK(s.store->query("TopicTest", "k8").empty());
    CHECK(s.store->query("TopicTest", "k7").size() == 1);
    const auto r = s.store->append(sized(300));
    CHECK(r.phys == 2400);
    CHECK(r.queue_offset == 8);
    // Trap (spec: store §13.3): a cut in the middle, a record of equal length, a restart.
    for (int i = 0; i < 3; ++i) {
      s.store->append(sized(300));
    }
    s.crash();
    poke(s.log_file(0), 5 * 300 + 100, 'X');
    s.open();
    CHECK(s.store->log().end == 1500);
    s.store->append(sized(300));
    s.crash();
    s.open();
    CHECK(s.store->log().end == 1800);
    CHECK(s.store->bounds("TopicTest", 0).max == 6);
  }

  // store §26.21
  TEST_CASE("the time search of 4.9.8") {
    Small s;
    s.host.set("queue_file_bytes", 2000);
    s.open();
    for (const std::int64_t ms : {1000, 2000, 2000, 2000, 3000, 9000}) {
      Message m;
      m.store_ms = ms;
      s.store->append(m);
    }
    const auto at = [&](std::int64_t ms) { return *s.store->offset_by_time("TopicTest", 0, ms); };
    CHECK(at(999) == 0);  // spec: store §16
    CHECK(at(1500) == 0);
    CHECK(at(1600) == 1);
    CHECK(at(2000) == 2);
    CHECK(at(2400) == 3);
    CHECK(at(2500) == 3);
    CHECK(at(2501) == 4);
    CHECK(at(6000) == 4);
    CHECK(at(6100) == 5);
    CHECK(at(10000) == 5);
  }

  // store §26.22
  TEST_CASE("a rebuilt queue of the schedule topic has delivery times again") {
    Small s;
    Message m;
    m.topic = "SCHEDULE_TOPIC_XXXX";
    m.queue_id = 1;
    m.store_ms = 1'700'000'000'000;
    m.properties = properties_of({{"TAGS", "T"}, {"DELAY", "2"}, {"REAL_TOPIC", "A"}});
    s.store->append(m);
    s.store->stop();
    fs::remove_all(s.folder() / "consumequeue");
    s.open();
    CHECK(s.store->entries(m.topic, 1, 0).at(0).tags_code == 1'700'000'005'000);
  }

  // store §26.13
  TEST_CASE("a clean stop leaves no abort marker and no file ahead of the log") {
    Small s;
    CHECK(fs::exists(s.folder() / "abort"));
    for (int i = 0; i < 20; ++i) {
      s.store->append(sized(500));
    }
    s.store->stop();
    CHECK(!fs::exists(s.folder() / "abort"));
    std::size_t files = 0;
    for (const auto& e : fs::directory_iterator(s.folder() / "commitlog")) {
      CHECK(e.file_size() == 4096);
      ++files;
    }
    CHECK(files == 3);
  }

  TEST_CASE("deleting old files moves the minimum, unless somebody needs them") {
    Small s;
    for (int i = 0; i < 40; ++i) {
      s.store->append(sized(300));
    }
    tenon_retention p{};
    p.size = sizeof p;
    p.flags = TENON_RETENTION_MANUAL;
    p.now_ms = INT64_MAX / 2;
    p.max_files = 1;
    const auto trim = [&] {
      tenon_retention_result r{};
      r.size = sizeof r;
      CHECK(s.store->table().retention(s.store->self(), &p, &r, nullptr) == TENON_OK);
      return r.files;
    };
    s.store->table().set_floor(s.store->self(), 100);
    CHECK(trim() == 0);  // a replica needs it
    s.store->table().set_floor(s.store->self(), TENON_NO_LIMIT);
    CHECK(trim() == 1);
    CHECK(s.store->log().min_phys == 4096);
    CHECK(s.store->bounds("TopicTest", 0).min == 13);
    CHECK(!fs::exists(s.folder() / "consumequeue/TopicTest/0/00000000000000000000"));
    CHECK(s.store->fetch(0, 300).empty());
    p.now_ms = 0;
    p.keep_ms = 1000;
    CHECK(trim() == 0);  // not old enough
    p.flags = 0;
    p.disk_force_pct = 0;
    CHECK(trim() == 0);
  }

  TEST_CASE("a replica takes raw bytes in any pieces and serves the same") {
    Small leader;
    for (int i = 0; i < 30; ++i) {
      Message m = sized(static_cast<std::size_t>(150 + 37 * i));
      m.queue_id = static_cast<std::uint32_t>(i % 2);
      leader.store->append(m);
    }
    const std::uint64_t end = leader.store->log().end;
    Small replica;
    std::mt19937 random(7);
    std::uint64_t at = 0;
    while (at < end) {
      tenon_view view{};
      tenon_hold hold{};
      const auto want = std::uniform_int_distribution<std::uint32_t>(1, 900)(random);
      REQUIRE(leader.store->table().read_log(
                  leader.store->self(), at, want, TENON_READ_TO_END, &view, &hold, nullptr) ==
              TENON_OK);
      const tenon_bytes piece{view.ptr, view.len};
      CHECK(replica.store->table().append_raw(replica.store->self(), at + 1, &piece, 1, nullptr) ==
            TENON_CONFLICT);
      REQUIRE(replica.store->table().append_raw(replica.store->self(), at, &piece, 1, nullptr) ==
              TENON_OK);
      at += view.len;
      hold.release(hold.owner, hold.id);
    }
    CHECK(replica.host.wait([&] { return replica.store->log().dispatched == end; }));
    for (const std::uint32_t id : {0u, 1u}) {
      const auto mine = replica.store->entries("TopicTest", id, 0);
      const auto theirs = leader.store->entries("TopicTest", id, 0);
      REQUIRE(mine.size() == theirs.size());
      for (std::size_t i = 0; i < mine.size(); ++i) {
        CHECK(replica.store->fetch(mine[i].phys, mine[i].bytes) ==
              leader.store->fetch(theirs[i].phys, theirs[i].bytes));
      }
    }
    replica.store->table().rebuild_counters(replica.store->self(), nullptr);
    CHECK(replica.store->append(sized(200)).queue_offset == 15);
  }

  TEST_CASE("dropped topics are gone, their handles are stale") {
    Small s;
    Message m;
    m.topic = "Gone";
    s.store->append(m);
    s.store->append(Message{});
    const tenon_queue q = s.store->queue("Gone", 0);
    const tenon_str keep{"TopicTest", 9};
    std::uint32_t dropped = 0;
    s.store->table().drop_topics(s.store->self(), &keep, 1, &dropped, nullptr);
    CHECK(dropped == 1);
    tenon_queue_bounds b{};
    b.size = sizeof b;
    CHECK(s.store->table().queue_bounds(s.store->self(), q, &b) == TENON_STALE);
    CHECK(s.store->queue("Gone", 0) == 0);
    CHECK(!fs::exists(s.folder() / "consumequeue/Gone"));
    CHECK(s.store->bounds("TopicTest", 0).max == 1);
  }

  TEST_CASE("damaged queue, index and checkpoint bytes end in answers, not in a crash") {
    std::mt19937 random(seed_of_run());
    Small s;
    for (int i = 0; i < 60; ++i) {
      Message m = sized(200);
      m.properties = properties_of({{"KEYS", "k" + std::to_string(i % 5)}});
      s.store->append(m);
    }
    for (int round = 0; round < 15; ++round) {
      s.store->stop();
      std::vector<fs::path> files{s.folder() / "checkpoint"};
      for (const char* top : {"consumequeue", "index"}) {
        for (const auto& e : fs::recursive_directory_iterator(s.folder() / top)) {
          if (e.is_regular_file()) {
            files.push_back(e.path());
          }
        }
      }
      for (int i = 0; i < 20; ++i) {
        const fs::path& file = files[random() % files.size()];
        poke(file, random() % fs::file_size(file), static_cast<char>(random()));
      }
      if (random() % 2 == 0) {
        std::ofstream(s.folder() / "abort");
      }
      s.store = std::make_unique<StoreInstance>(tenon_entry_store_file, kId, s.host);
      if (s.store->start() < 0) {
        CHECK(!s.store->error().empty());
        fs::remove_all(s.folder() / "index");
        s.open();
      }
      for (const Entry& e : s.store->entries("TopicTest", 0, s.store->bounds("TopicTest", 0).min)) {
        const std::string record = s.store->fetch(e.phys, e.bytes);
        CHECK((record.empty() || proto::decode_message(as_bytes(record)).has_value()));
      }
      for (int i = 0; i < 5; ++i) {
        s.store->query("TopicTest", "k" + std::to_string(i));
      }
      CHECK(s.store->append(sized(200)).status == TENON_OK);
      CHECK(s.store->log().end > 12000);
    }
  }
}

}  // namespace tenon::test
