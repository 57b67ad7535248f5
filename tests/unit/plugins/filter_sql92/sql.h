// Compiles and evaluates in one line.
#pragma once

#include "compile.h"

#include "tenon/proto/properties.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::test {

using Properties = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// As the store has them.
inline std::string raw(Properties properties) {
  std::string out;
  for (const auto& [name, value] : properties) {
    // Trap: written by hand, so that an empty value is there to be skipped.
    out += out.empty() ? "" : "\x02";
    out += std::string(name) + "\x01" + std::string(value);
  }
  return out;
}

inline filter_sql92::Program compiled(std::string_view text,
                                      filter_sql92::Dialect dialect = filter_sql92::Dialect::k4) {
  return filter_sql92::compile(text, dialect, {});
}

/// "true", "false", "null", "throws", or the parser's message.
inline std::string result(std::string_view text,
                          std::string_view properties,
                          filter_sql92::Dialect dialect = filter_sql92::Dialect::k4) {
  using filter_sql92::Outcome;
  try {
    switch (compiled(text, dialect).run(properties)) {
      case Outcome::kTrue:
        return "true";
      case Outcome::kFalse:
        return "false";
      case Outcome::kUnknown:
        return "null";
      case Outcome::kFailed:
        return "throws";
    }
  } catch (const filter_sql92::SyntaxError& error) {
    return error.what;
  }
  return {};
}

}  // namespace tenon::test
