#include "tenon/config/reader.h"

#include "tenon/config/printer.h"
#include "tenon/config/toml.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

using namespace tenon;
using config::Printer;
using config::Problems;
using config::Reader;
using config::Slot;

namespace {

enum class Flush { kAsync, kSync };

struct Sample {
  std::string name = "broker-a";
  std::uint16_t port = 10911;
  std::int64_t period_ms = 30'000;
  std::uint64_t limit_bytes = 4u << 20;
  std::int32_t level = -1;
  double share = 0.5;
  bool quick = false;
  Flush flush = Flush::kAsync;
  std::filesystem::path root = "/x";
  std::vector<std::string> hosts = {"a:1"};
  std::vector<std::int64_t> hours = {4};
  std::int64_t low = 1, high = 2;
  Slot storage{.plugin = "tenon.store.file"};
  std::vector<Slot> filters = {Slot{.plugin = "tenon.filter.tag"}};
  std::vector<std::pair<std::string, std::string>> levels;
};

constexpr std::string_view kLevels[] = {"debug", "info"};

void describe(config::Visitor& v, Sample& c) {
  v.table("broker", "Who it is.", [&] {
    v.key("name", &c.name, {.doc = "Name of the broker.", .rocketmq = "brokerName"});
    v.key("port", &c.port, {.doc = "Port.", .min = 1});
    v.key("period_ms", &c.period_ms, {.min = 1000, .max = 60'000});
    v.key("limit_bytes", &c.limit_bytes, {.min = 1});
    v.key("level", &c.level, {});
    v.key("share", &c.share, {});
    v.key("quick", &c.quick, {});
    v.choice("flush", c.flush, {{"async", Flush::kAsync}, {"sync", Flush::kSync}}, {});
    v.key("root", &c.root, {});
    v.key("hosts", &c.hosts, {});
    v.key("hours", &c.hours, {.min = 0, .max = 23});
    v.table("range", "A sub-table.", [&] {
      v.key("low", &c.low, {});
      v.key("high", &c.high, {});
      v.check("high", c.low < c.high, "high must be above low");
    });
  });
  v.slot("storage", c.storage, {.doc = "Where messages go.", .options_example = "a = 1\nb = 2"});
  v.slots("filter", c.filters, {.doc = "Filters."});
  v.words("levels", c.levels, kLevels, "Levels.");
}

struct Outcome {
  Sample value;
  Problems problems;
};

Outcome read(std::string_view text) {
  auto root = config::parse_toml(text, "f.toml");
  REQUIRE(root.has_value());
  Outcome out;
  Reader reader(root.value(), out.problems);
  describe(reader, out.value);
  reader.finish();
  return out;
}

std::string only_problem(std::string_view text) {
  const Outcome out = read(text);
  CAPTURE(text);
  REQUIRE(out.problems.count() == 1);
  return out.problems.lines()[0];
}

}  // namespace

TEST_SUITE("config/reader") {
  TEST_CASE("values of every type are taken") {
    const Outcome out = read(R"(
[broker]
name = "b"
port = 1
period_ms = "5s"
limit_bytes = "64KiB"
level = -7
share = 2
quick = true
flush = "sync"
root = "/y"
hosts = ["h:1", "h:2"]
hours = [1, 2]
[broker.range]
low = 5
high = 6
[levels]
net = "debug"
)");
    for (const auto& line : out.problems.lines()) {
      FAIL(line);
    }
    CHECK(out.value.name == "b");
    CHECK(out.value.port == 1);
    CHECK(out.value.period_ms == 5000);
    CHECK(out.value.limit_bytes == 65536);
    CHECK(out.value.level == -7);
    CHECK(out.value.share == 2.0);
    CHECK(out.value.quick);
    CHECK(out.value.flush == Flush::kSync);
    CHECK(out.value.root == "/y");
    CHECK(out.value.hosts == std::vector<std::string>{"h:1", "h:2"});
    CHECK(out.value.hours == std::vector<std::int64_t>{1, 2});
    CHECK(out.value.low == 5);
    REQUIRE(out.value.levels.size() == 1);
    CHECK(out.value.levels[0].first == "net");
  }
  TEST_CASE("an empty file leaves every default") {
    const Outcome out = read("");
    CHECK(out.problems.empty());
    CHECK(out.value.name == "broker-a");
    CHECK(out.value.storage.plugin == "tenon.store.file");
    CHECK(out.value.filters.size() == 1);
  }
  TEST_CASE("all problems come at once, each with its position") {
    const Outcome out = read(
        "[broker]\n"
        "nmae = \"x\"\n"
        "port = 70000\n"
        "period_ms = true\n"
        "  quick = 1\n"
        "flush = \"snyc\"\n"
        "hosts = [\"a\", 2]\n"
        "hours = [24]\n"
        "[brokr]\n");
    const std::vector<std::string> expected{
        "f.toml:2:1: unknown key broker.nmae, did you mean \"name\"",
        "f.toml:3:1: port = 70000 is out of range, 1 to 65535",
        "f.toml:4:1: period_ms must be an integer (milliseconds) or a text like \"5s\", not "
        "boolean",
        "f.toml:5:3: quick must be true or false, not integer",
        "f.toml:6:1: flush = \"snyc\" is not one of \"async\", \"sync\", did you mean "
        "\"sync\"",
        "f.toml:7:15: hosts must be an array of strings, not integer",
        "f.toml:8:10: hours = 24 is out of range, 0 to 23",

        "f.toml:9:2: unknown table brokr, did you mean \"broker\""};
    const auto lines = out.problems.lines();
    REQUIRE(lines.size() == expected.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      CHECK(lines[i] == expected[i]);
    }
    const auto result = out.problems.result();
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().code == Errc::kInvalid);
    CHECK(result.error().detail.starts_with("8 problems in the configuration\n  f.toml:2:1: "));
  }
  TEST_CASE("an integer where a text is expected is a wrong type, not absent") {
    CHECK(only_problem("[broker]\nname = 5\n") == "f.toml:2:1: name must be a string, not integer");
  }
  TEST_CASE("bad durations, sizes and floats") {
    CHECK(only_problem("[broker]\nperiod_ms = \"5 s\"\n").find("is not a duration") !=
          std::string::npos);
    CHECK(only_problem("[broker]\nlimit_bytes = \"5s\"\n").find("is not a size") !=
          std::string::npos);
    CHECK(only_problem("[broker]\nlimit_bytes = -1\n") ==
          "f.toml:2:1: limit_bytes = -1 is out of range, at least 1");
    CHECK(only_problem("[broker]\nport = 1.0\n") ==
          "f.toml:2:1: port must be an integer, not float");
    CHECK(only_problem("[broker]\nlevel = 3000000000\n").find("out of range") != std::string::npos);
  }
  TEST_CASE("a rule between keys is reported at the key") {
    CHECK(only_problem("[broker.range]\nlow = 9\nhigh = 3\n") ==
          "f.toml:3:1: high must be above low");
    CHECK(only_problem("[broker.range]\nlow = 9\n") == "f.toml:1:9: high must be above low");
  }
  TEST_CASE("twenty problems are shown, the rest is counted") {
    std::string text = "[broker]\n";
    for (int i = 0; i < 25; ++i) {
      text += "unheard_of_" + std::to_string(i) + " = 1\n";
    }
    const Outcome out = read(text);
    CHECK(out.problems.count() == 25);
    CHECK(out.problems.lines().size() == 20);
    CHECK(out.problems.result().error().detail.ends_with("\n  and 5 more"));
  }
}

TEST_SUITE("config/slots") {
  TEST_CASE("a slot with its options, which stay a tree with positions") {
    const Outcome out = read(
        "[storage]\nplugin = \"tenon.store.memory\"\nname = \"s\"\nrequired = false\n"
        "[storage.options]\nanything = { goes = [1] }\n");
    REQUIRE(out.problems.empty());
    CHECK(out.value.storage.plugin == "tenon.store.memory");
    CHECK(out.value.storage.name == "s");
    CHECK_FALSE(out.value.storage.required);
    CHECK(out.value.storage.where == "f.toml:1:2");
    const ConfigNode* anything = out.value.storage.options.find("anything");
    REQUIRE(anything != nullptr);
    CHECK(anything->where() == "f.toml:6:1");
  }
  TEST_CASE("options alone keep the default plug-in") {
    const Outcome out = read("[storage]\noptions = { a = 1 }\n");
    CHECK(out.problems.empty());
    CHECK(out.value.storage.plugin == "tenon.store.file");
    CHECK(out.value.storage.options.find("a") != nullptr);
  }
  TEST_CASE("a list in the file replaces the default list") {
    const Outcome out = read("[[filter]]\nplugin = \"a\"\n[[filter]]\npath = \"/p/b.tenon.so\"\n");
    REQUIRE(out.value.filters.size() == 2);
    CHECK(out.value.filters[0].id_or_path() == "a");
    CHECK(out.value.filters[1].id_or_path() == "/p/b.tenon.so");
  }
  TEST_CASE("mistakes in slots") {
    CHECK(only_problem("[storage]\nplguin = \"x\"\n") ==
          "f.toml:2:1: unknown key storage.plguin, did you mean \"plugin\"");
    CHECK(only_problem("[storage]\nplugin = \"x\"\npath = \"/y\"\n").find("both") !=
          std::string::npos);
    CHECK(only_problem("[storage]\npath = \"y\"\n").find("absolute") != std::string::npos);
    CHECK(only_problem("[storage]\noptions = 3\n") ==
          "f.toml:2:1: options must be a table, not integer");
    CHECK(only_problem("[filter]\nplugin = \"x\"\n").find("[[filter]]") != std::string::npos);
    CHECK(only_problem("[[filter]]\nname = \"x\"\n").find("neither") != std::string::npos);
    CHECK(only_problem("[levels]\nnet = \"loud\"\n").find("not one of") != std::string::npos);
  }
}

TEST_SUITE("config/printer") {
  TEST_CASE("what is printed reads back to the same values without a problem") {
    Sample changed;
    changed.name = "quote \" back \\ line \n tab \t";
    changed.period_ms = 1234;
    changed.limit_bytes = 3u << 20;
    changed.share = 0.1;
    changed.flush = Flush::kSync;
    changed.hosts = {};
    Printer printer;
    printer.heading("All keys.");
    describe(printer, changed);
    const Outcome out = read(printer.text());
    for (const auto& line : out.problems.lines()) {
      FAIL(line);
    }
    CHECK(out.value.name == changed.name);
    CHECK(out.value.period_ms == 1234);
    CHECK(out.value.limit_bytes == changed.limit_bytes);
    CHECK(out.value.share == 0.1);
    CHECK(out.value.flush == Flush::kSync);
    CHECK(out.value.hosts.empty());
    Printer again;
    again.heading("All keys.");
    Sample copy = out.value;
    describe(again, copy);
    CHECK(again.text() == printer.text());
  }
  TEST_CASE("a key is shown with its text, unit, range and RocketMQ name") {
    Sample sample;
    Printer printer;
    describe(printer, sample);
    CHECK(printer.text().find("# Name of the broker.\n# RocketMQ: brokerName.\nname = "
                              "\"broker-a\"\n") != std::string::npos);
    CHECK(printer.text().find("# Unit: ms, or a text like \"5s\". Range: 1000 to 60000.\n"
                              "period_ms = 30000\n") != std::string::npos);
    CHECK(printer.text().find("[storage]\nplugin = \"tenon.store.file\"\n# a = 1\n# b = 2\n") !=
          std::string::npos);
  }
  TEST_CASE("the list has every key with its path") {
    Sample sample;
    Printer printer;
    describe(printer, sample);
    REQUIRE(printer.entries().size() == 16);
    CHECK(printer.entries()[0].path == "broker.name");
    CHECK(printer.entries()[0].default_text == "\"broker-a\"");
    CHECK(printer.entries()[11].path == "broker.range.low");
    CHECK(printer.entries()[3].type == "size");
    CHECK(printer.entries()[3].default_text == "\"4MiB\"");
  }
  TEST_CASE("long comments are broken at blanks") {
    std::string name;
    Printer printer;
    std::string doc;
    for (int i = 0; i < 60; ++i) {
      doc += "word ";
    }
    printer.key("name", &name, {.doc = doc});
    std::size_t longest = 0, begin = 0;
    for (std::size_t end; (end = printer.text().find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      longest = std::max(longest, end - begin);
    }
    CHECK(longest <= 100);
    CHECK(longest > 80);
  }
}
