#include "tenon/base/clock.h"
#include "tenon/base/config_node.h"
#include "tenon/base/crc32.h"
#include "tenon/base/endian.h"
#include "tenon/base/gate.h"
#include "tenon/base/ids.h"
#include "tenon/base/log.h"
#include "tenon/base/result.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <vector>

namespace tenon {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) {
    return Error{Errc::kInvalid, "odd"};
  }
  return n / 2;
}
Result<int> quarter(int n) {
  TENON_TRY(const int h, half(n));
  return half(h);
}

TEST_SUITE("base") {
  TEST_CASE("an error travels through TENON_TRY unchanged") {
    CHECK(quarter(8).value() == 2);
    CHECK(quarter(6).error().detail == "odd");
    CHECK(quarter(6).error().code == Errc::kInvalid);
  }

  TEST_CASE("a failed system call names the object and the reason") {
    const Error e = os_error("open /x", ENOENT);
    CHECK(e.detail == "open /x: No such file or directory");
    CHECK(e.os_errno == ENOENT);
    CHECK(to_string(e.code) == "io");
  }

  TEST_CASE("the CRC of hello is the one in spec remoting 9.1") {
    CHECK(crc32_java(as_bytes("hello")) == 0x3610A686);
  }

  TEST_CASE("big-endian loads and stores are inverse and byte-exact") {
    std::byte b[8];
    store_be<std::uint32_t>(b, 0xDAA320A7u);
    CHECK(std::to_integer<int>(b[0]) == 0xDA);
    CHECK(std::to_integer<int>(b[3]) == 0xA7);
    CHECK(load_be<std::uint32_t>(b) == 0xDAA320A7u);
    store_be<std::int64_t>(b, -2);
    CHECK(load_be<std::int64_t>(b) == -2);
  }

  TEST_CASE("positions differ by a distance") {
    const PhysOffset a{100};
    CHECK((a + 5) - a == 5);
    CHECK(a < a + 1);
  }

  TEST_CASE("a configuration tree remembers what was read and where it stood") {
    ConfigNode root;
    root.set("a", ConfigNode{std::int64_t{3}, "x.toml", 2, 5});
    CHECK_FALSE(std::get<ConfigNode::Table>(root.value)[0].second.read);
    REQUIRE(root.find("a") != nullptr);
    CHECK(root.find("a")->where() == "x.toml:2:5");
    CHECK(root.find("a")->read);
    CHECK(root.find("b") == nullptr);
  }

  TEST_CASE("a closed gate lets nobody in") {
    Gate gate;
    CHECK(gate.try_enter());
    gate.leave();
    gate.close();
    CHECK_FALSE(gate.try_enter());
  }

  TEST_CASE("the log sink gets level, component and text") {
    struct Sink final : LogSink {
      std::vector<std::string> lines;
      bool enabled(LogLevel level, std::string_view) noexcept override {
        return level >= LogLevel::kInfo;
      }
      void write(LogLevel,
                 std::string_view component,
                 std::string_view text,
                 const std::source_location&) noexcept override {
        lines.push_back(std::string(component) + " " + std::string(text));
      }
    } sink;
    set_log_sink(&sink);
    log_info("broker", "topic created topic={}", "T");
    log_debug("broker", "not wanted");
    set_log_sink(nullptr);
    REQUIRE(sink.lines.size() == 1);
    CHECK(sink.lines[0] == "broker topic created topic=T");
  }

  TEST_CASE("a manual clock moves only when told") {
    ManualClock clock(1000);
    clock.advance_ms(5);
    CHECK(clock.wall_ms() == 1005);
  }
}

}  // namespace
}  // namespace tenon
