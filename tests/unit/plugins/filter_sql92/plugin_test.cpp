// The plug-in through the registry: types, options, errors, verdicts, explanation.
#include "../strategies/loaded.h"
#include "sql.h"

#include "tenon/abi/entry.h"
#include "tenon/abi/filter.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
extern const tenon_entry tenon_entry_filter_sql92;
}

using tenon::test::raw;

namespace {

tenon_str str(std::string_view s) {
  return {s.data(), s.size()};
}

class Plugin {
 public:
  explicit Plugin(std::string_view options = {})
      : plugin_(tenon_entry_filter_sql92, "tenon.filter.sql92", TENON_FILTER_IID, options) {}
  ~Plugin() { release(); }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const std::string& failure() const { return plugin_.failure(); }
  tenon_status compile(std::string_view text, std::string_view type = "SQL92") {
    release();
    tenon::host::ErrorBuffer error;
    const tenon_status status =
        plugin_->compile(plugin_.self(), str(type), str(text), 0, &expression_, error.raw());
    complaint = status < 0 ? error.make_error(status).detail : "";
    return status;
  }
  tenon_status validate(std::string_view text, std::uint32_t& where) {
    tenon::host::ErrorBuffer error;
    return plugin_->validate(plugin_.self(), str("SQL92"), str(text), &where, error.raw());
  }
  std::vector<int> verdicts(const std::vector<std::string>& messages) {
    std::vector<tenon_bytes> in;
    for (const std::string& m : messages) {
      in.push_back({reinterpret_cast<const std::uint8_t*>(m.data()), m.size()});
    }
    std::vector<std::uint8_t> out(in.size(), 9);
    plugin_->match_properties(plugin_.self(), expression_, in.data(), in.size(), out.data());
    return {out.begin(), out.end()};
  }
  int index_verdict() {
    tenon_index_entry entry{};
    std::uint8_t verdict = 9;
    plugin_->match_index(plugin_.self(), expression_, &entry, sizeof entry, 1, &verdict);
    return verdict;
  }
  std::map<std::string, std::string> explain() {
    std::map<std::string, std::string> facts;
    tenon_sink sink{};
    sink.size = sizeof sink;
    sink.ctx = &facts;
    sink.put = [](void* ctx, const tenon_kv* kv, std::size_t n) noexcept {
      for (std::size_t i = 0; i < n; ++i) {
        static_cast<std::map<std::string, std::string>*>(ctx)->emplace(
            std::string(kv[i].key.ptr, kv[i].key.len),
            std::string(kv[i].value.ptr, kv[i].value.len));
      }
    };
    plugin_->explain(plugin_.self(), expression_, &sink);
    return facts;
  }

  std::string complaint;

 private:
  void release() {
    if (expression_ != nullptr) {
      plugin_->release(plugin_.self(), expression_);
      expression_ = nullptr;
    }
  }

  tenon::test::Loaded<tenon_filter> plugin_;
  tenon_filter_expr* expression_ = nullptr;
};

}  // namespace

TEST_SUITE("plugins/filter_sql92") {
  TEST_CASE("only TRUE matches; the index alone decides nothing") {
    Plugin plugin;
    REQUIRE(plugin.compile("price > 10 AND region = 'east'") == TENON_OK);
    CHECK(plugin.verdicts({raw({{"price", "11"}, {"region", "east"}}),
                           raw({{"price", "10"}, {"region", "east"}}),
                           raw({{"region", "east"}}),
                           raw({{"price", "x"}, {"region", "east"}}),
                           ""}) == std::vector<int>{1, 0, 0, 0, 0});
    CHECK(plugin.index_verdict() == TENON_MATCH_UNDECIDED);
  }
  TEST_CASE("the last of several equal properties counts, broken ones are skipped") {
    Plugin plugin;
    REQUIRE(plugin.compile("a = 5") == TENON_OK);
    CHECK(plugin.verdicts({"a\x01"
                           "4\x02"
                           "a\x01"
                           "5",
                           "a\x01"
                           "5\x02"
                           "a\x01\x02"
                           "a",
                           "a\x01"
                           "5\x02"
                           "a\x01"
                           "4\x02"}) == std::vector<int>{1, 1, 0});
  }
  TEST_CASE("errors carry the parser's message, and validate the place") {
    Plugin plugin;
    CHECK(plugin.compile("a > '3'") == TENON_INVALID);
    CHECK(plugin.complaint.find("java.lang.RuntimeException: Value ''3'' cannot be compared.") !=
          std::string::npos);
    CHECK(plugin.compile("*", "TAG") == TENON_UNSUPPORTED);
    std::uint32_t where = 0;
    CHECK(plugin.validate("a = 5 AND AND", where) == TENON_INVALID);
    CHECK(where == 10);
    CHECK(plugin.validate("a = 5", where) == TENON_OK);
  }
  TEST_CASE("the dialect is chosen by an option") {
    Plugin five("dialect = \"5.x\"");
    REQUIRE(five.compile("b NOT CONTAINS 'z'") == TENON_OK);
    CHECK(five.verdicts({raw({{"b", "abc"}}), raw({{"b", "xyz"}})}) == std::vector<int>{1, 0});
    Plugin four;
    CHECK(four.compile("b NOT CONTAINS 'z'") == TENON_INVALID);
    CHECK(Plugin("dialect = \"6\"").failure().find("must be 4.9 or 5.x") != std::string::npos);
    CHECK(Plugin("depth_max = 0").failure().find("must be 1 to 400") != std::string::npos);
    CHECK(Plugin("text_max = \"1MiB\"").failure().empty());
    CHECK(Plugin("text_max = \"2MiB\"").failure().find("must be from 64 bytes") !=
          std::string::npos);
    CHECK(Plugin("constant_max = 0").failure().find("1 to 100000") != std::string::npos);
  }
  TEST_CASE("an expression explains itself") {
    Plugin plugin;
    REQUIRE(plugin.compile("a between 1 and 2 and b in ('x', 'y')") == TENON_OK);
    const auto facts = plugin.explain();
    CHECK(facts.at("expression") == "(((a >= 1) && (a <= 2)) && b IN ( x, y ))");
    CHECK(facts.at("properties") == "a b");
    CHECK(facts.at("constants") == "4");
    CHECK(facts.at("cost") == "properties");
  }
}
