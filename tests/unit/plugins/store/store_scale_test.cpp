// More queues than a process may keep descriptors and mappings for, and than a disk syncs one by one.
#include "../../../support/store_harness.h"
#include "io.h"
#include "queue_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
using store_file::ConsumeQueue;
using store_file::QueueTable;
using store_file::Unit;

constexpr std::uint32_t kQueues = 100;

std::size_t open_descriptors() {
  const fs::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

ConsumeQueue& queue_of(QueueTable& table, std::uint32_t id) {
  tenon_queue handle = 0;
  return *table.find_or_create("TopicTest", id, handle);
}

Unit unit_of(std::int64_t round, std::uint32_t id) {
  return {static_cast<std::uint64_t>(round * kQueues + id) * 100, 100, id};
}

void put_all(QueueTable& table, std::int64_t round) {
  for (std::uint32_t id = 0; id < kQueues; ++id) {
    REQUIRE(queue_of(table, id).put(round, unit_of(round, id), 1).has_value());
  }
}

std::atomic<int> g_msyncs{0};
std::atomic<int> g_syncfs_calls{0};
std::atomic<int> g_syncfs_errno{0};

int counted_msync(void* at, std::size_t bytes, int flags) {
  ++g_msyncs;
  return store_file::system_io().msync(at, bytes, flags);
}
int counted_syncfs(int) {
  ++g_syncfs_calls;
  errno = g_syncfs_errno;
  return g_syncfs_errno == 0 ? 0 : -1;  // the machine's file system has other things to write
}

struct CountedSyncs {
  CountedSyncs() {
    g_msyncs = g_syncfs_calls = g_syncfs_errno = 0;
    store_file::io().msync = counted_msync;
    store_file::io().syncfs = counted_syncfs;
  }
  ~CountedSyncs() { store_file::io() = store_file::system_io(); }
};

}  // namespace

TEST_SUITE("store_file/scale") {
  TEST_CASE("queues keep no descriptor, and mappings that nobody uses go") {
    TempFolder root;
    QueueTable table;
    table.configure(root.path().string(), 4000, 0);
    table.limit_mappings(20);
    const std::size_t before = open_descriptors();
    put_all(table, 0);
    CHECK(open_descriptors() == before);
    CHECK(table.mappings() == kQueues);
    CHECK(table.has_many_mappings());
    table.unmap_some(kQueues);  // all were used lately: only the second look finds them unused
    CHECK(table.mappings() == kQueues);
    table.unmap_some(kQueues);
    CHECK(table.mappings() == 15);
    CHECK_FALSE(table.has_many_mappings());

    put_all(table, 1);
    for (std::uint32_t id = 0; id < kQueues; ++id) {
      Unit units[2];
      REQUIRE(queue_of(table, id).read(0, units, 2) == 2);
      CHECK(units[0].phys == unit_of(0, id).phys);
      CHECK(units[1].phys == unit_of(1, id).phys);
    }
  }

  TEST_CASE("a file that a reader holds stays mapped") {
    TempFolder root;
    QueueTable table;
    table.configure(root.path().string(), 4000, 0);
    table.limit_mappings(1);
    put_all(table, 0);
    const std::uint8_t* at = nullptr;
    const store_file::FilePin pin = queue_of(table, 7).pin_unit(0, at);
    table.unmap_some(2 * kQueues + 1);
    CHECK(table.mappings() == 1);
    CHECK(store_file::load_unit(at).phys == unit_of(0, 7).phys);
  }

  TEST_CASE("what was not written yet is still written after its mapping went") {
    const CountedSyncs syncs;
    TempFolder root;
    QueueTable table;
    table.configure(root.path().string(), 4000, 0);
    table.limit_mappings(0);
    put_all(table, 0);
    table.unmap_some(2 * kQueues);
    CHECK(table.mappings() == 0);
    CHECK(queue_of(table, 3).flush(0).value());
    CHECK(g_msyncs == 1);
    CHECK_FALSE(queue_of(table, 3).flush(0).value());
  }

  TEST_CASE("a cut between the sync of many queues and its mark takes the mark back") {
    TempFolder root;
    QueueTable table;
    table.configure(root.path().string(), 4000, 0);
    put_all(table, 0);
    put_all(table, 1);
    ConsumeQueue& queue = queue_of(table, 0);
    const auto written = queue.unflushed(0);
    REQUIRE(queue.cut_units(1).has_value());
    REQUIRE(queue.put(1, {99'999, 100, 5}, 1).has_value());
    queue.mark_flushed(written);
    CHECK(queue.unflushed(0).end == 40);
    queue.mark_flushed(queue.unflushed(0));
    CHECK(queue.unflushed(0).end == 0);
  }

  TEST_CASE("a start after a clean stop reads the last file, if no queue lost an entry since") {
    constexpr int kMessages = 42;  // 8 in a file
    TempFolder root;
    FakeHost host(root.path());
    host.set("commitlog_file", 8192);
    const auto open_and_stop = [&](int append) {
      StoreInstance store(tenon_entry_store_file, "tenon.store.file", host);
      REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
      for (int i = 0; i < append; ++i) {
        Message m;
        m.body = std::string(900, 'x');
        REQUIRE(store.append(m).status == TENON_OK);
      }
      CHECK(store.bounds("TopicTest", 0).max == kMessages);
      store.stop();
      const std::string log = host.log_text();
      return std::stoi(log.substr(log.rfind("scanned_records=") + 16));
    };
    CHECK(open_and_stop(kMessages) == 0);
    CHECK(open_and_stop(0) == kMessages % 8);
    int expected = 2 * 8 + kMessages % 8;
    SUBCASE("its queue is gone") {
      fs::remove_all(root / "consumequeue");
      expected = kMessages;
    }
    SUBCASE("somebody else wrote the checkpoint") {
      std::fstream file(root / "checkpoint", std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(4056);
      file << std::string(8, '\0');
    }
    CHECK(open_and_stop(0) == expected);
    CHECK(open_and_stop(0) == kMessages % 8);
  }

  TEST_CASE("very many queues are written by one sync of the file system at a stop") {
    const CountedSyncs syncs;
    SUBCASE("which works") {}
    SUBCASE("which fails: one by one then") {
      g_syncfs_errno = EIO;
    }
    TempFolder root;
    FakeHost host(root.path());
    {
      StoreInstance store(tenon_entry_store_file, "tenon.store.file", host);
      REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
      for (std::uint32_t id = 0; id < kQueues; ++id) {
        Message m;
        m.queue_id = id;
        REQUIRE(store.append(m).status == TENON_OK);
      }
      const int before = g_msyncs;
      store.stop();
      CHECK(g_syncfs_calls == 1);
      CHECK((g_msyncs - before >= static_cast<int>(kQueues)) == (g_syncfs_errno != 0));
    }
    CHECK_FALSE(fs::exists(root / "abort"));
    StoreInstance again(tenon_entry_store_file, "tenon.store.file", host);
    REQUIRE_MESSAGE(again.start() == TENON_OK, again.error());
    CHECK(again.recovered().queues == kQueues);
    CHECK(again.bounds("TopicTest", kQueues - 1).max == 1);
  }
}

}  // namespace tenon::test
