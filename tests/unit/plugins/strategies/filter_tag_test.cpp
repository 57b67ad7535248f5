#include "loaded.h"
#include "tag_expression.h"

#include "tenon/abi/entry.h"
#include "tenon/abi/filter.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

extern "C" {
extern const tenon_entry tenon_entry_filter_tag;
}

namespace {

using tenon::filter_tag::TagExpression;

class Filter {
 public:
  Filter()
      : plugin_(tenon_entry_filter_tag, "tenon.filter.tag", TENON_FILTER_IID) {}

  tenon_status compile(std::string_view text, std::string_view type = "TAG") {
    tenon::host::ErrorBuffer error;
    tenon_filter_expr* e = nullptr;
    const tenon_status status = plugin_->compile(
        plugin_.self(), {type.data(), type.size()}, {text.data(), text.size()}, 0, &e, error.raw());
    if (status == TENON_OK) {
      release();
      expression_ = e;
    } else {
      complaint = error.make_error(status).detail;
    }
    return status;
  }
  ~Filter() { release(); }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  int index(std::int64_t tags_code) {
    tenon_index_entry entry{};
    entry.tags_code = tags_code;
    std::uint8_t verdict = 9;
    plugin_->match_index(plugin_.self(), expression_, &entry, sizeof entry, 1, &verdict);
    return verdict;
  }
  int properties(std::string_view text) {
    const tenon_bytes raw{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
    std::uint8_t verdict = 9;
    plugin_->match_properties(plugin_.self(), expression_, &raw, 1, &verdict);
    return verdict;
  }

  std::string complaint;

 private:
  void release() {
    if (expression_ != nullptr) {
      plugin_->release(plugin_.self(), expression_);
    }
  }
  tenon::test::Loaded<tenon_filter> plugin_;
  tenon_filter_expr* expression_ = nullptr;
};

std::vector<std::string> tags(std::string_view text) {
  return TagExpression(text).tags();
}
using Tags = std::vector<std::string>;

}  // namespace

TEST_SUITE("plugins/filter_tag") {
  TEST_CASE("texts are taken apart as Java does (broker.md §9.1)") {
    CHECK(TagExpression("").matches_all());
    CHECK(TagExpression("*").matches_all());
    CHECK(tags("TagA") == Tags{"TagA"});
    CHECK(tags("TagA || TagB") == Tags{"TagA", "TagB"});
    CHECK(tags("||TagA||||TagB||") == Tags{"TagA", "TagB"});
    CHECK(tags("\t TagA \r\n||TagA") == Tags{"TagA"});
    CHECK(tags("a|b") == Tags{"a|b"});
    CHECK(tags("a|||b") == Tags{"a", "|b"});
    CHECK(tags("|") == Tags{"|"});
    // Only the exact text "*" is everything; with blanks, or as a part, it is a tag called "*".
    CHECK(tags(" * ") == Tags{"*"});
    CHECK(tags("TagA || *") == Tags{"TagA", "*"});
    // U+00A0 is above U+0020 and stays.
    CHECK(tags("\u00a0x") == Tags{"\u00a0x"});
    CHECK(tags(" || ") == Tags{});
    CHECK_FALSE(TagExpression(" || ").matches(0));
    CHECK_FALSE(TagExpression::is_legal("||"));
    CHECK_FALSE(TagExpression::is_legal("||||"));
    CHECK(TagExpression::is_legal("|||"));
  }
  TEST_CASE("the hash of the index decides, collisions pass") {
    Filter filter;
    REQUIRE(filter.compile("TagA || 订单 || Aa") == TENON_OK);
    CHECK(filter.index(2598919) == TENON_MATCH_YES);
    CHECK(filter.index(2598920) == TENON_MATCH_NO);
    CHECK(filter.index(1129459) == TENON_MATCH_YES);
    CHECK(filter.index(tenon::proto::java_hash("BB")) == TENON_MATCH_YES);
    CHECK(filter.index(0) == TENON_MATCH_NO);
    // The index holds the sign-extended hash; only the low half counts.
    REQUIRE(filter.compile("polygenelubricants") == TENON_OK);
    CHECK(filter.index(-2147483648LL) == TENON_MATCH_YES);
    CHECK(filter.index(0x80000000LL) == TENON_MATCH_YES);
  }
  TEST_CASE("everything matches everything, also without a tag") {
    Filter filter;
    REQUIRE(filter.compile("*") == TENON_OK);
    CHECK(filter.index(0) == TENON_MATCH_YES);
    CHECK(filter.properties("") == TENON_MATCH_YES);
  }
  TEST_CASE("properties are looked at in place") {
    Filter filter;
    REQUIRE(filter.compile("TagA") == TENON_OK);
    CHECK(filter.properties("KEYS\x01k\x02TAGS\x01TagA\x02") == TENON_MATCH_YES);
    CHECK(filter.properties("TAGS\x01TagB") == TENON_MATCH_NO);
    CHECK(filter.properties("KEYS\x01TagA\x02") == TENON_MATCH_NO);
    CHECK(filter.properties("") == TENON_MATCH_NO);
  }
  TEST_CASE("errors: another type, separators only, no limit") {
    Filter filter;
    CHECK(filter.compile("a > 1", "SQL92") == TENON_UNSUPPORTED);
    CHECK(filter.complaint.find("SQL92") != std::string::npos);
    CHECK(filter.compile("||") == TENON_INVALID);
    CHECK(filter.complaint.find("subString split error") != std::string::npos);
    CHECK(filter.compile(std::string(2 << 20, 'x')) == TENON_LIMIT);
  }
  TEST_CASE("sets of any size agree with a plain set") {
    std::mt19937 random(20261130);
    for (const int size : {1, 2, 7, 8, 9, 10, 100, 5000}) {
      std::string text;
      std::set<std::int32_t> codes;
      for (int i = 0; i < size; ++i) {
        const std::string tag = "t" + std::to_string(random());
        text += (i != 0 ? "||" : "") + tag;
        codes.insert(tenon::proto::java_hash(tag));
      }
      const TagExpression expression(text);
      for (const std::int32_t code : codes) {
        CHECK(expression.matches(code));
      }
      for (int i = 0; i < 5000; ++i) {
        const auto code = static_cast<std::int32_t>(random());
        REQUIRE(expression.matches(code) == codes.contains(code));
      }
    }
  }
}
