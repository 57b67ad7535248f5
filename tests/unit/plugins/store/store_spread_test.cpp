// A log spread over several folders, as storePathCommitLog and readOnlyCommitLogStorePaths of a Java
// broker name them (spec: store §2.6, §10.3).
#include "../../../support/fault_disk.h"
#include "small_store.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kFile = 4096;

std::string name_of(std::uint64_t number) {
  const std::string base = std::to_string(number * kFile);
  return std::string(20 - base.size(), '0') + base;
}

/// Folders a, b and c outside of the root, and a disk use of each.
struct Spread : SmallStore {
  Spread() {
    use() = {{"/a", 1000}, {"/b", 1000}, {"/c", 1000}};
    store_file::io().statvfs = [](const char* path, struct statvfs* out) {
      *out = {};
      out->f_frsize = 4096;
      out->f_blocks = 10'000;
      const std::string p = path;
      const auto it = use().find(p.substr(p.rfind('/')));
      out->f_bfree = out->f_bavail =
          10'000 - static_cast<fsblkcnt_t>(it == use().end() ? 1000 : it->second);
      return 0;
    };
    set("a,b");
  }
  ~Spread() {
    store.reset();
    store_file::io() = store_file::system_io();
  }
  static std::map<std::string, int>& use() {
    static std::map<std::string, int> percent_x100;
    return percent_x100;
  }
  fs::path dir(const std::string& name) const { return elsewhere.path() / name; }
  /// Names between commas, for the option.
  std::string paths(std::string names) const {
    std::string text;
    for (const char c : names) {
      text += c == ',' ? "," : dir(std::string(1, c)).string();
    }
    return text;
  }
  void set(const std::string& growing, const std::string& read_only = "") {
    host.set("commitlog_folder", paths(growing));
    host.set("commitlog_readonly_folders", paths(read_only));
  }
  tenon_append_result put() {
    Message m;
    m.body = std::string(body_bytes, 'b');
    m.properties = properties_of({{"KEYS", "k" + std::to_string(appended++)}});
    return store->append(m);
  }
  /// Messages until the log file of that number is begun.
  void fill_to(std::uint64_t number) {
    while (true) {
      const tenon_append_result r = put();
      REQUIRE(r.status == TENON_OK);
      if (r.phys >= number * kFile) {
        return;
      }
    }
  }
  std::vector<std::string> names(const std::string& folder) const {
    std::vector<std::string> found;
    if (fs::exists(dir(folder))) {
      for (const auto& e : fs::directory_iterator(dir(folder))) {
        found.push_back(e.path().filename());
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  bool has(const std::string& folder, std::uint64_t number) const {
    return fs::exists(dir(folder) / name_of(number));
  }
  tenon_retention_result retain(std::uint32_t flags, std::uint32_t max_files = 100) {
    tenon_retention p{};
    p.size = sizeof p;
    p.flags = flags;
    p.now_ms = INT64_MAX / 2;
    p.max_files = max_files;
    p.disk_clean_pct = 75;
    p.disk_force_pct = 85;
    p.disk_full_pct = 90;
    tenon_retention_result r{};
    r.size = sizeof r;
    CHECK(store->table().retention(store->self(), &p, &r, nullptr) == TENON_OK);
    return r;
  }
  void check_all(std::int64_t min = 0) {
    CHECK(store->bounds("TopicTest", 0).min == min);
    CHECK(store->entries("TopicTest", 0, min).size() == static_cast<std::size_t>(appended - min));
    for (const Entry& e : store->entries("TopicTest", 0, min)) {
      CHECK(store->fetch(e.phys, e.bytes).size() == e.bytes);
    }
    CHECK(store->query("TopicTest", "k" + std::to_string(appended - 1)).size() == 1);
  }

  int appended = 0;
  std::size_t body_bytes = 300;
  TempFolder elsewhere;
};

}  // namespace

TEST_SUITE("store_file/spread") {
  TEST_CASE("files go to the folders in turn; all of them are one log") {
    Spread s;
    s.set("b,a");  // the order of the option does not matter
    s.open();
    s.fill_to(4);
    for (std::uint64_t n = 0; n <= 4; ++n) {
      CAPTURE(n);
      CHECK(s.has("a", n) == (n % 2 == 0));
      CHECK(s.has("b", n) == (n % 2 == 1));
    }
    CHECK_FALSE(fs::exists(s.root.path() / "commitlog"));
    s.check_all();
    s.store->stop();
    CHECK(s.names("a").size() == 3);  // none that was made ahead
    CHECK(s.names("b").size() == 2);
    fs::remove_all(s.root.path() / "consumequeue");
    s.open();
    s.check_all();
    s.fill_to(6);
    s.check_all();
    // Deleted is from the front, in whatever folder it is.
    const auto r = s.retain(TENON_RETENTION_MANUAL, 3);
    CHECK(r.files == 3);
    CHECK(s.names("a").front() == name_of(4));
    CHECK(s.names("b").front() == name_of(3));
    s.store->stop();
    s.open();
    CHECK(s.store->log().min_phys == 3 * kFile);
    s.check_all(s.store->bounds("TopicTest", 0).min);
  }

  TEST_CASE("after a crash the log is found over its folders, and goes on where Java would") {
    Spread s;
    s.open();
    s.fill_to(3);
    s.store->stop();
    std::ofstream(s.root.path() / "abort").flush();
    s.open();
    CHECK(s.store->recovered().was_abnormal == 1);
    s.check_all();
    s.set("a,b,c");  // one more: file 4 is the second of three
    fs::create_directory(s.dir("c"));
    s.open();
    s.fill_to(5);
    CHECK(s.has("b", 4));
    CHECK(s.has("c", 5));
    s.check_all();
    s.store->stop();
    s.set("c,a", "b");  // file 6 is the first of two
    s.open();
    s.fill_to(7);
    CHECK(s.has("a", 6));
    CHECK(s.has("c", 7));
    s.check_all();
  }

  TEST_CASE("a read-only folder is read and emptied by age, and gets no new file") {
    Spread s;
    s.set("a");
    s.open();
    s.fill_to(2);
    s.store->stop();
    fs::create_directory(s.dir("b"));
    s.set("b", "a");
    s.open();
    s.check_all();
    s.fill_to(4);
    CHECK(s.names("a").size() == 3);  // the last of the old files was filled up
    CHECK(s.has("b", 3));
    CHECK(s.has("b", 4));
    s.check_all();
    CHECK(s.retain(TENON_RETENTION_MANUAL, 3).files == 3);
    CHECK(s.names("a").empty());
    s.store->stop();
    s.open();
    CHECK(s.store->log().min_phys == 3 * kFile);
  }

  // store §10.3
  TEST_CASE("a disk above the limit of forced deletion gets no new files, and deletes none") {
    Spread s;
    s.set("a,b,c");
    s.open();
    s.use()["/b"] = 8501;
    CHECK(s.retain(0).disk_pct_x100 == 1000);  // the emptiest counts
    s.fill_to(6);
    CHECK(s.names("b").empty());
    CHECK(s.has("a", 4));
    CHECK(s.has("c", 5));
    CHECK(s.retain(0).files == 0);
    s.use()["/b"] = 8500;
    s.retain(0);
    s.fill_to(7);
    CHECK(s.has("b", 7));
    // Above it everywhere: the oldest go, and files are made as if there were no limit.
    s.use() = {{"/a", 8700}, {"/b", 8600}, {"/c", 8800}};
    const auto r = s.retain(0);
    CHECK(r.disk_pct_x100 == 8600);
    CHECK(r.files >= 6);
    s.fill_to(9);
    CHECK(s.has("a", 9));
    s.use() = {{"/a", 9001}, {"/b", 9002}, {"/c", 9003}};
    s.retain(0);
    CHECK(s.put().status == TENON_FULL);
    s.use()["/c"] = 9000;
    s.retain(0);
    CHECK(s.put().status == TENON_OK);
  }

  TEST_CASE("the table of the storage has the disk use of each folder, and the least") {
    Spread s;
    s.open();
    s.use() = {{"/a", 4710}, {"/b", 3801}};
    std::map<std::string, std::string> rows;
    tenon_sink sink{};
    sink.size = sizeof sink;
    sink.ctx = &rows;
    sink.put = [](void* ctx, const tenon_kv* kv, std::size_t n) noexcept {
      for (std::size_t i = 0; i < n; ++i) {
        (*static_cast<std::map<std::string, std::string>*>(
            ctx))[std::string(kv[i].key.ptr, kv[i].key.len)] =
            std::string(kv[i].value.ptr, kv[i].value.len);
      }
    };
    s.store->table().stats(s.store->self(), &sink);
    CHECK(rows["commitLogDiskRatio_" + s.dir("a").string()] == "0.48");
    CHECK(rows["commitLogDiskRatio_" + s.dir("b").string()] == "0.39");
    CHECK(rows["commitLogDiskRatio"] == "0.39");
  }

  TEST_CASE("a folder without a free block: the file is closed early, the next disk takes over") {
    FaultDisk disk;  // the store's threads end before it
    Spread s;
    constexpr std::uint64_t kBig = 1u << 20;
    s.host.set("commitlog_file", std::int64_t{kBig});
    s.body_bytes = 20'000;
    s.open();
    const auto put_to = [&](std::uint64_t number) {
      std::uint64_t end = 0;
      while (true) {
        const auto r = s.put();
        REQUIRE(r.status == TENON_OK);
        if (r.phys >= number * kBig) {
          return end;
        }
        end = r.phys + r.bytes;
      }
    };
    const auto has = [&](const char* folder, const char* name) {
      return fs::exists(s.dir(folder) / name);
    };
    put_to(1);  // in b
    disk.fail(FaultDisk::Call::kPopulate, ENOSPC, "/b/");
    CHECK(put_to(2) + 100'000 < 2 * kBig);  // there would have been room for more
    CHECK(has("a", "00000000000002097152"));
    s.retain(0);  // forgets that b is full: its share of the disk is not
    CHECK(put_to(3) + 30'000 > 3 * kBig);
    CHECK(has("a", "00000000000003145728"));  // its turn, and the one before
    disk.heal();
    s.check_all();
    s.store->stop();
    s.open();
    s.check_all();
  }

  // A Java broker that made a file ahead, and then once more elsewhere because the disk filled up.
  TEST_CASE("of two files of one name the blank one goes") {
    Spread s;
    s.open();
    s.fill_to(2);
    s.store->stop();
    const std::string good = s.dir("b") / name_of(1);
    fs::resize_file(
        [&] {
          const fs::path blank = s.dir("a") / name_of(1);
          std::ofstream(blank).flush();
          return blank;
        }(),
        kFile);
    s.open();
    CHECK_FALSE(s.has("a", 1));
    CHECK(fs::exists(good));
    s.check_all();
  }

  TEST_CASE("folders that cannot be meant are refused, and nothing is touched") {
    Spread s;
    s.open();
    s.fill_to(3);
    s.store->stop();
    std::string text;
    SUBCASE("a disk is not mounted") {
      fs::rename(s.dir("b"), s.dir("away"));
      text = "is its disk mounted?";
    }
    SUBCASE("what it was mounted on is empty, and a file between is missing") {
      fs::rename(s.dir("b"), s.dir("away"));
      fs::create_directory(s.dir("b"));
      text = "does not continue the file before it";
    }
    SUBCASE("the last file is missing, and the queues know its messages") {
      fs::remove(s.dir("b") / name_of(3));
      text = "is the disk of a folder not mounted?";
    }
    SUBCASE("the same file twice") {
      fs::copy(s.dir("b") / name_of(1), s.dir("a") / name_of(1));
      text = "have the same name";
    }
    SUBCASE("one folder by two names") {
      fs::create_directory_symlink(s.dir("a"), s.dir("c"));
      s.set("a,b,c");
      text = "are one folder";
    }
    SUBCASE("no folder for new files") {
      s.set("a,b", "b,a");
      text = "all folders are read-only";
    }
    SUBCASE("the log of the root beside them") {
      fs::create_directory(s.root.path() / "commitlog");
      fs::copy(s.dir("a") / name_of(0), s.root.path() / "commitlog" / name_of(0));
      text = "or name both";
    }
    const auto before = s.names("a");
    CHECK(s.try_open() < 0);
    INFO(s.store->error());
    CHECK(s.store->error().find(text) != std::string::npos);
    CHECK(s.names("a") == before);
    CHECK_FALSE(fs::exists(s.root.path() / "abort"));
    std::size_t units = 0;
    for (const auto& e : fs::directory_iterator(s.root.path() / "consumequeue/TopicTest/0")) {
      units += e.file_size();
    }
    CHECK(units >= static_cast<std::size_t>(s.appended) * 20);
  }
}

}  // namespace tenon::test
