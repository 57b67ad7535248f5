#include "tenon/config/toml.h"

#include <doctest/doctest.h>

#include <string>

using namespace tenon;
using config::parse_toml;

namespace {

std::string failure(std::string_view text) {
  const auto r = parse_toml(text, "x.toml");
  REQUIRE_FALSE(r.has_value());
  return r.error().detail;
}

}  // namespace

TEST_SUITE("config/toml") {
  TEST_CASE("all kinds of values, in file order, with the position of their key") {
    const auto root = parse_toml(
        "zeta = 1\n"
        "alpha = \"text\"\n"
        "[sub]\n"
        "  yes = true\n"
        "  half = 0.5\n"
        "  list = [1, [2, 3]]\n"
        "[[filter]]\n"
        "plugin = \"a\"\n"
        "[[filter]]\n"
        "plugin = \"b\"\n",
        "b.toml");
    REQUIRE(root.has_value());
    const auto& table = std::get<ConfigNode::Table>(root.value().value);
    REQUIRE(table.size() == 4);
    CHECK(table[0].first == "zeta");
    CHECK(table[1].first == "alpha");
    CHECK(std::get<std::string>(table[1].second.value) == "text");
    CHECK(table[1].second.where() == "b.toml:2:1");
    const ConfigNode* sub = root.value().find("sub");
    REQUIRE(sub != nullptr);
    CHECK(sub->find("yes")->where() == "b.toml:4:3");
    CHECK(std::get<double>(sub->find("half")->value) == 0.5);
    const auto& list = std::get<ConfigNode::Array>(sub->find("list")->value);
    CHECK(std::get<std::int64_t>(list[0].value) == 1);
    CHECK(list[1].where() == "b.toml:6:14");
    const auto& filters = std::get<ConfigNode::Array>(root.value().find("filter")->value);
    REQUIRE(filters.size() == 2);
    CHECK(std::get<std::string>(filters[1].find("plugin")->value) == "b");
    CHECK(filters[1].line == 9);
  }
  TEST_CASE("a syntax error says where and why") {
    CHECK(failure("a = 1\nb = = 2\n").starts_with("x.toml:2:5: "));
    CHECK(failure("a = 1\na = 2\n").starts_with("x.toml:2:"));
    CHECK(failure("a = \"never closed").starts_with("x.toml:1:"));
    CHECK(failure("a = \xff\xfe").find('\n') == std::string::npos);
  }
  TEST_CASE("nesting without end is an error, not a crash") {
    CHECK(failure("a = " + std::string(100'000, '[')).starts_with("x.toml:1:"));
  }
  TEST_CASE("dates are refused with their position") {
    CHECK(failure("a = 1\nb = 2020-01-01\n").starts_with("x.toml:2:1: a date"));
  }
  TEST_CASE("a text above the limit is refused") {
    const auto r = parse_toml(std::string(config::kTomlMaxBytes + 1, '#'), "x.toml");
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().code == Errc::kLimit);
  }
  TEST_CASE("an empty text is an empty table") {
    const auto r = parse_toml("", "x.toml");
    REQUIRE(r.has_value());
    CHECK(std::get<ConfigNode::Table>(r.value().value).empty());
  }
  TEST_CASE("files that are absent or no files") {
    const auto absent = config::parse_toml_file("/nonexistent/x.toml");
    REQUIRE_FALSE(absent.has_value());
    CHECK(absent.error().code == Errc::kNotFound);
    CHECK(absent.error().detail.find("/nonexistent/x.toml") != std::string::npos);
    CHECK(config::parse_toml_file("/").error().code == Errc::kIo);
  }
}
