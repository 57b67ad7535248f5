// What a crash, a power cut and missing files leave, and what comes of it: every good record, nothing
// twice, and nothing that was cut comes back later (spec: store §13, §25, §26).
#include "../../../support/seed.h"
#include "../../../support/store_harness.h"
#include "store_audit.h"

#include "tenon/proto/message.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
constexpr std::uint32_t kQueues = 3;
constexpr std::size_t kRecord = 400;
constexpr std::uint64_t kFile = 8192;
constexpr std::uint64_t kPerFile = 20;  ///< records: 20 * 400 + 8 <= 8192
constexpr int kCount = 50;              ///< ten in the last file

void configure(FakeHost& host) {
  host.set("commitlog_file", static_cast<std::int64_t>(kFile));
  host.set("queue_file_bytes", 200);
  host.set("index_slots", 20);
  host.set("index_items", 16);
}

Message numbered(int i) {
  Message m;
  m.queue_id = static_cast<std::uint32_t>(i) % kQueues;
  m.properties = properties_of({{"KEYS", "k" + std::to_string(i)}});
  m.body = "m" + std::to_string(i) + " ";
  m.body.resize(kRecord - 91 - m.topic.size() - m.properties.size(), 'x');
  return m;
}

int number_of(const std::string& body) {
  return std::atoi(body.c_str() + 1);
}

std::vector<int> numbers_of(const Audit& audit) {
  std::vector<int> all;
  for (const Audited& m : audit.messages) {
    all.push_back(number_of(m.body));
  }
  return all;
}

std::vector<int> up_to(int end) {
  std::vector<int> all;
  for (int i = 0; i < end; ++i) {
    all.push_back(i);
  }
  return all;
}

std::uint64_t phys_of(int i) {
  const auto n = static_cast<std::uint64_t>(i);
  return n / kPerFile * kFile + n % kPerFile * kRecord;
}

/// A folder that is opened, written and damaged in turn.
class Life {
 public:
  Life() { open(); }

  void open() {
    store_.reset();
    host_ = std::make_unique<FakeHost>(folder_->path());
    configure(*host_);
    store_ = std::make_unique<StoreInstance>(tenon_entry_store_file, "tenon.store.file", *host_);
    REQUIRE_MESSAGE(store_->start() == TENON_OK, store_->error());
  }
  void append(int from, int to) {
    for (int i = from; i < to; ++i) {
      REQUIRE(store_->append(numbered(i)).status == TENON_OK);
    }
  }
  /// Leaves what a killed process leaves; the store goes.
  void crash() {
    REQUIRE(store_->query("TopicTest", "k0").size() <= 1);  // waits for the index
    auto image = std::make_unique<TempFolder>();
    fs::copy(folder_->path(), image->path(), fs::copy_options::recursive);
    store_.reset();
    folder_ = std::move(image);
  }
  void stop() { store_.reset(); }
  void check(const std::vector<int>& expected) {
    const Audit audit = audit_store(*store_, "TopicTest", kQueues, true);
    for (const std::string& problem : audit.problems) {
      FAIL_CHECK(problem);
    }
    CHECK(numbers_of(audit) == expected);
  }
  /// The cut must hold: new records of the same length, a second crash, a third start.
  void check_for_good(std::vector<int> expected) {
    check(expected);
    for (const bool clean : {false, true}) {
      const int next = 1000 + static_cast<int>(expected.size());
      append(next, next + 1);
      expected.push_back(next);
      clean ? stop() : crash();
      open();
      check(expected);
    }
  }
  fs::path path(std::string_view name) const { return folder_->path() / name; }
  fs::path log_file(std::uint64_t base) const {
    const std::string digits = std::to_string(base);
    return folder_->path() / "commitlog" / (std::string(20 - digits.size(), '0') + digits);
  }
  void overwrite(std::uint64_t phys, const std::string& bytes) {
    std::fstream file(log_file(phys / kFile * kFile),
                      std::ios::in | std::ios::out | std::ios::binary);
    REQUIRE(file.good());
    file.seekp(static_cast<std::streamoff>(phys % kFile));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  void flip(std::uint64_t phys, int bit) {
    std::fstream file(log_file(phys / kFile * kFile),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(phys % kFile));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(phys % kFile));
    file.put(static_cast<char>(byte ^ (1 << bit)));
  }
  StoreInstance& store() { return *store_; }
  FakeHost& host() { return *host_; }

 private:
  std::unique_ptr<TempFolder> folder_ = std::make_unique<TempFolder>();
  std::unique_ptr<FakeHost> host_{};
  std::unique_ptr<StoreInstance> store_{};
};

/// A crashed store with kCount messages.
struct Crashed : Life {
  Crashed() {
    append(0, kCount);
    crash();
  }
};

/// Fields without a checksum may change a record; the records before it may not suffer.
void flip_and_check(std::uint64_t phys, int bit, bool keep_queues) {
  CAPTURE(phys);
  CAPTURE(bit);
  CAPTURE(keep_queues);
  Crashed life;
  life.flip(phys, bit);
  if (!keep_queues) {
    fs::remove_all(life.path("consumequeue"));
  }
  life.open();
  const int record = 40 + static_cast<int>((phys - phys_of(40)) / kRecord);
  const auto check_good = [&] {
    const auto found = numbers_of(audit_store(life.store(), "TopicTest", kQueues, false));
    for (int i = 0; i < std::min(record, kCount); ++i) {
      CAPTURE(i);
      REQUIRE(std::count(found.begin(), found.end(), i) == 1);
    }
    return found.size();
  };
  const std::size_t good = check_good();
  REQUIRE(life.store().append(numbered(2000)).status == TENON_OK);
  life.crash();
  life.open();
  CHECK(check_good() == good + 1);
}

}  // namespace

TEST_SUITE("store_file/recovery") {
  TEST_CASE("nothing is damaged: everything is there after a crash") {
    Crashed life;
    life.open();
    CHECK(life.store().recovered().was_abnormal == 1);
    CHECK(life.store().recovered().cut_bytes == 0);
    life.check_for_good(up_to(kCount));
  }

  TEST_CASE("torn tail: half of the last record is cut before it") {
    Crashed life;
    life.overwrite(phys_of(kCount - 1) + kRecord / 2, std::string(kRecord / 2, '\0'));
    life.open();
    CHECK(life.store().recovered().cut_bytes > 0);
    life.check_for_good(up_to(kCount - 1));
  }

  TEST_CASE("torn tail: garbage behind the last record is cut away") {
    Crashed life;
    life.overwrite(phys_of(kCount), std::string(300, '\x7f'));
    life.open();
    life.check_for_good(up_to(kCount));
  }

  TEST_CASE("zeroed tail: the last records are gone, so are their entries and keys") {
    Crashed life;
    life.overwrite(phys_of(kCount - 4), std::string(4 * kRecord, '\0'));
    life.open();
    life.check_for_good(up_to(kCount - 4));
    CHECK(life.store().query("TopicTest", "k" + std::to_string(kCount - 1)).empty());
  }

  TEST_CASE("zeroed in the middle: what follows does not come back with the next append") {
    Crashed life;
    life.overwrite(phys_of(kCount - 6), std::string(kRecord, '\0'));
    life.open();
    life.check_for_good(up_to(kCount - 6));  // Trap: the stale records have the right length
  }

  // store §26.15: one flipped body bit in the last record: cut exactly there; put reuses the offset;
  // after a further restart no stale record or unit reappears.
  TEST_CASE("flipped bit in a body: cut exactly there, the offset is used again") {
    for (const int at : {kCount - 1, kCount - 3, kCount - 10}) {
      CAPTURE(at);
      Crashed life;
      life.flip(phys_of(at) + 200, 3);
      life.open();
      CHECK(life.store().bounds("TopicTest", static_cast<std::uint32_t>(at) % kQueues).max ==
            at / static_cast<int>(kQueues));
      life.check_for_good(up_to(at));
    }
  }

  TEST_CASE("flipped bit anywhere in the last file: all before it stays, nothing breaks") {
    std::mt19937 random(seed_of_run());
    const std::uint64_t begin = phys_of(40);
    const std::uint64_t bytes = phys_of(kCount) + 64 - begin;
    for (int round = 0; round < 60; ++round) {
      flip_and_check(begin + random() % bytes, static_cast<int>(random() % 8), true);
    }
  }

  TEST_CASE("flipped bit in a record's head: every bit of two records") {
    for (const int record : {40, 46}) {
      for (std::size_t bit = 0; bit < std::size_t{8} * 91; bit += 11) {
        flip_and_check(phys_of(record) + bit / 8, static_cast<int>(bit % 8), true);
      }
    }
  }

  TEST_CASE("flipped bit in a queue offset: no record loses its place to another") {
    for (const bool keep_queues : {true, false}) {
      for (const int bit : {0, 1, 2, 3, 4, 7}) {
        flip_and_check(phys_of(46) + proto::kRecordQueueOffsetAt + 7, bit, keep_queues);
      }
    }
  }

  TEST_CASE("consume queues are missing: all, or one, after a crash or a clean stop") {
    for (const bool crashed : {true, false}) {
      for (const char* folder : {"consumequeue", "consumequeue/TopicTest/1"}) {
        CAPTURE(crashed);
        CAPTURE(folder);
        Life life;
        life.append(0, kCount);
        crashed ? life.crash() : life.stop();
        fs::remove_all(life.path(folder));
        life.open();
        life.check_for_good(up_to(kCount));
      }
    }
  }

  TEST_CASE("one consume queue is cut short: it is filled up again") {
    Crashed life;
    fs::resize_file(life.path("consumequeue/TopicTest/0/00000000000000000200"), 0);
    life.open();
    life.check_for_good(up_to(kCount));
  }

  TEST_CASE("the last three files of a queue are blank: those before them end with the log") {
    Life life;
    life.append(0, 40 * static_cast<int>(kQueues));  // four files each
    life.crash();
    life.overwrite(phys_of(25), std::string(kRecord, '\0'));
    for (const char* file :
         {"00000000000000000200", "00000000000000000400", "00000000000000000600"}) {
      for (const char* queue : {"0", "1", "2"}) {
        const fs::path path = life.path("consumequeue/TopicTest") / queue / file;
        REQUIRE(fs::exists(path));
        fs::resize_file(path, 0);
        fs::resize_file(path, 200);
      }
    }
    life.open();
    life.check_for_good(up_to(25));
  }

  TEST_CASE("the index is missing, as a whole or its last file: it is made again") {
    for (const bool crashed : {true, false}) {
      for (const bool whole : {true, false}) {
        CAPTURE(crashed);
        CAPTURE(whole);
        Life life;
        life.append(0, kCount);
        life.check(up_to(kCount));  // the index has all
        crashed ? life.crash() : life.stop();
        if (whole) {
          fs::remove_all(life.path("index"));
        } else {
          std::vector<fs::path> files;
          for (const auto& e : fs::directory_iterator(life.path("index"))) {
            files.push_back(e.path());
          }
          std::sort(files.begin(), files.end());
          fs::remove(files.back());
        }
        life.open();
        life.check_for_good(up_to(kCount));
      }
    }
  }

  TEST_CASE("the checkpoint is missing, empty or foreign: a crash is recovered all the same") {
    for (const int kind : {0, 1, 2, 3}) {
      CAPTURE(kind);
      Crashed life;
      const fs::path file = life.path("checkpoint");
      fs::remove(file);
      if (kind == 1) {
        std::ofstream(file).flush();
      } else if (kind == 2) {
        std::ofstream(file, std::ios::binary) << std::string(4096, '\xff');
      } else if (kind == 3) {
        std::ofstream(file, std::ios::binary) << std::string(13, '\1');
      }
      life.open();
      life.check_for_good(up_to(kCount));
    }
  }

  TEST_CASE("the checkpoint is stale: of an earlier life, or ahead of the log") {
    for (const bool ahead : {false, true}) {
      CAPTURE(ahead);
      Life life;
      life.append(0, ahead ? kCount : 5);
      life.stop();
      const fs::path old = life.path("old");
      fs::copy_file(life.path("checkpoint"), old);
      life.open();
      if (!ahead) {
        life.append(5, kCount);
        life.crash();
        fs::rename(life.path("old"), life.path("checkpoint"));
        life.open();
        life.check_for_good(up_to(kCount));
      } else {
        life.crash();
        fs::remove(life.path("old"));
        life.overwrite(phys_of(45), std::string(5 * kRecord, '\0'));
        life.open();
        life.check_for_good(up_to(45));
      }
    }
  }

  TEST_CASE("the next log file is half made: empty, or of full size without content") {
    for (const std::uintmax_t size : {std::uintmax_t{0}, std::uintmax_t{kFile}}) {
      CAPTURE(size);
      Crashed life;
      const fs::path next = life.log_file(3 * kFile);
      std::ofstream(next).flush();
      fs::resize_file(next, size);
      life.open();
      life.check_for_good(up_to(kCount));
    }
  }

  TEST_CASE("a file made ahead of a log that was cut meanwhile is removed; one with data is not") {
    Crashed life;
    const fs::path beyond = life.log_file(5 * kFile);
    std::ofstream(beyond).flush();
    fs::resize_file(beyond, kFile);
    life.open();
    CHECK(!fs::exists(beyond));
    life.check_for_good(up_to(kCount));
    life.crash();
    std::ofstream(life.log_file(6 * kFile)) << std::string(kFile, 'x');
    FakeHost host(life.path(""));
    configure(host);
    StoreInstance store(tenon_entry_store_file, "tenon.store.file", host);
    CHECK(store.start() == TENON_CORRUPT);
  }

  TEST_CASE("the next log file is there but the end of this one is not: both behind the gap go") {
    Life life;
    life.append(0, kCount);
    life.crash();
    life.overwrite(phys_of(39), std::string(kRecord, '\0'));  // the last of the second file
    life.open();
    life.check_for_good(up_to(39));
  }

  // store §26.10: CL cut at its front + CQ folder removed -> rebuilt CQ has pre-blank units, min = first
  // stored queue offset, max unchanged, next put continues.
  TEST_CASE("the log is cut at its front, with and without queues") {
    for (const bool queues : {true, false}) {
      for (const bool crashed : {true, false}) {
        CAPTURE(queues);
        CAPTURE(crashed);
        Life life;
        life.append(0, kCount);
        crashed ? life.crash() : life.stop();
        fs::remove(life.log_file(0));
        if (!queues) {
          fs::remove_all(life.path("consumequeue"));
        }
        life.open();
        CHECK(life.store().log().min_phys == kFile);
        CHECK(life.store().bounds("TopicTest", 0).min == 7);  // 21 is the first of queue 0
        CHECK(life.store().bounds("TopicTest", 0).max == 17);
        std::vector<int> rest = up_to(kCount);
        rest.erase(rest.begin(), rest.begin() + kPerFile);
        life.check_for_good(rest);
      }
    }
  }

  // store §26.16: CL folder emptied: CQs destroyed, offsets restart at 0.
  TEST_CASE("the log is gone: queues start at 0") {
    Crashed life;
    fs::remove_all(life.path("commitlog"));
    life.open();
    life.check({});
    CHECK(life.store().append(numbered(0)).queue_offset == 0);
  }
}

}  // namespace tenon::test
