// What a hostile expression can ask for, and whole messages of the parser.
#include "sql.h"

#include <doctest/doctest.h>

#include <string>

using namespace tenon::filter_sql92;
using tenon::test::raw;
using tenon::test::result;

namespace {

std::string message(std::string_view text, Dialect dialect = Dialect::k4, Limits limits = {}) {
  try {
    const Program program = compile(text, dialect, limits);
    return {};
  } catch (const SyntaxError& error) {
    return error.what;
  }
}

std::string repeat(std::string_view part, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) {
    out += part;
  }
  return out;
}

}  // namespace

TEST_SUITE("plugins/filter_sql92") {
  TEST_CASE("nesting is limited, and the limit itself is allowed") {
    const auto nested = [](int n) { return repeat("(", n) + "a = 5" + repeat(")", n); };
    CHECK(result(nested(200), raw({{"a", "5"}})) == "true");
    CHECK(message(nested(201)) == "the expression is nested deeper than 200");
    CHECK(message(repeat("(", 1'000)) == "the expression is nested deeper than 200");
    CHECK(message(repeat("NOT ", 15'000)) == "the expression is nested deeper than 200");
    CHECK(message(repeat("+", 30'000)) == "the expression is nested deeper than 200");
    CHECK(message(repeat("- ", 30'000)) == "the expression is nested deeper than 200");
    Limits deep;
    deep.depth_max = 400;
    CHECK(message(nested(400), Dialect::k4, deep).empty());
    CHECK(message(repeat("+", 400) + "a", Dialect::k4, deep).empty());
  }
  TEST_CASE("a long chain is not deep") {
    std::string chain = "a = 0";
    for (int i = 1; i < 3'000; ++i) {
      chain += " OR a = " + std::to_string(i);
    }
    CHECK(result(chain, raw({{"a", "2999"}})) == "true");
    CHECK(result(chain, raw({{"a", "3000"}})) == "false");
  }
  TEST_CASE("operands wait on a stack that is large enough or the expression is refused") {
    // Each level leaves three values behind.
    const auto waiting = [](int n) {
      return repeat("x = 1 OR y = 1 AND TRUE = (", n) + "a = 5" + repeat(")", n);
    };
    CHECK(result(waiting(200), raw({{"a", "5"}})) == "null");
    Limits deep;
    deep.depth_max = 400;
    CHECK(message(waiting(400), Dialect::k4, deep) == "the expression is too deep");
  }
  TEST_CASE("length, constants and properties are limited") {
    CHECK(message("a = '" + std::string(70'000, 'x') + "'") ==
          "the expression has 70006 bytes, more than 65536");
    std::string list = "a IN ('0'";
    for (int i = 1; i < 4'097; ++i) {
      list += ",'" + std::to_string(i) + "'";
    }
    CHECK(message(list + ")") == "more than 4096 constants");
    std::string names = "p0 = 1";
    for (int i = 1; i < 257; ++i) {
      names += " OR p" + std::to_string(i) + " = 1";
    }
    CHECK(message(names) == "more than 256 different properties");
  }
  TEST_CASE("messages list what was expected, line by line") {
    CHECK(message("a = 5 AND") ==
          "org.apache.rocketmq.filter.parser.ParseException: Encountered \"<EOF>\" at line 1, "
          "column 9.\nWas expecting one of:\n    \"NOT\" ...\n    \"TRUE\" ...\n    \"FALSE\" "
          "...\n    \"NULL\" ...\n    <DECIMAL_LITERAL> ...\n    <FLOATING_POINT_LITERAL> ...\n   "
          " <STRING_LITERAL> ...\n    <ID> ...\n    \"(\" ...\n    \"-\" ...\n    ");
    CHECK(message("a IN (5)") ==
          "org.apache.rocketmq.filter.parser.ParseException: Encountered \" <DECIMAL_LITERAL> \"5 "
          "\"\" at line 1, column 7.\nWas expecting:\n    <STRING_LITERAL> ...\n    ");
    CHECK(message("(a IS NULL")
              .ends_with("Was expecting one of:\n    \"AND\" ...\n    \"OR\" "
                         "...\n    \"IS\" ...\n    \"=\" ...\n    \"<>\" ...\n  "
                         "  \")\" ...\n    "));
  }
  TEST_CASE("a refused text tells the byte") {
    try {
      const Program program = compile("a = 5 AND ! b", Dialect::k4, {});
      FAIL("accepted");
    } catch (const SyntaxError& error) {
      CHECK(error.where == 10);
    }
  }
  TEST_CASE("doubles are read and shown as Java does") {
    double d = 0;
    for (const char* text : {"1.5", " 1.5 ", "+1.5", "15e-1", "1.5d", "1.5F", "0x1.8p0"}) {
      CAPTURE(text);
      REQUIRE(parse_double(text, d));
      CHECK(d == 1.5);
    }
    for (const char* text : {"", ".", "e1", "1e", "0x1", "nan", "inf", "1.5 x", "--1", "1_0"}) {
      CAPTURE(text);
      CHECK_FALSE(parse_double(text, d));
    }
    CHECK(parse_double("1e999999999999999999", d));
    CHECK(d > 1e308);
    CHECK(parse_double("1e-400", d));
    CHECK(d == 0);
    CHECK(parse_double("0x1p99999", d));
    CHECK(d > 1e308);
    CHECK(java_text(1000) == "1000.0");
    CHECK(java_text(1e7) == "1.0E7");
    CHECK(java_text(1.5e-10) == "1.5E-10");
    CHECK(java_text(4.9e-324) == "4.9E-324");
  }
  TEST_CASE("the normal form names what was compiled") {
    const auto normal = [](std::string_view text) {
      return tenon::test::compiled(text, Dialect::k5).normalised();
    };
    CHECK(normal("a between 1 and 2.0 or not (b in ('x''y')) = TRUE") ==
          "(((a >= 1) && (a <= 2.0)) || ((NOT b IN ( x'y )) == TRUE))");
    CHECK(normal("-a <> 'it''s' ignored") == "(NOT ((- a) == 'it''s'))");
    CHECK(normal("a is not null and b not endswith 'x'") ==
          "((NOT (a == NULL)) && (NOT ENDSWITH b))");
  }
}
