// Tokens of an SQL92 expression (spec: broker §9.2). The lexical grammar is in token.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::filter_sql92 {

enum class Kind : std::uint8_t {
  kEnd,
  kNot,
  kAnd,
  kOr,
  kBetween,
  kIn,
  kTrue,
  kFalse,
  kNull,
  kIs,
  kContains,  ///< 5.x only, as the next two
  kStartsWith,
  kEndsWith,
  kDecimal,
  kFloat,
  kString,
  kName,
  kEqual,
  kNotEqual,
  kGreater,
  kGreaterEqual,
  kLess,
  kLessEqual,
  kOpen,
  kComma,
  kClose,
  kMinus,
  kPlus,
};

/// As the parser's messages name it: `"NOT"`, `<ID>`.
std::string_view image_of(Kind kind) noexcept;

struct Token {
  Kind kind = Kind::kEnd;
  std::uint32_t begin = 0;  ///< byte position
  std::uint32_t end = 0;
};

/// The text is refused. `what` is the message that the Java filter gives to clients.
struct SyntaxError {
  std::string what{};
  std::uint32_t where = 0;  ///< byte position
};

/// Line and column of a byte as JavaCC counts them: UTF-16 units, tabs to the next multiple of 8.
struct Place {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

class Lexer {
 public:
  /// @param extended  the keywords of 5.x exist
  Lexer(std::string_view text, bool extended)
      : text_(text),
        extended_(extended) {}

  std::string_view text() const noexcept { return text_; }
  std::string_view text(const Token& token) const noexcept {
    return text_.substr(token.begin, token.end - token.begin);
  }
  /// The token at or behind `at`, white space and comments skipped. Throws SyntaxError.
  const Token& at(std::uint32_t at);
  /// Place of the token, of the last character if it is the end.
  Place place(const Token& token) const;

 private:
  void read(std::uint32_t at);
  [[noreturn]] void refuse(std::uint32_t begin) const;

  std::string_view text_;
  bool extended_;
  std::uint32_t asked_ = UINT32_MAX;  ///< what last_ was read for
  Token last_{};
};

/// JavaCC's escapes in messages: everything outside printable ASCII as \uXXXX per UTF-16 unit.
std::string escaped(std::string_view utf8);

}  // namespace tenon::filter_sql92
