// `tenon store` on a folder whose log lies elsewhere, in one folder or several, also on another disk.
#include "tenon/store_format/log_folders.h"

#include "stores.h"

#include "tenon/store_format/names.h"
#include "tenon/store_tool/exchange.h"
#include "tenon/store_tool/repair.h"
#include "tenon/store_tool/stat.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <sys/stat.h>

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kFile = 262144;

std::string name_of(std::uint64_t number) {
  return store_format::file_name_of(number * kFile);
}

/// A recorded store whose log was spread: file n in the n-th folder, modulo three, of which the last is
/// read-only and, if there is such a place, on another disk.
struct Moved {
  explicit Moved(const std::string& golden)
      : store(golden) {
    folders.growing = {(store.parent() / "a").string(), (store.parent() / "b").string()};
    std::string shm = "/dev/shm/tenon-test-XXXXXX";
    other_disk = ::mkdtemp(shm.data()) != nullptr ? fs::path(shm) : store.parent() / "c";
    folders.read_only = {other_disk.string()};
    for (const std::string& folder : folders.all()) {
      fs::create_directories(folder);
    }
    for (std::uint64_t n = 0; fs::exists(store / ("commitlog/" + name_of(n))); ++n, ++files) {
      fs::copy(store / ("commitlog/" + name_of(n)), place(n) / name_of(n));
      fs::remove(store / ("commitlog/" + name_of(n)));
    }
    fs::remove(store / "commitlog");
    open.log_folders = folders;
  }
  ~Moved() {
    std::error_code ec;
    fs::remove_all(other_disk, ec);
  }
  fs::path place(std::uint64_t n) const {
    return n % 3 == 2 ? other_disk : fs::path(folders.growing[n % 3]);
  }
  std::unique_ptr<store_tool::Folder> look() const {
    auto opened = store_tool::Folder::open(store.root(), open);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().detail);
    return std::move(opened).value();
  }
  store_tool::Inspection check(std::uint64_t errors) const {
    const auto folder = look();
    store_tool::InspectOptions options;
    options.delays = store_tool::DelayTable::parse(store_tool::kDefaultDelayLevels).value();
    std::string text;
    options.sink = [&](const store_tool::Finding& f) { text += f.file + " " + f.text + "\n"; };
    auto done = store_tool::inspect(*folder, options);
    INFO(text);
    REQUIRE(done.has_value());
    CHECK(done.value().errors == errors);
    return std::move(done).value();
  }
  store_tool::RepairOptions repair_options() const {
    store_tool::RepairOptions options;
    options.apply = true;
    options.wall_ms = 1'800'000'000'000;
    options.open = open;
    options.inspect.delays = store_tool::DelayTable::parse(store_tool::kDefaultDelayLevels).value();
    return options;
  }

  GoldenStore store;
  store_format::LogFolders folders{};
  fs::path other_disk{};
  std::uint64_t files = 0;
  store_tool::OpenOptions open{};
};

}  // namespace

TEST_SUITE("store_tool/log_folders") {
  TEST_CASE("a log over several folders is checked, counted and listed") {
    const Checked whole = check_store(GoldenStore("basic-clean").root());
    const Moved moved("basic-clean");
    REQUIRE(moved.files >= 3);
    const auto found = moved.check(0);
    CHECK(found.records == whole.result.records);
    CHECK(found.log_end == whole.result.log_end);
    const store_tool::Stat stat = store_tool::stat_of(*moved.look());
    CHECK(stat.log_end == found.log_end);
    CHECK(stat.disk_bytes > found.record_bytes);
    std::uint64_t listed = 0;
    store_tool::dump_messages(*moved.look(),
                              {},
                              [&](const proto::MessageView&) {
                                ++listed;
                                return true;
                              },
                              {});
    CHECK(listed == found.records);
  }

  TEST_CASE("what is damaged is named by its whole path") {
    const Moved moved("basic-clean");
    fs::resize_file(moved.place(1) / name_of(1), 100'000);
    const auto folder = moved.look();
    REQUIRE(folder->findings().size() == 1);
    CHECK(folder->findings()[0].kind == "file-size");
    CHECK(folder->findings()[0].file == (moved.place(1) / name_of(1)).string());
    const auto refused = store_tool::repair(moved.store.root(), moved.repair_options());
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == Errc::kCorrupt);
  }

  TEST_CASE("of two files of one name the blank one is a warning, another one is an error") {
    const Moved moved("basic-clean");
    const fs::path twice = moved.place(0) / name_of(1);
    SUBCASE("blank") {
      std::ofstream(twice).flush();
      fs::resize_file(twice, kFile);
    }
    SUBCASE("not blank") {
      fs::copy(moved.place(1) / name_of(1), twice);
    }
    const auto folder = moved.look();
    REQUIRE(folder->findings().size() == 1);
    CHECK(folder->findings()[0].kind == "double-file");
    const bool blank = folder->findings()[0].severity == store_tool::Severity::kWarning;
    CHECK(moved.check(blank ? 0 : 1).records > 1000);
  }

  TEST_CASE("repair cuts files where they lie, and keeps what goes over disks") {
    const Moved moved("basic-clean");
    const std::uint64_t cut = moved.files - 2;
    flip_bit(moved.place(cut) / name_of(cut), 88);  // the first body of the last but one
    const std::string gone = slurp(moved.place(cut + 1) / name_of(cut + 1));
    std::ofstream(moved.store / "abort").flush();
    fs::remove(moved.store / "checkpoint");  // recovery comes to the place
    const auto done = store_tool::repair(moved.store.root(), moved.repair_options());
    REQUIRE_MESSAGE(done.has_value(), done.error().detail);
    REQUIRE(done.value().found.cut.has_value());
    CHECK(done.value().found.cut->at == cut * kFile);
    CHECK_FALSE(fs::exists(moved.place(cut) / name_of(cut)));
    CHECK_FALSE(fs::exists(moved.place(cut + 1) / name_of(cut + 1)));
    CHECK(slurp(fs::path(done.value().side) / "commitlog" / name_of(cut + 1)) == gone);
    CHECK(moved.check(0).log_end == cut * kFile);
  }

  TEST_CASE("an import goes on in the folder whose turn it is") {
    const Moved moved("basic-clean");
    const std::string file = (moved.store.parent() / "all.export").string();
    const std::set<std::string> topics{"TopicA", "TopicRoll"};
    const auto out = store_tool::export_topics(*moved.look(), topics, {}, file, {});
    REQUIRE_MESSAGE(out.has_value(), out.error().detail);
    store_tool::ImportOptions options;
    options.delays = store_tool::DelayTable::parse(store_tool::kDefaultDelayLevels).value();
    options.wall_ms = 1'900'000'000'000;
    options.append = true;
    options.log_folders = moved.folders;
    std::uint64_t end = 0;
    while (end / kFile <= moved.files) {
      const auto in = store_tool::import_topics(moved.store.root(), file, options);
      REQUIRE_MESSAGE(in.has_value(), in.error().detail);
      REQUIRE(in.value().bytes > 100'000);
      end = moved.check(0).log_end;
    }
    for (std::uint64_t n = moved.files; n <= end / kFile; ++n) {
      CHECK(fs::exists(fs::path(moved.folders.growing[n % 2]) / name_of(n)));
    }
    // A new store with its log there.
    const fs::path other = moved.store.parent() / "new";
    options.log_folders = {
        {(moved.store.parent() / "x").string(), (moved.store.parent() / "y").string()}, {}};
    options.log_file_bytes = kFile;
    options.append = false;
    REQUIRE(store_tool::import_topics(other.string(), file, options).has_value());
    CHECK(fs::exists(moved.store.parent() / "x" / name_of(0)));
    CHECK_FALSE(fs::exists(other / "commitlog"));
  }

  TEST_CASE("a log that is not where it should be is asked for") {
    const Moved moved("basic-clean");
    const auto why = [&](store_tool::OpenOptions open) {
      const auto opened = store_tool::Folder::open(moved.store.root(), open);
      return opened ? std::string() : opened.error().detail;
    };
    CHECK(why({}).find("--commitlog-folder") != std::string::npos);
    store_tool::OpenOptions open = moved.open;
    open.log_folders.growing[0] += "x";
    CHECK(why(open).find("there is no log folder") != std::string::npos);
    fs::create_directory(moved.store / "commitlog");
    std::ofstream(moved.store / ("commitlog/" + name_of(0))) << "x";
    CHECK(why(moved.open).find("has files too") != std::string::npos);
  }

  TEST_CASE("folders as an option names them") {
    const auto parsed = [](const char* folders, const char* read_only) {
      return store_format::parse_log_folders("/root", folders, read_only);
    };
    CHECK(parsed("", "").value().growing == std::vector<std::string>{"/root/commitlog"});
    CHECK(parsed("/b//,/a,,/b", "/c/,/b").value().growing == std::vector<std::string>{"/a"});
    CHECK(parsed("/b,/a", "/c,/b").value().read_only == std::vector<std::string>{"/b", "/c"});
    CHECK(parsed("/b,/a", "/c,/b").value().all() == std::vector<std::string>{"/a", "/b", "/c"});
    CHECK_FALSE(parsed("/a", "/c").value().growing.empty());
    CHECK(parsed("/a", "").value().several() == false);
    for (const char* bad : {"/a,b", "a", "/a:/b", "/a;/b"}) {
      CHECK_FALSE(parsed(bad, "").has_value());
    }
    CHECK_FALSE(parsed("/a,/b", "/b,/a").has_value());
    std::string many;
    for (int i = 0; i < 65; ++i) {
      many += "/f" + std::to_string(i) + ",";
    }
    CHECK_FALSE(parsed(many.c_str(), "").has_value());
  }

  TEST_CASE("the turn of folders, with some of them full") {
    store_format::FolderSpread spread({"/a", "/b", "/c"});
    CHECK(spread.folder_of(4) == "/b");
    spread.set_full(0b010);
    CHECK(spread.folder_of(4) == "/a");
    CHECK(spread.folder_of(5) == "/c");
    CHECK(spread.mark_full("/a/00000000000000000000"));
    CHECK(spread.folder_of(4) == "/c");
    CHECK_FALSE(spread.mark_full("/c/00000000000000000000"));
    CHECK(spread.folder_of(4) == "/b");  // none has room: as if all had
  }
}

}  // namespace tenon::test
