#include "tenon/base/similar.h"

#include "tenon/base/units.h"

#include <doctest/doctest.h>

#include <string_view>
#include <vector>

using namespace tenon;

TEST_SUITE("base/similar") {
  TEST_CASE("distance counts insertions, deletions, replacements and swaps") {
    CHECK(edit_distance("flush", "flush") == 0);
    CHECK(edit_distance("flsh", "flush") == 1);
    CHECK(edit_distance("fluush", "flush") == 1);
    CHECK(edit_distance("flish", "flush") == 1);
    CHECK(edit_distance("fulsh", "flush") == 1);
    CHECK(edit_distance("", "abc") == 3);
    CHECK(edit_distance("listenPort", "listenport") == 0);
  }
  TEST_CASE("the nearest name is proposed, a far one is not") {
    const std::vector<std::string_view> known = {"flush_interval_ms", "flush_pages", "listen"};
    CHECK(similar_name("flsh_interval_ms", known) == "flush_interval_ms");
    CHECK(similar_name("flush_page", known) == "flush_pages");
    CHECK_FALSE(similar_name("colour", known).has_value());
    CHECK(did_you_mean("listn", known) == ", did you mean \"listen\"");
    CHECK(did_you_mean("zzz", known).empty());
  }
  TEST_CASE("a name without end is not compared") {
    const std::vector<std::string_view> known = {"listen"};
    CHECK_FALSE(similar_name(std::string(1'000'000, 'l'), known).has_value());
  }
}

TEST_SUITE("base/units") {
  TEST_CASE("durations") {
    CHECK(parse_duration_ms("250ms").value() == 250);
    CHECK(parse_duration_ms("5s").value() == 5000);
    CHECK(parse_duration_ms("2m").value() == 120'000);
    CHECK(parse_duration_ms("1h").value() == 3'600'000);
    CHECK(parse_duration_ms("3d").value() == 259'200'000);
    for (const char* bad : {"", "5", "s", "-5s", "5 s", "5S", "1.5s", "5KiB", "-0s"}) {
      CAPTURE(bad);
      REQUIRE_FALSE(parse_duration_ms(bad).has_value());
      CHECK(parse_duration_ms(bad).error().code == Errc::kInvalid);
    }
    CHECK(parse_duration_ms("9223372036854775807ms").has_value());
    CHECK(parse_duration_ms("9223372036854775807s").error().code == Errc::kLimit);
    CHECK(parse_duration_ms("99999999999999999999ms").error().code == Errc::kLimit);
  }
  TEST_CASE("sizes are powers of 1024") {
    CHECK(parse_size_bytes("512B").value() == 512);
    CHECK(parse_size_bytes("64KiB").value() == 65536);
    CHECK(parse_size_bytes("1GiB").value() == 1'073'741'824);
    CHECK(parse_size_bytes("64KB").error().code == Errc::kInvalid);
    CHECK(parse_size_bytes("8388608TiB").error().code == Errc::kLimit);
  }
  TEST_CASE("the formatted form is exact and reads back") {
    CHECK(format_duration_ms(0) == "0ms");
    CHECK(format_duration_ms(1500) == "1500ms");
    CHECK(format_duration_ms(259'200'000) == "3d");
    CHECK(format_size_bytes(0) == "0B");
    CHECK(format_size_bytes(1'073'741'824) == "1GiB");
    CHECK(format_size_bytes(1000) == "1000B");
    for (const std::int64_t ms : {1LL, 999LL, 60'000LL, 86'400'000LL, 86'400'001LL}) {
      CHECK(parse_duration_ms(format_duration_ms(ms)).value() == ms);
    }
  }
}
