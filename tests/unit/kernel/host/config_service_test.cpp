// Conversions and complaints of tenon.host.config/1 (plug-in ABI §10).
#include "host_test.h"

#include <doctest/doctest.h>

#include <functional>

using namespace std::chrono_literals;
using tenon::ConfigNode;
using tenon::plugin::ByteSize;
using tenon::plugin::Config;

namespace {

/// Runs init with options and what it does with the configuration; returns the complaint, empty if none.
std::string init_with(const ConfigNode& options, std::function<void(const Config&)> read) {
  test::Hooks hooks;
  hooks.on_init = [&](tenon::plugin::Host& h) { read(h.config()); };
  auto registry = test::make_registry();
  tenon::host::InstanceOptions o;
  o.options = &options;
  auto i = test::make_services(*registry, o);
  const auto r = i->init();
  return r ? std::string{} : r.error().detail;
}

ConfigNode table(std::vector<std::pair<std::string, decltype(ConfigNode::value)>> members) {
  ConfigNode t = test::node(ConfigNode::Table{});
  std::uint32_t line = 1;
  for (auto& [key, value] : members) {
    t.set(key, test::node(std::move(value), ++line));
  }
  return t;
}

}  // namespace

TEST_SUITE("host/config") {
  TEST_CASE("every type, and defaults for absent keys") {
    const ConfigNode t = table({{"b", true},
                                {"i", std::int64_t{42}},
                                {"f", 1.5},
                                {"f2", std::int64_t{2}},
                                {"s", std::string("text")},
                                {"d1", std::string("250ms")},
                                {"d2", std::string("3d")},
                                {"wait_ms", std::int64_t{700}},
                                {"z1", std::string("64KiB")},
                                {"z2", std::string("1GiB")},
                                {"max_bytes", std::int64_t{4096}}});
    const std::string complaint = init_with(t, [](const Config& c) {
      CHECK(c.get("b", false));
      CHECK(c.get("i", 0) == 42);
      CHECK(c.get("f", 0.0) == 1.5);
      CHECK(c.get("f2", 0.0) == 2.0);
      CHECK(c.get("s", "") == "text");
      CHECK(c.get("d1", 0ms) == 250ms);
      CHECK(c.get("d2", 0ms) == 3 * 24h);
      CHECK(c.get("wait_ms", 0ms) == 700ms);
      CHECK(c.get("z1", ByteSize{}).value == 65536);
      CHECK(c.get("z2", ByteSize{}).value == 1u << 30);
      CHECK(c.get("max_bytes", ByteSize{}).value == 4096);
      CHECK(c.get("absent", 17) == 17);
      CHECK(c.get("absent", "def") == "def");
      CHECK_FALSE(c.find<bool>("absent").has_value());
    });
    CHECK(complaint.empty());
  }

  TEST_CASE("a wrong type or form is an error with its position") {
    const auto complaint = [](decltype(ConfigNode::value) v, auto read) {
      return init_with(table({{"k_ms", std::int64_t{1}}, {"k", std::move(v)}}),
                       [&](const Config& c) {
                         c.get("k_ms", 0ms);
                         read(c);
                       });
    };
    const auto as_int = [](const Config& c) { c.get("k", 0); };
    const auto as_duration = [](const Config& c) { c.get("k", 0ms); };
    const auto as_size = [](const Config& c) { c.get("k", ByteSize{}); };
    CHECK(complaint(std::string("x"), as_int) ==
          "plug-in test.services: init: test.toml:3:1: k must be of type int, is string");
    CHECK(complaint(1.5, as_int) ==
          "plug-in test.services: init: test.toml:3:1: k must be of type int, is float");
    CHECK(complaint(std::int64_t{5}, as_duration).find("test.toml:3:1: k needs a unit") !=
          std::string::npos);
    CHECK(complaint(std::string("5 parsecs"), as_duration).find("test.toml:3:1: k is wrong") !=
          std::string::npos);
    CHECK(complaint(std::string("1GB"), as_size).find("test.toml:3:1: k is wrong") !=
          std::string::npos);
    CHECK(complaint(std::int64_t{70'000}, [](const Config& c) { c.get("k", std::uint16_t{1}); }) ==
          "plug-in test.services: init: k is out of range at test.toml:3:1");
    CHECK(complaint(true, [](const Config& c) {
            c.require<bool>("missing");
          }).find("missing is required at test.toml:1:1") != std::string::npos);
  }

  TEST_CASE("an unknown key is an error with position and suggestion; a listed one is not") {
    const auto nothing = [](const Config&) {};
    CHECK(init_with(table({{"listed", std::int64_t{1}}}), nothing).empty());
    const std::string one = init_with(table({{"flsh_interval", std::string("5s")}}), nothing);
    CHECK(one.find("test.toml:2:1: unknown key flsh_interval, did you mean \"flush_interval\"") !=
          std::string::npos);
    const std::string two = init_with(table({{"xx", true}, {"yy", true}}), nothing);
    CHECK(two.find("test.toml:2:1: unknown key xx") != std::string::npos);
    CHECK(two.find("test.toml:3:1: unknown key yy") != std::string::npos);
  }

  TEST_CASE("tables and arrays inside; what nobody reads in them is unknown too") {
    ConfigNode t = test::node(ConfigNode::Table{});
    ConfigNode& inner = t.set("inner", test::node(ConfigNode::Table{}, 2));
    inner.set("port", test::node(std::int64_t{1}, 3));
    inner.set("prot", test::node(std::int64_t{1}, 4));
    t.set(
        "hours",
        test::node(
            ConfigNode::Array{test::node(std::int64_t{4}, 5), test::node(std::int64_t{16}, 6)}, 5));
    const std::string complaint = init_with(t, [](const Config& c) {
      CHECK(c.table("inner")->get("port", 0) == 1);
      const auto hours = c.array("hours");
      REQUIRE(hours.has_value());
      REQUIRE(hours->size() == 2);
      CHECK(hours->at(1).get("", 0) == 16);
      CHECK_FALSE(c.table("absent").has_value());
      CHECK_THROWS_WITH(c.table("hours"), "test.toml:5:1: hours must be of type table, is array");
    });
    CHECK(complaint.find("test.toml:4:1: unknown key inner.prot") != std::string::npos);
  }
}
