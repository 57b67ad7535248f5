// The inline helpers of types.h: error texts, property walker, size rule, strides.
#include "tenon/abi/storage.h"
#include "tenon/plugin/views.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

tenon_bytes as_bytes(std::string_view s) {
  return {reinterpret_cast<const std::uint8_t*>(s.data()), s.size()};
}

/// What a property walk yields as "name=value;...".
std::string walk(std::string_view text) {
  std::string out;
  std::size_t pos = 0;
  tenon_str name;
  tenon_str value;
  while (tenon_prop_next(as_bytes(text), &pos, &name, &value) != 0) {
    out += std::string(tenon::plugin::text(name)) + "=" + std::string(tenon::plugin::text(value)) +
           ";";
  }
  return out;
}

}  // namespace

TEST_SUITE("abi/helpers") {
  TEST_CASE("properties with and without a last separator") {
    CHECK(walk("TAGS\1TagA\2KEYS\1k1 k2") == "TAGS=TagA;KEYS=k1 k2;");
    CHECK(walk("TAGS\1TagA\2KEYS\1k1 k2\2") == "TAGS=TagA;KEYS=k1 k2;");
    CHECK(walk("").empty());
  }

  TEST_CASE("segments that are no properties are passed over") {
    CHECK(walk("a\1\2b\1x") == "b=x;");   // empty value
    CHECK(walk("\1v\2b\1x") == "b=x;");   // empty name
    CHECK(walk("junk\2b\1x") == "b=x;");  // no separator
    CHECK(walk("\2\2b\1x\2\2") == "b=x;");
    CHECK(walk("b\1x\1y") == "b=x\1y;");  // the first separator counts
  }

  TEST_CASE("find takes the last of duplicates") {
    tenon_str value{};
    const std::string_view text = "a\1first\2b\1x\2a\1last\2ab\1no";
    REQUIRE(tenon_prop_find(as_bytes(text), tenon_str_of("a"), &value) == 1);
    CHECK(tenon::plugin::text(value) == "last");
    CHECK(tenon_prop_find(as_bytes(text), tenon_str_of("c"), &value) == 0);
  }

  TEST_CASE("a failure text fits into any buffer and ends at a character") {
    CHECK(tenon_fail(nullptr, TENON_BUSY, "x") == TENON_BUSY);
    char buffer[8];
    std::memset(buffer, '#', sizeof buffer);
    tenon_error err{sizeof err, 0, 0, 0, buffer, 0, 0};
    CHECK(tenon_fail(&err, TENON_BUSY, "abc") == TENON_BUSY);
    CHECK(buffer[0] == '#');
    CHECK(err.len == 3);
    err.cap = 1;
    tenon_fail(&err, TENON_BUSY, "abc");
    CHECK(buffer[0] == 0);
    CHECK(buffer[1] == '#');
    err.cap = 4;
    tenon_fail(&err, TENON_BUSY, "ab\xc3\xa4");  // ä does not fit any more
    CHECK(std::string(buffer) == "ab");
    CHECK(err.len == 4);
    err.cap = 5;
    tenon_fail(&err, TENON_BUSY, "ab\xc3\xa4");
    CHECK(std::string(buffer) == "ab\xc3\xa4");
    CHECK(buffer[5] == '#');
  }

  TEST_CASE("the size rule copies the common prefix and nothing else") {
    struct Old {
      std::uint32_t size;
      std::uint32_t a;
    };
    struct New {
      std::uint32_t size;
      std::uint32_t a;
      std::uint64_t b;
    };
    const New newer{sizeof(New), 1, 2};
    Old own_old{};
    tenon_adopt(&own_old, sizeof own_old, &newer);
    CHECK(own_old.size == sizeof(Old));
    CHECK(own_old.a == 1);
    struct {
      Old old;
      std::uint64_t garbage;
    } older{{sizeof(Old), 3}, ~0ull};
    New own_new{0, 0, 99};
    tenon_adopt(&own_new, sizeof own_new, &older);
    CHECK(own_new.size == sizeof(Old));
    CHECK(own_new.a == 3);
    CHECK(own_new.b == 0);
    CHECK_FALSE(TENON_HAS_FIELD(&own_new, New, b));
    own_new.size = offsetof(New, b) + 4;  // half a member does not count
    CHECK_FALSE(TENON_HAS_FIELD(&own_new, New, b));
  }

  TEST_CASE("arrays are stepped by the stride of the caller") {
    struct Wide {
      tenon_extent known;
      std::uint64_t later;
    };
    const std::vector<Wide> wide{{{10, 1, 0}, ~0ull}, {{20, 2, 0}, ~0ull}, {{30, 3, 0}, ~0ull}};
    const tenon::plugin::Strided<const tenon_extent> view(
        &wide[0].known, sizeof(Wide), wide.size());
    std::uint64_t sum = 0;
    for (const tenon_extent& e : view) {
      sum += e.phys;
    }
    CHECK(sum == 60);
    CHECK(TENON_AT(tenon_extent, wide.data(), sizeof(Wide), 2)->phys == 30);
    CHECK(TENON_FITS(sizeof(tenon_extent), tenon_extent, bytes));
    CHECK_FALSE(TENON_FITS(8, tenon_extent, bytes));
  }

  TEST_CASE("exceptions become statuses with text") {
    tenon::plugin::ErrorText err;
    const auto thrown = [&](auto e) {
      try {
        throw e;
      } catch (...) {
        return tenon::plugin::fail_current_exception(err.raw());
      }
    };
    CHECK(thrown(tenon::plugin::Failure(TENON_FULL, "disk is full", 28)) == TENON_FULL);
    CHECK(err.text() == "disk is full");
    CHECK(err.raw()->os_errno == 28);
    CHECK(thrown(std::runtime_error("odd")) == TENON_INTERNAL);
    CHECK(err.text() == "odd");
    CHECK(thrown(std::bad_alloc()) == TENON_NOMEM);
    CHECK(thrown(7) == TENON_INTERNAL);
    CHECK(err.text() == "exception of unknown type");
  }
}
