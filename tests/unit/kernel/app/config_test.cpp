#include "config/broker_program.h"
#include "config/namesrv_program.h"
#include "paths.h"

#include "tenon/config/printer.h"
#include "tenon/config/toml.h"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

using namespace tenon;
using namespace tenon::app;

namespace {

std::string content(const std::string& name) {
  std::ifstream in(std::string(TENON_CONFIGS) + "/" + name);
  REQUIRE(in.is_open());
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string broker_text() {
  const auto registry = host::PluginRegistry::create(
      {.search_path = {tenon::test::plugin_dir()}, .insecure = true, .use_environment = false});
  return broker_example(*registry);
}

Result<BrokerProgram> read(std::string_view text) {
  const auto root = config::parse_toml(text, "b.toml");
  REQUIRE(root.has_value());
  return read_broker_program(root.value());
}

}  // namespace

TEST_SUITE("app/config") {
  TEST_CASE("configs/*.toml are what the programs print (make them with `tenon config print`)") {
    CHECK(content("broker.toml") == broker_text());
    CHECK(content("namesrv.toml") == namesrv_example());
  }
  TEST_CASE("the example files read back to the defaults") {
    const auto broker = read(broker_text());
    REQUIRE(broker.has_value());
    BrokerProgram again = broker.value();
    config::Printer one, two;
    describe(one, again);
    BrokerProgram defaults;
    describe(two, defaults);
    CHECK(one.text() == two.text());
    CHECK(broker::validate(broker.value().broker).has_value());
    const auto root = config::parse_toml(namesrv_example(), "n.toml");
    REQUIRE(root.has_value());
    CHECK(read_namesrv_program(root.value()).has_value());
  }
  TEST_CASE("no key is described twice, every key has a text") {
    BrokerProgram defaults;
    config::Printer printer;
    describe(printer, defaults);
    std::set<std::string> seen;
    for (const auto& entry : printer.entries()) {
      CAPTURE(entry.path);
      CHECK(seen.insert(entry.path).second);
      CHECK_FALSE(entry.doc.empty());
    }
    CHECK(seen.contains("broker.cluster"));
    CHECK(seen.contains("filter"));
  }
  TEST_CASE("a whole configuration with plug-ins and their options") {
    const auto program = read(R"(
[broker]
name = "b1"
namesrv = ["10.0.0.1:9876", "10.0.0.2:9876"]
[send]
sync_flush = true
message_max_bytes = "1MiB"
[storage]
plugin = "tenon.store.memory"
options = { anything = 1 }
[[filter]]
plugin = "tenon.filter.tag"
[[filter]]
path = "/x/y.tenon.so"
required = false
[log]
level = "debug"
[log.levels]
net = "trace"
)");
    REQUIRE(program.has_value());
    const BrokerProgram& p = program.value();
    CHECK(p.broker.namesrv.size() == 2);
    CHECK(p.broker.sync_flush);
    CHECK(p.broker.message_max_bytes == 1u << 20);
    const auto slots = p.slots();
    CHECK(slots.storage.plugin == "tenon.store.memory");
    REQUIRE(slots.storage.options != nullptr);
    CHECK(slots.storage.options->find("anything") != nullptr);
    REQUIRE(slots.filters.size() == 2);
    CHECK(slots.filters[0].options == nullptr);
    CHECK(slots.filters[1].plugin == "/x/y.tenon.so");
    const auto log = p.log.options();
    CHECK(log.level == LogLevel::kDebug);
    REQUIRE(log.levels.size() == 1);
    CHECK(log.levels[0].second == LogLevel::kTrace);
  }
  // broker §23.1: Java starts with unknown keys; ours names them, so that no setting is lost unseen.
  TEST_CASE("problems of several tables come together") {
    const auto program = read("[broker]\nprot = 1\n[pull]\npull_count_disk = 0\n[stroage]\n");
    REQUIRE_FALSE(program.has_value());
    const std::string& text = program.error().detail;
    CHECK(text.find("b.toml:2:1: unknown key broker.prot, did you mean \"port\"") !=
          std::string::npos);
    CHECK(text.find("b.toml:4:1: pull_count_disk = 0 is out of range, 1 to 1024") !=
          std::string::npos);
    CHECK(text.find("unknown table stroage, did you mean \"storage\"") != std::string::npos);
  }
}
