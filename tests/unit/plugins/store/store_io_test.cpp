// Every system call of the file store fails once: nothing is acknowledged that is not there, what can
// be tried again is, and what cannot stops the store (spec: store §2.1, §9).
#include "../../../support/fault_disk.h"
#include "../../../support/store_harness.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
using Call = FaultDisk::Call;

struct Broken {
  Broken() {
    host.set("commitlog_file", 8192);
    host.set("queue_flush_interval", std::string("10ms"));
    host.set("queue_flush_least_pages", 0);
    host.set("queue_flush_thorough", std::string("10ms"));
    host.set("index_slots", 10);
    host.set("index_items", 20);
  }
  Message message(std::uint32_t queue = 0, std::size_t bytes = 1000) {
    Message m;
    m.queue_id = queue;
    m.properties = properties_of({{"KEYS", "k" + std::to_string(++count)}});
    m.body = std::string(bytes - 91 - m.topic.size() - m.properties.size(), 'b');
    return m;
  }
  FaultDisk disk{};
  TempFolder root{};
  FakeHost host{root.path()};
  StoreInstance store{tenon_entry_store_file, "tenon.store.file", host};
  int count = 0;
};

/// Not every change is an event of the host.
template <class Ready>
bool wait_until(Ready&& ready) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > give_up) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

/// Appends until the log needs its next file.
tenon_append_result fill_file(Broken& b) {
  tenon_append_result r{};
  do {
    r = b.store.append(b.message());
  } while (r.status == TENON_OK && r.phys + r.bytes < 20 * 8192);
  return r;
}

}  // namespace

TEST_SUITE("store_file/io") {
  TEST_CASE("the disk fails in a sync of the log: no acknowledgement, the gate is shut for good") {
    Broken b;
    b.host.set("flush", std::string("sync"));
    REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
    b.store.append(b.message());
    REQUIRE(b.store.table().flush_now(b.store.self(), 1000, 10'000, nullptr) == TENON_OK);
    for (const int error : {EIO, ENOSPC}) {
      CAPTURE(error);
      b.disk.fail(Call::kMsync, error, "commitlog");
    }
    const auto r = b.store.append(b.message());
    CHECK(b.store.table().flush_now(b.store.self(), r.phys + r.bytes, 10'000, nullptr) == TENON_IO);
    CHECK(wait_until([&] { return b.host.faulted() == TENON_IO; }));
    b.disk.heal();
    CHECK(b.store.append(b.message()).status == TENON_IO);
    CHECK(b.store.table().flush_now(b.store.self(), r.phys + r.bytes, 10, nullptr) == TENON_IO);
    CHECK(b.store.log().durable == 1000);
    CHECK((b.store.log().health & TENON_HEALTH_NOT_WRITABLE) != 0);
  }

  TEST_CASE("the disk fails in the background flush: the host is told without anybody waiting") {
    Broken b;
    b.host.set("flush_interval", std::string("5ms"));
    b.host.set("flush_least_pages", 0);
    REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
    b.disk.fail(Call::kMsync, EIO, "commitlog");
    b.store.append(b.message());
    CHECK(wait_until([&] { return b.host.faulted() == TENON_IO; }));
    CHECK(b.store.append(b.message()).status == TENON_IO);
  }

  TEST_CASE("the disk fails in a flush of a consume queue: the same") {
    Broken b;
    REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
    b.disk.fail(Call::kMsync, EIO, "consumequeue");
    b.store.append(b.message());
    CHECK(wait_until([&] { return b.host.faulted() == TENON_IO; }));
    CHECK(b.store.append(b.message()).status == TENON_IO);
    b.store.stop();
    CHECK(fs::exists(b.root.path() / "abort"));  // the next start looks closely
  }

  TEST_CASE("the disk fails in the last sync of a stop: the next start recovers") {
    Broken b;
    REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
    b.store.append(b.message());
    b.disk.fail(Call::kMsync, EIO, "commitlog");
    b.store.stop();
    CHECK(fs::exists(b.root.path() / "abort"));
    b.disk.heal();
    REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
    CHECK(b.store.recovered().was_abnormal == 1);
    CHECK(b.store.bounds("TopicTest", 0).max == 1);
  }

  TEST_CASE("the next log file cannot be made: refused, nothing moved, good again afterwards") {
    struct Case {
      Call call;
      int error;
      tenon_status status;
    };
    const Case cases[] = {{Call::kOpen, EMFILE, TENON_IO},
                          {Call::kOpen, EIO, TENON_IO},
                          {Call::kFtruncate, ENOSPC, TENON_FULL},
                          {Call::kFtruncate, EIO, TENON_IO},
                          {Call::kMmap, ENOMEM, TENON_IO},
                          {Call::kPopulate, EFAULT, TENON_FULL},
                          {Call::kPopulate, ENOSPC, TENON_FULL},
                          {Call::kPopulate, EIO, TENON_IO}};
    for (const Case& c : cases) {
      CAPTURE(static_cast<int>(c.call));
      CAPTURE(c.error);
      Broken b;
      REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
      REQUIRE(b.store.append(b.message()).status == TENON_OK);
      b.disk.fail(c.call, c.error, "commitlog");
      const auto refused = fill_file(b);
      CHECK(refused.status == c.status);
      const auto before = b.store.log();
      CHECK(b.store.append(b.message()).status == c.status);
      CHECK(b.store.log().end == before.end);
      CHECK(b.host.faulted() == TENON_OK);  // nothing is lost: no reason to end
      const std::int64_t max = b.store.bounds("TopicTest", 0).max;
      CHECK(b.store.entries("TopicTest", 0, 0).size() == static_cast<std::size_t>(max));
      b.disk.heal();
      const auto r = b.store.append(b.message());
      CHECK(r.status == TENON_OK);
      CHECK(r.queue_offset == max);  // the refused ones left no gap
      CHECK(b.store.log().end > before.end);
      b.store.stop();
      REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
      CHECK(b.store.bounds("TopicTest", 0).max == max + 1);
    }
  }

  TEST_CASE("a queue file cannot be made: the message is kept and found when it can") {
    struct Case {
      Call call;
      int error;
    };
    for (const Case& c : {Case{Call::kOpen, EMFILE},
                          Case{Call::kFtruncate, ENOSPC},
                          Case{Call::kMmap, ENOMEM},
                          Case{Call::kPopulate, EFAULT}}) {
      CAPTURE(static_cast<int>(c.call));
      Broken b;
      REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
      REQUIRE(b.store.append(b.message()).status == TENON_OK);
      b.disk.fail(c.call, c.error, "consumequeue/TopicTest/5");
      CHECK(b.store.append(b.message(5)).status == TENON_OK);
      CHECK(wait_until([&] {
        return (b.store.log().health & TENON_HEALTH_NOT_WRITABLE) != 0 || b.disk.failures() > 1;
      }));
      CHECK(b.store.bounds("TopicTest", 5).max == 0);
      b.disk.heal();
      CHECK(wait_until([&] { return b.store.bounds("TopicTest", 5).max == 1; }));
      CHECK(b.host.faulted() == TENON_OK);
    }
  }

  TEST_CASE("the key index cannot be written: messages flow, queries answer when it can") {
    struct Case {
      Call call;
      int error;
    };
    for (const Case& c : {Case{Call::kOpen, EIO},
                          Case{Call::kFallocate, ENOSPC},
                          Case{Call::kFtruncate, ENOSPC},
                          Case{Call::kMmap, ENOMEM}}) {
      CAPTURE(static_cast<int>(c.call));
      Broken b;
      REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
      b.disk.fail(c.call, c.error, "/index/");
      CHECK(b.store.append(b.message()).status == TENON_OK);
      CHECK(wait_until([&] { return (b.store.log().health & TENON_HEALTH_INDEX_ERROR) != 0; }));
      CHECK(b.store.append(b.message()).status == TENON_OK);
      b.disk.heal();
      CHECK(wait_until([&] { return (b.store.log().health & TENON_HEALTH_INDEX_ERROR) == 0; }));
      CHECK(b.store.query("TopicTest", "k1").size() == 1);
      CHECK(b.store.query("TopicTest", "k2").size() == 1);
    }
  }

  TEST_CASE("the checkpoint cannot be written, or only half of it: said, and harmless") {
    for (const int error : {EIO, ENOSPC, 0}) {  // 0: a short write
      CAPTURE(error);
      Broken b;
      REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
      b.disk.fail(Call::kPwrite, error, "checkpoint");
      b.store.append(b.message());
      b.store.stop();
      CHECK(b.host.log_text().find("checkpoint cannot be written") != std::string::npos);
      b.disk.heal();
      REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
      CHECK(b.store.bounds("TopicTest", 0).max == 1);
    }
  }

  TEST_CASE(
      "a start on a disk that fails is an error with the name of the file, and changes nothing") {
    Broken b;
    REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
    for (int i = 0; i < 20; ++i) {
      b.store.append(b.message());
    }
    b.store.stop();
    for (const Call call : {Call::kOpen, Call::kMmap}) {
      CAPTURE(static_cast<int>(call));
      b.disk.fail(call, EIO, "commitlog/00000000000000008192");
      CHECK(b.store.start() < 0);
      CHECK(b.store.error().find("00000000000000008192") != std::string::npos);
      b.disk.heal();
    }
    REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
    CHECK(b.store.recovered().was_abnormal == 0);
    CHECK(b.store.bounds("TopicTest", 0).max == 20);
  }

  TEST_CASE("a durable cut that the disk refuses stops the store") {
    Broken b;
    REQUIRE_MESSAGE(b.store.start() == TENON_OK, b.store.error());
    b.store.append(b.message());
    b.store.append(b.message());
    b.disk.fail(Call::kFdatasync, EIO, "commitlog");
    CHECK(b.store.table().truncate(b.store.self(), 1000, TENON_TRUNCATE_ERASE, nullptr) < 0);
    CHECK(b.host.faulted() != TENON_OK);
    CHECK(b.store.append(b.message()).status < 0);
  }
}

}  // namespace tenon::test
