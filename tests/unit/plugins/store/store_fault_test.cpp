// What disks, other processes and foreign files do to tenon.store.file.
#include "../../../../plugins/store_file/src/io.h"
#include "../../../support/seed.h"
#include "../../../support/store_harness.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
constexpr const char* kId = "tenon.store.file";

std::atomic<int> g_msync_errno{0};
std::atomic<int> g_msync_calls{0};
std::atomic<int> g_populate_errno{0};
std::atomic<int> g_ftruncate_errno{0};

int failing_msync(void* at, std::size_t bytes, int flags) {
  ++g_msync_calls;
  if (g_msync_errno != 0) {
    errno = g_msync_errno;
    return -1;
  }
  return store_file::system_io().msync(at, bytes, flags);
}
int failing_populate(void* at, std::size_t bytes) {
  if (g_populate_errno != 0) {
    errno = g_populate_errno;
    return -1;
  }
  return store_file::system_io().populate(at, bytes);
}
int failing_ftruncate(int fd, off_t bytes) {
  if (g_ftruncate_errno != 0) {
    errno = g_ftruncate_errno;
    return -1;
  }
  return store_file::system_io().ftruncate(fd, bytes);
}

/// Routes the calls through the functions above for the length of a test.
struct FaultyDisk {
  FaultyDisk() {
    g_msync_errno = g_populate_errno = g_ftruncate_errno = g_msync_calls = 0;
    store_file::io().msync = failing_msync;
    store_file::io().populate = failing_populate;
    store_file::io().ftruncate = failing_ftruncate;
  }
  ~FaultyDisk() { store_file::io() = store_file::system_io(); }
};

Message sized(std::size_t bytes) {
  Message m;
  m.body = std::string(bytes - 91 - m.topic.size(), 'b');
  return m;
}

/// Names, sizes and times of everything below a folder.
std::map<std::string, std::pair<std::uintmax_t, fs::file_time_type>> snapshot(const fs::path& at) {
  std::map<std::string, std::pair<std::uintmax_t, fs::file_time_type>> all;
  for (const auto& e : fs::recursive_directory_iterator(at)) {
    all[e.path().string()] = {e.is_regular_file() ? e.file_size() : 0, e.last_write_time()};
  }
  return all;
}

/// Runs f in a child process; its exit code, or -signal.
template <class F>
int in_child(F&& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(f());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

TEST_SUITE("store_file/faults") {
  TEST_CASE("a failed sync stops the store: fault, no durable position, no further appends") {
    const FaultyDisk disk;
    TempFolder root;
    FakeHost host(root.path());
    StoreInstance store(tenon_entry_store_file, kId, host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    store.append(sized(500));
    REQUIRE(store.table().flush_now(store.self(), 500, 10'000, nullptr) == TENON_OK);
    CHECK(store.log().durable == 500);
    g_msync_errno = EIO;
    store.append(sized(500));
    CHECK(store.table().flush_now(store.self(), 1000, 10'000, nullptr) == TENON_IO);
    CHECK(host.faulted() == TENON_IO);
    CHECK(store.log().durable == 500);
    CHECK((store.log().health & TENON_HEALTH_NOT_WRITABLE) != 0);
    CHECK(store.append(sized(500)).status == TENON_IO);
    g_msync_errno = 0;
    CHECK(store.append(sized(500)).status == TENON_IO);  // a lost page does not come back
    store.stop();
    CHECK(fs::exists(root.path() / "abort"));
  }

  TEST_CASE("a full disk refuses appends, moves nothing and lets them in again") {
    const FaultyDisk disk;
    TempFolder root;
    FakeHost host(root.path());
    host.set("commitlog_file", 65536);
    StoreInstance store(tenon_entry_store_file, kId, host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    REQUIRE(store.append(sized(1000)).status == TENON_OK);
    g_populate_errno = EFAULT;  // what the kernel says for a mapping without a block
    std::uint64_t end = 0;
    tenon_append_result r{};
    do {  // what was reserved before may still be filled
      end = store.log().end;
      r = store.append(sized(30'000));
    } while (r.status == TENON_OK);
    CHECK(r.status == TENON_FULL);
    CHECK(store.log().end == end);
    CHECK((store.log().health & TENON_HEALTH_DISK_FULL) != 0);
    const auto many = store.append(std::vector<Message>{sized(30'000), sized(30'000)});
    CHECK(many[1].status == TENON_FULL);
    g_populate_errno = 0;
    CHECK(store.append(sized(30'000)).status == TENON_OK);
    CHECK((store.log().health & TENON_HEALTH_DISK_FULL) == 0);
  }

  TEST_CASE("a queue file that cannot be made is made later; the message is not lost") {
    const FaultyDisk disk;
    TempFolder root;
    FakeHost host(root.path());
    StoreInstance store(tenon_entry_store_file, kId, host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    REQUIRE(store.append(sized(200)).status == TENON_OK);
    g_ftruncate_errno = ENOSPC;
    Message m = sized(200);
    m.queue_id = 5;
    CHECK(store.append(m).status == TENON_OK);
    CHECK(host.log_text().find("consume queue cannot be written") != std::string::npos);
    CHECK(store.bounds("TopicTest", 5).max == 0);
    g_ftruncate_errno = 0;
    CHECK(host.wait([&] { return store.log().dispatched == 400; }));
    CHECK(store.bounds("TopicTest", 5).max == 1);
    CHECK(store.bounds("TopicTest", 0).max == 1);
  }

  // store §26.28
  TEST_CASE("waiting senders share a flush") {
    const FaultyDisk disk;
    TempFolder root;
    FakeHost host(root.path());
    host.set("flush", std::string("sync"));
    StoreInstance store(tenon_entry_store_file, kId, host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    constexpr int kThreads = 8;
    constexpr int kEach = 25;
    std::mutex sequence;
    std::atomic<int> failures{0};
    std::vector<std::thread> senders;
    const int before = g_msync_calls;
    for (int t = 0; t < kThreads; ++t) {
      senders.emplace_back([&] {
        for (int i = 0; i < kEach; ++i) {
          std::uint64_t end = 0;
          {
            const std::scoped_lock lock(sequence);
            Message m = sized(300);
            m.flags = TENON_RECORD_WANT_DURABLE;
            const auto r = store.append(m);
            end = r.phys + r.bytes;
          }
          if (store.table().flush_now(store.self(), end, 30'000, nullptr) != TENON_OK ||
              store.log().durable < end) {
            ++failures;
          }
        }
      });
    }
    for (auto& t : senders) {
      t.join();
    }
    CHECK(failures == 0);
    CHECK(g_msync_calls - before < kThreads * kEach);
  }

  // store §26.29
  TEST_CASE("a folder in use is refused, in this process and in another") {
    TempFolder root;
    FakeHost host(root.path());
    StoreInstance store(tenon_entry_store_file, kId, host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    {
      FakeHost other(root.path());
      StoreInstance second(tenon_entry_store_file, kId, other);
      CHECK(second.start() == TENON_CONFLICT);
      CHECK(second.error().find("in use") != std::string::npos);
      CHECK(second.error().find(root.path().string()) != std::string::npos);
    }
    CHECK(store.append(sized(200)).status == TENON_OK);
    store.stop();
    // The lock is the one that Java takes: a record lock, seen by another process.
    int ready[2];
    int done[2];
    REQUIRE(::pipe(ready) == 0);
    REQUIRE(::pipe(done) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const int fd = ::open((root.path() / "lock").c_str(), O_RDWR);
      struct flock range {};
      range.l_type = F_WRLCK;
      range.l_whence = SEEK_SET;
      range.l_len = 1;
      char c = ::fcntl(fd, F_SETLK, &range) == 0 ? 'y' : 'n';
      const bool told = ::write(ready[1], &c, 1) == 1 && ::read(done[0], &c, 1) == 1;
      ::_exit(told ? 0 : 1);
    }
    char c = 0;
    REQUIRE(::read(ready[0], &c, 1) == 1);
    CHECK(c == 'y');
    CHECK(store.start() == TENON_CONFLICT);
    CHECK(::write(done[1], &c, 1) == 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK_MESSAGE(store.start() == TENON_OK, store.error());
    for (const int fd : {ready[0], ready[1], done[0], done[1]}) {
      ::close(fd);
    }
  }

  TEST_CASE("foreign and damaged files are named and nothing is changed") {
    TempFolder root;
    FakeHost host(root.path());
    host.set("commitlog_file", 4096);
    {
      StoreInstance store(tenon_entry_store_file, kId, host);
      REQUIRE(store.start() == TENON_OK);
      for (int i = 0; i < 30; ++i) {
        Message m = sized(400);
        m.properties = properties_of({{"KEYS", "k"}});
        store.append(m);
      }
    }
    std::string culprit;
    SUBCASE("foreign name in the log") {
      culprit = "commitlog/notes.txt";
    }
    SUBCASE("foreign name in a queue") {
      culprit = "consumequeue/TopicTest/0/copy of 0";
    }
    SUBCASE("short log file") {
      culprit = "commitlog/00000000000000004096";
    }
    SUBCASE("short queue file") {
      culprit = "consumequeue/TopicTest/0/00000000000006000000";
    }
    SUBCASE("hole in the log") {
      culprit = "commitlog/00000000000000409600";
    }
    {
      std::ofstream file(root.path() / culprit, std::ios::binary | std::ios::trunc);
      file << std::string(culprit.ends_with("409600") ? 4096 : 100, 'x');
    }
    const auto before = snapshot(root.path());
    StoreInstance store(tenon_entry_store_file, kId, host);
    CHECK(store.start() == TENON_CORRUPT);
    CAPTURE(store.error());
    CHECK(store.error().find(culprit) != std::string::npos);
    CHECK(store.error().find("move it out") != std::string::npos);
    CHECK(snapshot(root.path()) == before);
  }

  TEST_CASE("a DLedger folder is refused, not opened as empty") {
    TempFolder root;
    fs::create_directories(root.path() / "dledger-n0/data");
    std::ofstream(root.path() / "dledger-n0/data/00000000000000000000") << "x";
    FakeHost host(root.path());
    StoreInstance store(tenon_entry_store_file, kId, host);
    CHECK(store.start() == TENON_INCOMPATIBLE);
    CHECK(store.error().find("dledger-n0") != std::string::npos);
    CHECK(!fs::exists(root.path() / "lock"));
  }

  TEST_CASE("a folder that may not be written is an error that says so") {
    TempFolder root;
    fs::permissions(root.path(),
                    fs::perms::owner_read | fs::perms::owner_exec | fs::perms::group_read |
                        fs::perms::group_exec | fs::perms::others_read | fs::perms::others_exec);
    const int code = in_child([&] {
      if (::geteuid() == 0 && ::setuid(65534) != 0) {  // root may write everywhere
        return 2;
      }
      FakeHost host(root.path());
      StoreInstance store(tenon_entry_store_file, kId, host);
      const bool refused =
          store.start() == TENON_DENIED && store.error().find("not writable") != std::string::npos;
      std::fprintf(stderr, "%s", refused ? "" : (store.error() + "\n").c_str());
      return refused ? 0 : 1;
    });
    fs::permissions(root.path(), fs::perms::owner_all);
    CHECK(code == 0);
  }

  // store §26.14
  TEST_CASE("killed twenty times under load: what was acknowledged is there, once, in order") {
    constexpr int kQueues = 4;
    struct Shared {
      std::atomic<std::int64_t> acknowledged[kQueues];
      std::atomic<std::int64_t> total;
    };
    void* memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    auto* shared = new (memory) Shared{};
    TempFolder root;
    std::mt19937 random(seed_of_run());
    const auto configure = [](FakeHost& host) {
      host.set("commitlog_file", 1 << 20);
      host.set("queue_file_bytes", 20'000);
      host.set("index_slots", 1000);
      host.set("index_items", 4000);
      host.record_arrivals = false;
    };
    for (int kill = 0; kill < 20; ++kill) {
      shared->total = 0;
      const pid_t child = ::fork();
      if (child == 0) {
        FakeHost host(root.path());
        configure(host);
        auto* store = new StoreInstance(tenon_entry_store_file, kId, host);
        if (store->start() < 0) {
          ::_exit(1);
        }
        std::vector<Message> batch(8);
        for (std::uint32_t i = 0;; ++i) {
          for (std::size_t k = 0; k < batch.size(); ++k) {
            batch[k].queue_id = (i + static_cast<std::uint32_t>(k)) % kQueues;
            batch[k].body = "message " + std::to_string(i) + std::string(i % 700, 'x');
            batch[k].properties = properties_of({{"KEYS", "key"}});
          }
          for (const auto& r : store->append(batch)) {
            if (r.status != TENON_OK) {
              ::_exit(2);
            }
          }
          for (std::uint32_t q = 0; q < kQueues; ++q) {
            shared->acknowledged[q] = store->bounds("TopicTest", q).max;
          }
          shared->total += 8;
        }
      }
      const auto target = std::uniform_int_distribution<std::int64_t>(1, 4000)(random);
      const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (shared->total < target && std::chrono::steady_clock::now() < give_up) {
        ::sched_yield();
      }
      ::kill(child, SIGKILL);
      int status = 0;
      ::waitpid(child, &status, 0);
      REQUIRE(WIFSIGNALED(status));

      if (kill % 2 == 0) {
        continue;  // the next child recovers by itself, and is killed in its turn
      }
      FakeHost host(root.path());
      configure(host);
      StoreInstance store(tenon_entry_store_file, kId, host);
      REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
      CHECK(store.recovered().was_abnormal == 1);
      for (std::uint32_t q = 0; q < kQueues; ++q) {
        const auto entries = store.entries("TopicTest", q, 0);
        CHECK(static_cast<std::int64_t>(entries.size()) >= shared->acknowledged[q]);
        CHECK(store.bounds("TopicTest", q).max == static_cast<std::int64_t>(entries.size()));
        std::uint64_t last = 0;
        bool good = true;
        for (const Entry& e : entries) {
          const std::string record = store.fetch(e.phys, e.bytes);
          const auto m = proto::decode_message(as_bytes(record));
          good = good && m && m.value().queue_offset == e.offset &&
                 (e.offset == 0 || e.phys > last) && m.value().queue_id == static_cast<int>(q) &&
                 as_text(m.value().body).starts_with("message ");
          last = e.phys;
        }
        CHECK(good);
      }
    }
    ::munmap(memory, sizeof(Shared));
  }
}

}  // namespace tenon::test
