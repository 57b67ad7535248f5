#include "tenon/logging/logging.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <stdlib.h>
#include <sys/stat.h>

using namespace tenon;
using logging::Logging;
using logging::LogOptions;
namespace fs = std::filesystem;

namespace {

class TempDir {
 public:
  TempDir() {
    std::string name = (fs::temp_directory_path() / "tenon-log-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempDir() { fs::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::string content(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) {
    ++n;
  }
  return n;
}

std::unique_ptr<Logging> make(LogOptions options) {
  options.console = false;
  auto made = Logging::create(options);
  REQUIRE(made.has_value());
  return std::move(made).value();
}

void line(Logging& log, LogLevel level, std::string_view component, std::string_view text) {
  if (log.enabled(level, component)) {
    log.write(level, component, text, std::source_location::current());
  }
}

}  // namespace

TEST_SUITE("logging") {
  TEST_CASE("a line has level, component, text and place, and is in the file after flush") {
    TempDir dir;
    const auto log = make({.file = dir / "sub/a.log"});
    set_log_sink(log.get());
    log_info("net", "connection opened peer={}", "10.0.0.1:5");
    log_debug("net", "not shown");
    set_log_sink(nullptr);
    log->flush();
    const std::string text = content(dir / "sub/a.log");
    CHECK(text.find(" info net: connection opened peer=10.0.0.1:5 [logging_test.cpp:") !=
          std::string::npos);
    CHECK(count_of(text, "\n") == 1);
  }
  TEST_CASE("levels are per component and change at run time") {
    TempDir dir;
    const auto log = make({.levels = {{"net", LogLevel::kDebug}, {"store", LogLevel::kOff}}});
    CHECK(log->enabled(LogLevel::kDebug, "net"));
    CHECK_FALSE(log->enabled(LogLevel::kTrace, "net"));
    CHECK_FALSE(log->enabled(LogLevel::kCritical, "store"));
    CHECK_FALSE(log->enabled(LogLevel::kDebug, "broker"));
    log->set_level("broker", LogLevel::kTrace);
    CHECK(log->enabled(LogLevel::kTrace, "broker"));
    log->set_level("", LogLevel::kError);
    CHECK_FALSE(log->enabled(LogLevel::kWarn, "host"));
    CHECK(log->enabled(LogLevel::kTrace, "broker"));
    CHECK(log->level("host") == LogLevel::kError);
    CHECK(log->level("net") == LogLevel::kDebug);
  }
  TEST_CASE("more components than there is room for keep the default level") {
    const auto log = make({});
    for (int i = 0; i < 100; ++i) {
      log->set_level("plugin:" + std::to_string(i), LogLevel::kTrace);
    }
    log->set_level(std::string(200, 'x'), LogLevel::kTrace);
    CHECK(log->level("plugin:63") == LogLevel::kTrace);
    CHECK(log->level("plugin:64") == LogLevel::kInfo);
    CHECK(log->level(std::string(200, 'x')) == LogLevel::kInfo);
  }
  TEST_CASE("files roll over and only the configured number is kept") {
    TempDir dir;
    {
      const auto log = make({.file = dir / "a.log", .file_max_bytes = 2000, .file_count = 2});
      for (int i = 0; i < 200; ++i) {
        line(*log, LogLevel::kInfo, "x", std::string(100, 'y'));
        log->flush();
      }
    }
    CHECK(fs::exists(dir / "a.log"));
    CHECK(fs::exists(dir / "a.1.log"));
    CHECK(fs::exists(dir / "a.2.log"));
    CHECK_FALSE(fs::exists(dir / "a.3.log"));
    CHECK(fs::file_size(dir / "a.1.log") <= 2000);
  }
  TEST_CASE("a full queue drops the oldest lines, counts them and says so at the end") {
    TempDir dir;
    // A pipe that nobody reads yet stops the writer: opening it for reading and writing blocks
    // neither side, and its buffer holds 64 KiB.
    const fs::path pipe = dir / "pipe";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    std::fstream reader(pipe, std::ios::in | std::ios::out | std::ios::binary);
    REQUIRE(reader.is_open());
    std::uint64_t dropped = 0;
    std::string text;
    std::jthread drain;
    {
      const auto log = make({.file = pipe, .queue_lines = 8});
      constexpr int kLines = 400;
      for (int i = 0; i < kLines; ++i) {
        line(*log, LogLevel::kInfo, "x", std::to_string(i) + ":" + std::string(1000, 'y'));
      }
      dropped = log->dropped_count();
      CHECK(dropped > 0);
      CHECK(dropped < kLines);
      drain = std::jthread([&] {
        std::string one;
        while (std::getline(reader, one)) {
          text += one + "\n";
          if (one.find("lines dropped") != std::string::npos) {
            break;
          }
        }
      });
    }
    drain.join();
    CHECK(text.find(" x: 399:") != std::string::npos);
    CHECK(text.find("log: lines dropped count=" + std::to_string(dropped)) != std::string::npos);
  }
  TEST_CASE("several threads write whole lines") {
    TempDir dir;
    {
      const auto log = make({.file = dir / "a.log", .queue_lines = 4096});
      std::vector<std::jthread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
          for (int i = 0; i < 500; ++i) {
            line(*log, LogLevel::kInfo, "x", "abcdefgh");
          }
        });
      }
      threads.clear();
    }
    CHECK(count_of(content(dir / "a.log"), " info x: abcdefgh [") == 2000);
  }
  TEST_CASE("a file that cannot be opened is an error with its name") {
    const auto made = Logging::create({.console = false, .file = "/proc/nonexistent/a.log"});
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().code == Errc::kIo);
    CHECK(made.error().detail.find("/proc/nonexistent/a.log") != std::string::npos);
    CHECK(Logging::create({.queue_lines = 0}).error().code == Errc::kInvalid);
  }
  TEST_CASE("words for levels") {
    CHECK(logging::level_of("warn") == LogLevel::kWarn);
    CHECK_FALSE(logging::level_of("loud").has_value());
    CHECK(logging::to_string(LogLevel::kOff) == "off");
  }
}
