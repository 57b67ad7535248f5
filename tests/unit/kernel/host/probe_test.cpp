#include "host_test.h"

#include <doctest/doctest.h>

using tenon::host::probe_in_child;
using namespace std::chrono_literals;

namespace {

std::string refused(const std::string& name, std::chrono::milliseconds timeout = 30s) {
  const auto r = probe_in_child(test::plugin_file(name), timeout);
  REQUIRE_FALSE(r.has_value());
  return r.error().detail;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("host/probe") {
  TEST_CASE("a good file is described as load describes it") {
    const auto probed = probe_in_child(test::plugin_file("test.host.good"), 30s);
    REQUIRE(probed.has_value());
    const auto loaded = test::make_registry()->load(test::plugin_file("test.host.good"));
    REQUIRE(loaded.has_value());
    REQUIRE(probed.value().size() == 1);
    const auto& p = probed.value().front();
    const auto& l = loaded.value().front();
    CHECK(p.id == "org.example.good");
    CHECK(p.file == l.file);
    CHECK(p.version == l.version);
    CHECK(p.vendor == "Example");
    CHECK(p.build_info == "test");
    CHECK(p.abi_major == TENON_ABI_MAJOR);
    CHECK(p.flags == TENON_PLUGIN_REPLACEABLE);
    CHECK(p.interfaces == std::vector<std::string>{TENON_QUEUE_SELECTOR_IID});
    REQUIRE(p.keys.size() == 1);
    CHECK(p.keys[0].name == "weight");
    CHECK(p.keys[0].type == "int");
    CHECK(p.keys[0].default_text == "1");
  }

  TEST_CASE("a refusal keeps its code and text") {
    const auto r = probe_in_child(test::plugin_file("test.host.wrongmajor"), 30s);
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().code == tenon::Errc::kIncompatible);
    CHECK(contains(r.error().detail, "test.host.wrongmajor.tenon.so: built for ABI 2.0"));
  }

  TEST_CASE(
      "a crash, an exception and an exit in a constructor are refusals, not the end of the host") {
    CHECK(contains(refused("test.host.ctorcrash"),
                   "ctorcrash.tenon.so: crashed with SIGSEGV while it was loaded"));
    const std::string thrown = refused("test.host.ctorthrow");
    CAPTURE(thrown);
    CHECK(contains(thrown, "boom in a constructor"));
    CHECK(contains(refused("test.host.ctorexit"),
                   "ended the process with code 3 while it was loaded"));
  }

  TEST_CASE("a hanging constructor is killed after the time") {
    CHECK(contains(refused("test.host.ctorhang", 200ms), "did not finish loading within 200 ms"));
  }
}
