// What goes when: age, hour, disk use, floors and holds (spec: store §10.3, §11).
#include "../../../../plugins/store_file/src/io.h"
#include "../../../support/store_harness.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kHour = 3'600'000;
constexpr std::int64_t kNow = 1'700'000'000'000;
constexpr std::uint64_t kFile = 4096;

/// Used part of the disk in hundredths of a percent; below 0 the call fails.
std::atomic<int> g_used_x100{0};
std::atomic<bool> g_unlink_fails{false};

int probe(const char*, struct statvfs* out) {
  if (g_used_x100 < 0) {
    errno = ENOENT;
    return -1;
  }
  *out = {};
  out->f_frsize = 4096;
  out->f_blocks = 10'000;
  out->f_bfree = out->f_bavail = static_cast<fsblkcnt_t>(10'000 - g_used_x100);
  return 0;
}
int failing_unlink(const char* path) {
  if (g_unlink_fails) {
    errno = EIO;
    return -1;
  }
  return store_file::system_io().unlink(path);
}

struct ProbedDisk {
  ProbedDisk() {
    g_used_x100 = 1000;
    g_unlink_fails = false;
    store_file::io().statvfs = probe;
    store_file::io().unlink = failing_unlink;
  }
  ~ProbedDisk() { store_file::io() = store_file::system_io(); }
};

/// A store with `files` log files of 4 KiB, 13 messages of 300 bytes in each.
struct Full {
  explicit Full(int files = 6) {
    host.fixed_wall_ms = kNow;
    host.set("commitlog_file", static_cast<std::int64_t>(kFile));
    host.set("queue_file_bytes", 20 * 13);
    host.set("index_slots", 10);
    host.set("index_items", 14);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    for (int i = 0; i < 13 * files; ++i) {
      Message m;
      m.properties = properties_of({{"KEYS", "k" + std::to_string(i)}});
      m.body = std::string(300 - 91 - m.topic.size() - m.properties.size(), 'b');
      REQUIRE(store.append(m).bytes == 300);
    }
    CHECK(host.wait([&] { return store.log().dispatched == store.log().end; }));
  }
  /// All log files as if written `hours` ago.
  void age(std::int64_t hours) {
    const std::int64_t at = kNow / 1000 - hours * 3600;
    const timespec times[2] = {{at, 0}, {at, 0}};
    for (const auto& e : fs::directory_iterator(root.path() / "commitlog")) {
      REQUIRE(::utimensat(AT_FDCWD, e.path().c_str(), times, 0) == 0);
    }
  }
  tenon_retention_result clean(std::uint32_t flags) {
    tenon_retention p{};
    p.size = sizeof p;
    p.flags = flags;
    p.now_ms = kNow;
    p.keep_ms = 72 * kHour;
    p.max_files = 10;
    p.disk_clean_pct = clean_pct;
    p.disk_force_pct = force_pct;
    p.disk_full_pct = full_pct;
    tenon_retention_result r{};
    r.size = sizeof r;
    CHECK(store.table().retention(store.self(), &p, &r, nullptr) == TENON_OK);
    return r;
  }
  std::size_t count(std::string_view folder) const {
    std::size_t n = 0;
    for (const auto& e : fs::directory_iterator(root.path() / folder)) {
      n += e.is_regular_file() ? 1 : 0;
    }
    return n;
  }

  std::uint32_t clean_pct = 75, force_pct = 85, full_pct = 90;
  TempFolder root{};
  FakeHost host{root.path()};
  StoreInstance store{tenon_entry_store_file, "tenon.store.file", host};
};

}  // namespace

TEST_SUITE("store_file/retention") {
  TEST_CASE("expired files go in the hour of deletion and not before") {
    const ProbedDisk disk;
    Full f;
    f.age(73);
    CHECK(f.clean(0).files == 0);
    CHECK(f.store.log().min_phys == 0);
    const auto r = f.clean(TENON_RETENTION_DELETE_HOUR);
    CHECK(r.files == 5);  // never the last, where the next message goes
    CHECK(r.bytes == 5 * kFile);
    CHECK(r.min_phys == 5 * kFile);
    CHECK(f.store.log().min_phys == 5 * kFile);
  }

  TEST_CASE("a file is kept to the millisecond of its age") {
    const ProbedDisk disk;
    Full f;
    f.age(72);
    CHECK(f.clean(TENON_RETENTION_DELETE_HOUR).files > 0);
    Full g;
    g.age(71);
    CHECK(g.clean(TENON_RETENTION_DELETE_HOUR).files == 0);
    CHECK(g.clean(TENON_RETENTION_MANUAL).files == 0);
  }

  TEST_CASE("the manual trigger deletes expired files at any hour") {
    const ProbedDisk disk;
    Full f;
    f.age(100);
    CHECK(f.clean(TENON_RETENTION_MANUAL).files == 5);
  }

  // store §26.26: > 75 %: expired files deleted at any hour; > 85 %: the oldest regardless of age;
  // > 90 %: puts are refused, dispatch continues. All strict.
  TEST_CASE("the three levels of disk use, each from just above its limit on") {
    const ProbedDisk disk;
    SUBCASE("75: expired files go at any hour, others stay") {
      Full f;
      f.age(73);
      g_used_x100 = 7500;
      CHECK(f.clean(0).files == 0);
      g_used_x100 = 7501;
      CHECK(f.clean(0).files == 5);
      Full young;
      young.age(1);
      CHECK(young.clean(0).files == 0);
    }
    SUBCASE("85: the oldest go whatever their age") {
      Full f;
      f.age(0);
      g_used_x100 = 8500;
      CHECK(f.clean(0).files == 0);
      g_used_x100 = 8501;
      CHECK(f.clean(0).files == 5);
      CHECK((f.store.log().health & TENON_HEALTH_DISK_FULL) == 0);
    }
    SUBCASE("85 with forced cleaning switched off") {
      Full f;
      f.age(0);
      f.force_pct = 0;
      g_used_x100 = 9500;
      CHECK(f.clean(0).files == 0);
    }
    SUBCASE("a file system that does not answer counts as full") {
      Full f;
      f.age(0);
      g_used_x100 = -1;
      const auto r = f.clean(0);
      CHECK(r.files == 5);
      CHECK(r.disk_pct_x100 == 10'000);
    }
  }

  TEST_CASE(
      "above 90 % messages are refused, dispatch goes on, and all is well when space is back") {
    const ProbedDisk disk;
    Full f(1);
    Message m;
    m.body = "hello";
    g_used_x100 = 9000;
    f.clean(0);
    CHECK(f.store.append(m).status == TENON_OK);
    g_used_x100 = 9001;
    const auto r = f.clean(0);
    CHECK((r.health & TENON_HEALTH_DISK_FULL) != 0);
    const std::uint64_t end = f.store.log().end;
    CHECK(f.store.append(m).status == TENON_FULL);
    CHECK(f.store.log().end == end);
    CHECK(f.store.log().dispatched == end);
    CHECK(f.store.fetch(0, 300).size() == 300);  // reading goes on
    CHECK(f.host.log_text().find("disk is full") != std::string::npos);
    f.clean(0);  // the state does not flicker
    CHECK(f.store.append(m).status == TENON_FULL);
    g_used_x100 = 9000;
    CHECK((f.clean(0).health & TENON_HEALTH_DISK_FULL) == 0);
    CHECK(f.store.append(m).status == TENON_OK);
    CHECK(f.host.log_text().find("disk has room") != std::string::npos);
  }

  // store §26.27: CQ min offset moves, fully expired CQ files except the last vanish, index files below
  // min vanish except the last.
  TEST_CASE("consume queues and key index follow the log") {
    const ProbedDisk disk;
    Full f(6);
    CHECK(f.count("consumequeue/TopicTest/0") == 6);
    CHECK(f.store.query("TopicTest", "k77").size() == 1);  // the index has everything by now
    CHECK(f.count("index") == 6);
    f.age(73);
    CHECK(f.clean(TENON_RETENTION_MANUAL).files == 5);
    CHECK(f.store.bounds("TopicTest", 0).min == 65);
    CHECK(f.store.bounds("TopicTest", 0).max == 78);
    CHECK(f.count("commitlog") <= 2);  // the next file may be made already
    CHECK(f.count("consumequeue/TopicTest/0") <= 2);
    CHECK(!fs::exists(f.root.path() / "consumequeue/TopicTest/0/00000000000000001040"));
    CHECK(fs::exists(f.root.path() / "consumequeue/TopicTest/0/00000000000000001300"));
    CHECK(f.count("index") == 1);
    CHECK(f.store.query("TopicTest", "k3").empty());
    CHECK(f.store.query("TopicTest", "k77").size() == 1);
    CHECK(f.store.entries("TopicTest", 0, 65).size() == 13);
  }

  TEST_CASE("a round deletes at most what it is allowed to") {
    const ProbedDisk disk;
    Full f(14);
    f.age(73);
    CHECK(f.clean(TENON_RETENTION_MANUAL).files == 10);
    CHECK(f.clean(TENON_RETENTION_MANUAL).files == 3);
    CHECK(f.clean(TENON_RETENTION_MANUAL).files == 0);
  }

  TEST_CASE("a floor keeps what follows it, also when the disk is full") {
    const ProbedDisk disk;
    Full f;
    g_used_x100 = 9900;
    f.store.table().set_floor(f.store.self(), 2 * kFile + 1);
    CHECK(f.clean(0).files == 2);
    CHECK(f.store.log().min_phys == 2 * kFile);
    f.store.table().set_floor(f.store.self(), TENON_NO_LIMIT);
    CHECK(f.clean(0).files == 3);
  }

  // RocketMQ keeps a held file as "hanging" and unmaps it under its readers in the end
  // (redeleteHangedFileInterval, destroyMapedFileIntervalForcibly). Here the name goes at once.
  TEST_CASE("a file that a view holds loses its name; the view stays good until its release") {
    const ProbedDisk disk;
    Full f;
    f.age(73);
    const tenon_extent e{0, 300, 0};
    tenon_view view{};
    tenon_hold hold{};
    f.store.table().fetch(f.store.self(), &e, 1, 0, &view, sizeof view, nullptr, &hold, nullptr);
    REQUIRE(view.ptr != nullptr);
    CHECK(f.clean(TENON_RETENTION_MANUAL).files == 5);
    CHECK(!fs::exists(f.root.path() / "commitlog/00000000000000000000"));
    CHECK(f.store.fetch(0, 300).empty());  // for nobody new
    CHECK(f.store.log().min_phys == 5 * kFile);
    CHECK(load_be<std::uint32_t>(view.ptr) == 300);
    std::vector<std::uint8_t> byte(4);
    CHECK(::pread(view.fd, byte.data(), 4, static_cast<off_t>(view.file_offset)) == 4);
    CHECK(load_be<std::uint32_t>(byte.data()) == 300);
    f.clean(0);
    CHECK(load_be<std::uint32_t>(view.ptr + 296) != 0);
    hold.release(hold.owner, hold.id);
    f.clean(0);
    f.store.stop();
    CHECK_MESSAGE(f.store.start() == TENON_OK, f.store.error());
    CHECK(f.store.log().min_phys == 5 * kFile);
  }

  TEST_CASE("a name that the system does not let go of is tried again and leaves no hole") {
    const ProbedDisk disk;
    Full f;
    f.age(73);
    g_unlink_fails = true;
    CHECK(f.clean(TENON_RETENTION_MANUAL).files == 0);
    CHECK(f.host.log_text().find("cannot be deleted") != std::string::npos);
    g_unlink_fails = false;
    CHECK(f.clean(TENON_RETENTION_MANUAL).files == 5);
    CHECK(f.store.log().min_phys == 5 * kFile);
    f.store.stop();
    CHECK_MESSAGE(f.store.start() == TENON_OK, f.store.error());
  }
}

}  // namespace tenon::test
