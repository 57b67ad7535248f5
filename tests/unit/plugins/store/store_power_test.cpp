// Power cuts: of what was not synced, a part is there, in pages and names that nobody chose. What was
// durable stays, the rest is a prefix, and queues, extensions and index are whole.
//
// TENON_SEED=<n> repeats a run, TENON_ROUNDS=<n> makes it longer.
#include "../../../../plugins/store_file/src/io.h"
#include "../../../support/fault_disk.h"
#include "../../../support/seed.h"
#include "../../../support/store_harness.h"
#include "store_audit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::test {
namespace {

namespace fs = std::filesystem;

struct Setting {
  std::uint32_t queues = 3;
  bool spread = false;      ///< the log lies on two disks of its own
  bool queues_own = false;  ///< queues and extensions on one of theirs each
  bool ext = false;
  bool is_many() const { return queues > 64; }  ///< one sync for all of them
};

/// Small files: some tens of messages roll all of them.
void configure(FakeHost& host, const fs::path& root, const Setting& s) {
  host.set("commitlog_file", 8192);
  host.set("queue_file_bytes", 200);
  host.set("index_slots", 20);
  host.set("index_items", 16);
  if (s.spread) {
    host.set("commitlog_folder", (root / "log-b").string() + "," + (root / "log-a").string());
  }
  if (s.ext) {
    host.set("queue_ext", 1);
    host.set("queue_ext_file", 1024);
  }
  host.record_arrivals = false;
}

void separate(FaultDisk& disk, const fs::path& root, const Setting& s) {
  if (s.spread) {
    disk.separate(root / "log-a");
    disk.separate(root / "log-b");
  }
  if (s.queues_own) {
    disk.separate(root / "consumequeue");
    disk.separate(root / "consumequeue_ext");
  }
}

/// One store on one folder after the other, each what the one before was after a power cut.
class Life {
 public:
  Life(const Setting& setting, std::mt19937& random)
      : setting_(setting),
        random_(random) {}

  void go_on_and_cut() {
    auto after = std::make_unique<TempFolder>();
    const auto way = static_cast<Way>(random_() % 3);
    {
      FaultDisk disk;
      separate(disk, folder_->path(), setting_);
      disk.assume_synced(folder_->path());
      FakeHost host(folder_->path());
      configure(host, folder_->path(), setting_);
      host.set("queue_flush_interval", way == Way::kFlushed ? 50 : 60'000);
      host.set("queue_flush_thorough", 1);
      StoreInstance store(tenon_entry_store_file, "tenon.store.file", host);
      REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
      CAPTURE(host.log_text());
      CHECK((store.recovered().was_abnormal == 0) == stopped_);
      check(store);
      append(store);
      stopped_ = way == Way::kStopped;
      if (stopped_) {
        extended_ = extended(store);
        store.stop();
        known_.insert(known_.end(), written_.begin(), written_.end());
        CHECK((disk.calls(FaultDisk::Call::kSyncfs) > 0) == setting_.is_many());  // in one go
      } else if (way == Way::kFlushed) {
        const int before = disk.calls(FaultDisk::Call::kFdatasync);  // of the checkpoint
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (disk.calls(FaultDisk::Call::kFdatasync) <= before &&
               std::chrono::steady_clock::now() < give_up) {
          std::this_thread::yield();
        }
      }
      disk.power_cut(folder_->path(), after->path(), random_);
    }
    folder_ = std::move(after);
  }

 private:
  using Place = std::pair<std::uint32_t, std::int64_t>;
  /// What comes before the cut. kFlushed: the queues, with a checkpoint that says so.
  enum class Way : std::uint8_t { kStopped, kFlushed, kNothing };

  std::map<Place, bool> extended(StoreInstance& store) const {
    std::map<Place, bool> all;
    for (std::uint32_t q = 0; setting_.ext && q < setting_.queues; ++q) {
      for (const Entry& e : store.entries("TopicTest", q, 0)) {
        all[{q, e.offset}] = e.extended;
      }
    }
    return all;
  }

  void check(StoreInstance& store) {
    const Audit audit = audit_store(store, "TopicTest", setting_.queues, true);
    for (const std::string& problem : audit.problems) {
      FAIL_CHECK(problem);
    }
    REQUIRE(audit.problems.empty());
    std::vector<int> found;
    for (const Audited& m : audit.messages) {
      found.push_back(std::atoi(m.body.c_str() + 1));
    }
    REQUIRE(found.size() >= known_.size());
    REQUIRE(std::equal(known_.begin(), known_.end(), found.begin()));
    REQUIRE(std::is_sorted(found.begin(), found.end()));
    if (stopped_) {
      CHECK(extended(store) == extended_);
    }
    known_ = found;
  }

  void append(StoreInstance& store) {
    written_.clear();
    // Many queues: more files than a clean start reads. Two disks: files that were never synced.
    const std::uint32_t most = setting_.is_many() ? 2 * setting_.queues
                               : setting_.spread  ? 100
                                                  : 60;
    const std::uint32_t least = setting_.is_many() ? setting_.queues : 0;
    for (auto n = static_cast<int>(least + random_() % most); n > 0; --n) {
      Message m;
      m.queue_id = static_cast<std::uint32_t>(next_) % setting_.queues;
      m.store_ms = 1'700'000'000'000 + next_ * 1000;  // the checkpoint covers all but the last
      m.properties = properties_of({{"KEYS", "k" + std::to_string(next_)}});
      m.body = "m" + std::to_string(next_) + " ";
      m.body.resize(400 - 91 - m.topic.size() - m.properties.size(), 'x');
      REQUIRE(store.append(m).status == TENON_OK);
      written_.push_back(next_++);
      if (random_() % (setting_.spread ? 40 : 15) == 0) {
        const std::uint64_t end = store.log().end;
        REQUIRE(store.table().flush_now(store.self(), end, 10'000, nullptr) == TENON_OK);
        known_.insert(known_.end(), written_.begin(), written_.end());
        written_.clear();
      }
    }
  }

  const Setting setting_;
  std::mt19937& random_;
  std::unique_ptr<TempFolder> folder_ = std::make_unique<TempFolder>();
  std::vector<int> known_{};    ///< numbers that must be there, in order
  std::vector<int> written_{};  ///< since the last flush
  std::map<Place, bool> extended_{};
  bool stopped_ = true;  ///< before the cut, or there was none
  int next_ = 0;
};

void cut_again_and_again(const Setting& setting, int rounds) {
  std::mt19937 random(seed_of_run());
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    Life life(setting, random);
    for (int cut = 0; cut < 4; ++cut) {
      CAPTURE(cut);
      life.go_on_and_cut();
    }
  }
}

/// Devices that were synced whole.
std::vector<dev_t>& synced_devices() {
  static std::vector<dev_t> devices;
  return devices;
}

}  // namespace

TEST_SUITE("store_file/power") {
  // store §26.28: what a flush confirmed
  TEST_CASE("a power cut drops unsynced pages: what was durable stays, the rest is a prefix") {
    cut_again_and_again({}, env_number("TENON_ROUNDS", 40) / 4);
  }

  TEST_CASE("a power cut with a log over two disks, whose names keep no common order") {
    Setting s;
    s.spread = true;
    cut_again_and_again(s, env_number("TENON_ROUNDS", 40) / 5);
  }

  TEST_CASE("a power cut when many queues were written by one sync") {
    Setting s;
    s.queues = 80;
    SUBCASE("all on one disk") {}
    SUBCASE("with extensions") {
      s.ext = true;
    }
    // The root's syncfs does not cover what is mounted below it.
    SUBCASE("on disks of their own") {
      s.queues_own = s.ext = true;
    }
    cut_again_and_again(s, env_number("TENON_ROUNDS", 40) / 20);
  }

  TEST_CASE("the file system that is synced is that of the queues") {
    std::string shm = "/dev/shm/tenon-test-XXXXXX";
    if (::mkdtemp(shm.data()) == nullptr) {
      MESSAGE("skipped: no folder can be made in /dev/shm");
      return;
    }
    const std::unique_ptr<const std::string, void (*)(const std::string*)> cleaner(
        &shm, [](const std::string* path) { fs::remove_all(*path); });
    struct stat other {};
    struct stat usual {};
    TempFolder root;
    REQUIRE(::stat(shm.c_str(), &other) == 0);
    REQUIRE(::stat(root.path().c_str(), &usual) == 0);
    if (other.st_dev == usual.st_dev) {
      MESSAGE("skipped: /dev/shm is no file system of its own");
      return;
    }
    fs::create_directory_symlink(shm, root.path() / "consumequeue");
    synced_devices().clear();
    store_file::io().syncfs = [](int fd) {
      struct stat st {};
      ::fstat(fd, &st);
      synced_devices().push_back(st.st_dev);
      return 0;
    };
    FakeHost host(root.path());
    Setting s;
    s.queues = 80;
    SUBCASE("without extensions") {}
    SUBCASE("extensions on the other disk") {
      s.ext = true;
    }
    configure(host, root.path(), s);
    host.set("queue_flush_interval", 60'000);
    {
      StoreInstance store(tenon_entry_store_file, "tenon.store.file", host);
      REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
      for (std::uint32_t q = 0; q < s.queues; ++q) {
        Message m;
        m.queue_id = q;
        REQUIRE(store.append(m).status == TENON_OK);
      }
      store.stop();
    }
    store_file::io() = store_file::system_io();
    std::vector<dev_t> wanted{other.st_dev};
    if (s.ext) {
      wanted.push_back(usual.st_dev);
    }
    CHECK(synced_devices() == wanted);
  }
}

}  // namespace tenon::test
