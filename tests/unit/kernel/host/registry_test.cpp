#include "host_test.h"
#include "library.h"

#include <doctest/doctest.h>

#include <algorithm>

using tenon::host::compare_versions;
using tenon::host::PluginInfo;

namespace {

const PluginInfo* find(const std::vector<PluginInfo>& all, const test::fs::path& file) {
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const PluginInfo& p) { return p.file == file; });
  return it == all.end() ? nullptr : &*it;
}

}  // namespace

TEST_SUITE("host/registry") {
  TEST_CASE("versions compare by number") {
    CHECK(compare_versions("1.10.0", "1.9.9") > 0);
    CHECK(compare_versions("1.0", "1.0.1") < 0);
    CHECK(compare_versions("2", "2.0.0") == 0);
    CHECK(compare_versions("1.0.0-rc1", "1.0.0") < 0);
    CHECK(compare_versions("1.0.0-rc1", "1.0.0-rc2") < 0);
    CHECK(compare_versions("0.9", "1") < 0);
  }

  TEST_CASE("an id is found by the name of its file, the higher version wins within a folder") {
    const test::TempDir dir;
    dir.take("test.host.good.tenon.so", "org.example.good-1.0.0.tenon.so");
    dir.take("test.host.good110.tenon.so", "org.example.good-1.10.0.tenon.so");
    dir.take("test.host.ctorcrash.tenon.so", "aaa.tenon.so");  // never loaded: not named for it
    auto registry = test::make_registry({dir.path()});
    const auto d = registry->describe("org.example.good");
    REQUIRE(d.has_value());
    CHECK(d.value().version == "1.10.0");
  }

  TEST_CASE("the first folder wins, whatever the version") {
    const test::TempDir first;
    const test::TempDir second;
    first.take("test.host.good.tenon.so", "org.example.good.tenon.so");
    second.take("test.host.good110.tenon.so", "org.example.good.tenon.so");
    auto registry = test::make_registry({first.path(), second.path()});
    CHECK(registry->describe("org.example.good").value().version == "1.0.0");
  }

  TEST_CASE("an id in a file with another name is found, and crashing neighbours do no harm") {
    const test::TempDir dir;
    dir.take("test.host.ctorcrash.tenon.so", "aaa.tenon.so");
    dir.take("test.host.pair.tenon.so", "pair.tenon.so");
    auto registry = test::make_registry({dir.path()});
    const auto instance = registry->create("org.example.second-of-pair", {});
    REQUIRE(instance.has_value());
    CHECK(instance.value()->id() == "org.example.second-of-pair");
  }

  TEST_CASE("an unknown id: the folders searched and a similar id") {
    const test::TempDir dir;
    dir.take("test.host.good.tenon.so", "org.example.good.tenon.so");
    auto registry = test::make_registry({dir.path(), "/nonexistent/plugins"});
    const auto r = registry->create("org.example.goood", {});
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().code == tenon::Errc::kNotFound);
    CHECK(r.error().detail ==
          "no plug-in \"org.example.goood\", did you mean \"org.example.good\"; searched " +
              test::fs::canonical(dir.path()).string() + ", /nonexistent/plugins (does not exist)");
  }

  TEST_CASE("a refused file that is named for the id is the answer") {
    const test::TempDir dir;
    dir.take("test.host.wrongmajor.tenon.so", "org.example.variant.tenon.so");
    const auto r = test::make_registry({dir.path()})->create("org.example.variant", {});
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().detail.find("built for ABI 2.0") != std::string::npos);
  }

  TEST_CASE("list shows good, shadowed and refused files") {
    const test::TempDir first;
    const test::TempDir second;
    const auto used = test::fs::canonical(first.take("test.host.good110.tenon.so"));
    const auto crash = test::fs::canonical(first.take("test.host.ctorcrash.tenon.so"));
    const auto shadowed = test::fs::canonical(second.take("test.host.good.tenon.so"));
    second.take("test.host.good.tenon.so", "not-a-plugin-name.so");
    const auto all = test::make_registry({first.path(), second.path()})->list();
    CHECK(all.size() == 3);
    REQUIRE(find(all, used) != nullptr);
    CHECK(find(all, used)->refused.empty());
    REQUIRE(find(all, crash) != nullptr);
    CHECK(find(all, crash)->refused.find("SIGSEGV") != std::string::npos);
    REQUIRE(find(all, shadowed) != nullptr);
    CHECK(find(all, shadowed)->refused == "not used, " + used.string() + " comes first");
  }

  TEST_CASE("a linked-in plug-in wins over files and is registered once") {
    auto registry = test::make_registry();
    REQUIRE(registry->add_static(&test_services_entry).has_value());
    CHECK(registry->add_static(&test_services_entry).error().code == tenon::Errc::kConflict);
    const auto d = registry->describe("test.services");
    REQUIRE(d.has_value());
    CHECK(d.value().file.empty());
    CHECK(d.value().keys.size() == 2);
  }

  TEST_CASE("an absolute path names the only plug-in of a file") {
    auto registry = test::make_registry();
    CHECK(registry->create(test::plugin_file("test.host.good").string(), {}).value()->id() ==
          "org.example.good");
    const auto pair = registry->create(test::plugin_file("test.host.pair").string(), {});
    REQUIRE_FALSE(pair.has_value());
    CHECK(pair.error().detail.find("org.example.first-of-pair, org.example.second-of-pair") !=
          std::string::npos);
  }

  TEST_CASE("the environment adds folders") {
    const test::TempDir dir;
    dir.take("test.host.good.tenon.so", "org.example.good.tenon.so");
    ::setenv("TENON_PLUGIN_PATH", ("/nonexistent:" + dir.path().string()).c_str(), 1);
    tenon::host::RegistryOptions options;
    auto with = tenon::host::PluginRegistry::create(options);
    CHECK(with->describe("org.example.good").has_value());
    options.use_environment = false;
    auto without = tenon::host::PluginRegistry::create(options);
    CHECK_FALSE(without->describe("org.example.good").has_value());
    ::unsetenv("TENON_PLUGIN_PATH");
  }
}
