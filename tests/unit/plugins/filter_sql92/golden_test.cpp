// What the filters of RocketMQ 4.9.8 and 5.3.3 make of some 240 expressions each: results, failures
// and the first line of the parser's messages (tests/data/filter, spec: broker §9.2 to §9.5).
#include "paths.h"
#include "sql.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

using namespace tenon::filter_sql92;

namespace {

struct Row {
  std::string expression;
  std::string expected;
};

std::vector<Row> rows(const std::string& file) {
  std::ifstream in(tenon::test::data_dir() + "/filter/" + file);
  REQUIRE(in);
  std::vector<Row> out;
  std::map<std::string, std::string> words{
      {"-> true (Boolean)", "true"}, {"-> false (Boolean)", "false"}, {"-> null", "null"}};
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) {
      continue;
    }
    std::size_t split = std::string::npos;
    std::string expected;
    for (const std::string mark : {" -> ", " COMPILE ", " eval throws "}) {
      if (const auto at = line.rfind(mark); at != std::string::npos && split == std::string::npos) {
        split = at;
        expected = line.substr(at + 1);
      }
    }
    REQUIRE_MESSAGE(split != std::string::npos, line);
    if (const auto word = words.find(expected); word != words.end()) {
      expected = word->second;
    } else if (expected.starts_with("eval throws")) {
      expected = "throws";
    } else {
      expected = expected.substr(std::string("COMPILE MQFilterException: ").size());
    }
    std::string text = line.substr(0, split);
    const bool blank = text.find_first_not_of(' ') == std::string::npos;
    text = blank ? "   " : text.substr(0, text.find_last_not_of(' ') + 1);
    if (const auto at = text.find("\\n"); at != std::string::npos) {
      text.replace(at, 2, "\n");
    }
    out.push_back({text, expected});
  }
  return out;
}

std::string run(const std::string& text, Dialect dialect) {
  static const std::map<std::string, std::string> kMessage{{"a", "5"},
                                                           {"b", "abc"},
                                                           {"c", "true"},
                                                           {"d", "1.5"},
                                                           {"e", ""},
                                                           {"s", "it's"},
                                                           {"TAGS", "TagA"},
                                                           {"z", "0"},
                                                           {"neg", "-3"},
                                                           {"big", "99999999999"},
                                                           {"exp", "1e3"}};
  try {
    const Program program = tenon::test::compiled(text, dialect);
    std::vector<std::string_view> values(program.properties().size());
    std::string stored;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto it = kMessage.find(program.properties()[i]);
      if (it != kMessage.end()) {
        values[i] = it->second;
        tenon::proto::append_property(stored, it->first, it->second);
      }
    }
    const Outcome outcome = program.evaluate(values.data());
    if (text.find('e') != 0) {  // an empty value is not stored
      CHECK(program.run(stored) == outcome);
    }
    return outcome == Outcome::kTrue      ? "true"
           : outcome == Outcome::kFalse   ? "false"
           : outcome == Outcome::kUnknown ? "null"
                                          : "throws";
  } catch (const SyntaxError& error) {
    return error.what.substr(0, error.what.find('\n'));
  }
}

void check_all(const std::string& file, Dialect dialect) {
  const std::vector<Row> all = rows(file);
  CHECK(all.size() > 235);
  for (const Row& row : all) {
    CAPTURE(row.expression);
    CHECK(run(row.expression, dialect) == row.expected);
  }
}

}  // namespace

TEST_SUITE("plugins/filter_sql92") {
  // broker §23.37: all rows of the table in 9.5 and the traps of 9.3 are among them.
  TEST_CASE("every recorded expression has the result of RocketMQ 4.9.8") {
    check_all("sql92-4.9.8.txt", Dialect::k4);
  }
  TEST_CASE("every recorded expression has the result of RocketMQ 5.3.3 in its dialect") {
    check_all("sql92-5.3.3.txt", Dialect::k5);
  }
}
