#include "token.h"

#include <fmt/format.h>

#include <array>
#include <tao/pegtl.hpp>
#include <utility>
#include <vector>

namespace tenon::filter_sql92 {
namespace {

namespace p = tao::pegtl;

// The lexical grammar. Longest match wins, as in a JavaCC lexer: longer forms stand first.
// clang-format off
struct LineComment : p::seq<p::string<'-', '-'>, p::star<p::not_one<'\n', '\r'>>, p::sor<p::string<'\r', '\n'>, p::one<'\n', '\r'>>> {};
struct BlockComment : p::seq<p::string<'/', '*'>, p::until<p::string<'*', '/'>>> {};
struct Skip : p::star<p::sor<p::one<' ', '\t', '\n', '\r', '\f'>, LineComment, BlockComment>> {};

struct Exponent : p::seq<p::one<'e', 'E'>, p::opt<p::one<'+', '-'>>, p::plus<p::digit>> {};
struct Float : p::sor<
    p::seq<p::plus<p::digit>, p::one<'.'>, p::star<p::digit>, p::opt<Exponent>>,
    p::seq<p::one<'.'>, p::plus<p::digit>, p::opt<Exponent>>,
    p::seq<p::plus<p::digit>, Exponent>> {};
struct Decimal : p::seq<p::sor<p::one<'0'>, p::seq<p::range<'1', '9'>, p::star<p::digit>>>, p::opt<p::one<'l', 'L'>>> {};
// Two quotes stand for one: adjoining strings are one token.
struct String : p::plus<p::seq<p::one<'\''>, p::star<p::not_one<'\''>>, p::one<'\''>>> {};
struct Name : p::seq<p::sor<p::alpha, p::one<'_', '$'>>, p::star<p::sor<p::alnum, p::one<'_', '$'>>>> {};

struct NotEqual : p::string<'<', '>'> {};
struct LessEqual : p::string<'<', '='> {};
struct GreaterEqual : p::string<'>', '='> {};
struct Less : p::one<'<'> {};
struct Greater : p::one<'>'> {};
struct Equal : p::one<'='> {};
struct Open : p::one<'('> {};
struct Comma : p::one<','> {};
struct Close : p::one<')'> {};
struct Minus : p::one<'-'> {};
struct Plus : p::one<'+'> {};
struct Any : p::sor<Float, Decimal, String, Name, NotEqual, LessEqual, GreaterEqual, Less, Greater, Equal, Open, Comma, Close, Minus, Plus> {};
// clang-format on

template <class Rule>
struct Found : p::nothing<Rule> {};
template <Kind kKind>
struct Is {
  static void apply0(Kind& out) noexcept { out = kKind; }
};
template <>
struct Found<Float> : Is<Kind::kFloat> {};
template <>
struct Found<Decimal> : Is<Kind::kDecimal> {};
template <>
struct Found<String> : Is<Kind::kString> {};
template <>
struct Found<Name> : Is<Kind::kName> {};
template <>
struct Found<NotEqual> : Is<Kind::kNotEqual> {};
template <>
struct Found<LessEqual> : Is<Kind::kLessEqual> {};
template <>
struct Found<GreaterEqual> : Is<Kind::kGreaterEqual> {};
template <>
struct Found<Less> : Is<Kind::kLess> {};
template <>
struct Found<Greater> : Is<Kind::kGreater> {};
template <>
struct Found<Equal> : Is<Kind::kEqual> {};
template <>
struct Found<Open> : Is<Kind::kOpen> {};
template <>
struct Found<Comma> : Is<Kind::kComma> {};
template <>
struct Found<Close> : Is<Kind::kClose> {};
template <>
struct Found<Minus> : Is<Kind::kMinus> {};
template <>
struct Found<Plus> : Is<Kind::kPlus> {};

constexpr std::array<std::pair<std::string_view, Kind>, 12> kKeywords{
    {{"NOT", Kind::kNot},
     {"AND", Kind::kAnd},
     {"OR", Kind::kOr},
     {"BETWEEN", Kind::kBetween},
     {"IN", Kind::kIn},
     {"TRUE", Kind::kTrue},
     {"FALSE", Kind::kFalse},
     {"NULL", Kind::kNull},
     {"IS", Kind::kIs},
     {"CONTAINS", Kind::kContains},
     {"STARTSWITH", Kind::kStartsWith},
     {"ENDSWITH", Kind::kEndsWith}}};
constexpr std::size_t kOldKeywords = 9;

bool same_word(std::string_view upper, std::string_view text) noexcept {
  if (upper.size() != text.size()) {
    return false;
  }
  for (std::size_t i = 0; i < upper.size(); ++i) {
    const char c = text[i];
    if (upper[i] != (c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c)) {
      return false;
    }
  }
  return true;
}

bool continues(char c) noexcept {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// Bytes of the character at `at`.
std::size_t width(std::string_view utf8, std::size_t at) noexcept {
  std::size_t n = 1;
  while (n < 4 && at + n < utf8.size() && continues(utf8[at + n])) {
    ++n;
  }
  return n;
}

std::uint32_t code_point(std::string_view utf8, std::size_t at, std::size_t n) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(utf8[at + i]); };
  switch (n) {
    case 1:
      return byte(0) < 0x80 ? byte(0) : 0xfffd;
    case 2:
      return (byte(0) & 0x1fu) << 6 | (byte(1) & 0x3fu);
    case 3:
      return (byte(0) & 0x0fu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
    default:
      return (byte(0) & 0x07u) << 18 | (byte(1) & 0x3fu) << 12 | (byte(2) & 0x3fu) << 6 |
             (byte(3) & 0x3fu);
  }
}

/// One UTF-16 unit of the text with the byte where its character starts.
struct CodeUnit {
  std::uint32_t value = 0;
  std::uint32_t byte = 0;
  Place place{};
};

/// The text as JavaCC's stream sees it.
std::vector<CodeUnit> units_of(std::string_view text, std::size_t stop) {
  constexpr std::uint32_t kTab = 8;
  std::vector<CodeUnit> units;
  std::uint32_t line = 1;
  std::uint32_t column = 0;
  bool after_cr = false;
  bool after_lf = false;
  const auto add = [&](std::uint32_t unit, std::size_t byte) {
    ++column;
    if (after_lf || (after_cr && unit != '\n')) {
      ++line;
      column = 1;
    }
    after_lf = unit == '\n';
    after_cr = unit == '\r';
    if (unit == '\t') {
      --column;
      column += kTab - column % kTab;
    }
    units.push_back({unit, static_cast<std::uint32_t>(byte), {line, column}});
  };
  for (std::size_t at = 0; at < stop;) {
    const std::size_t n = width(text, at);
    const std::uint32_t c = code_point(text, at, n);
    if (c >= 0x10000) {
      add(0xd800 + ((c - 0x10000) >> 10), at);
      add(0xdc00 + ((c - 0x10000) & 0x3ff), at);
    } else {
      add(c, at);
    }
    at += n;
  }
  return units;
}

void append_escaped(std::string& out, std::uint32_t unit) {
  switch (unit) {
    case '\b':
      out += "\\b";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\r':
      out += "\\r";
      return;
    case '"':
      out += "\\\"";
      return;
    case '\'':
      out += "\\'";
      return;
    case '\\':
      out += "\\\\";
      return;
    default:
      break;
  }
  if (unit < 0x20 || unit > 0x7e) {
    out += fmt::format("\\u{:04x}", unit);
  } else {
    out.push_back(static_cast<char>(unit));
  }
}

}  // namespace

std::string_view image_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::kEnd:
      return "<EOF>";
    case Kind::kNot:
      return "\"NOT\"";
    case Kind::kAnd:
      return "\"AND\"";
    case Kind::kOr:
      return "\"OR\"";
    case Kind::kBetween:
      return "\"BETWEEN\"";
    case Kind::kIn:
      return "\"IN\"";
    case Kind::kTrue:
      return "\"TRUE\"";
    case Kind::kFalse:
      return "\"FALSE\"";
    case Kind::kNull:
      return "\"NULL\"";
    case Kind::kIs:
      return "\"IS\"";
    case Kind::kContains:
      return "\"CONTAINS\"";
    case Kind::kStartsWith:
      return "\"STARTSWITH\"";
    case Kind::kEndsWith:
      return "\"ENDSWITH\"";
    case Kind::kDecimal:
      return "<DECIMAL_LITERAL>";
    case Kind::kFloat:
      return "<FLOATING_POINT_LITERAL>";
    case Kind::kString:
      return "<STRING_LITERAL>";
    case Kind::kName:
      return "<ID>";
    case Kind::kEqual:
      return "\"=\"";
    case Kind::kNotEqual:
      return "\"<>\"";
    case Kind::kGreater:
      return "\">\"";
    case Kind::kGreaterEqual:
      return "\">=\"";
    case Kind::kLess:
      return "\"<\"";
    case Kind::kLessEqual:
      return "\"<=\"";
    case Kind::kOpen:
      return "\"(\"";
    case Kind::kComma:
      return "\",\"";
    case Kind::kClose:
      return "\")\"";
    case Kind::kMinus:
      return "\"-\"";
    case Kind::kPlus:
      return "\"+\"";
  }
  return "";
}

std::string escaped(std::string_view utf8) {
  std::string out;
  for (const CodeUnit& unit : units_of(utf8, utf8.size())) {
    append_escaped(out, unit.value);
  }
  return out;
}

const Token& Lexer::at(std::uint32_t at) {
  if (at != asked_) {
    read(at);
    asked_ = at;
  }
  return last_;
}

void Lexer::read(std::uint32_t at) {
  using Input = p::memory_input<p::tracking_mode::lazy, p::eol::lf, const char*>;
  const char* const base = text_.data();
  Input in(base + at, base + text_.size(), "");
  p::parse<Skip>(in);
  last_.begin = last_.end = static_cast<std::uint32_t>(in.current() - base);
  last_.kind = Kind::kEnd;
  if (in.empty()) {
    return;
  }
  if (!p::parse<Any, Found>(in, last_.kind)) {
    refuse(last_.begin);
  }
  last_.end = static_cast<std::uint32_t>(in.current() - base);
  if (last_.kind != Kind::kName) {
    return;
  }
  const std::size_t n = extended_ ? kKeywords.size() : kOldKeywords;
  for (std::size_t i = 0; i < n; ++i) {
    if (same_word(kKeywords[i].first, text(last_))) {
      last_.kind = kKeywords[i].second;
      return;
    }
  }
}

/// A lexical error in JavaCC's words: the character that no token can contain at its place, or, if
/// there is nothing behind it, the end; and what of the token was read before.
void Lexer::refuse(std::uint32_t begin) const {
  const char first = text_[begin];
  std::size_t read = 1;  // units of the token, the refused one included
  const std::vector<CodeUnit> units = units_of(text_, text_.size());
  std::size_t start = 0;
  // In text that is no UTF-8 the byte may lie inside what counts as one character.
  while (start + 1 < units.size() && units[start].byte < begin) {
    ++start;
  }
  if (first == '\'') {
    read = units.size() - start;
  } else if (first == '.') {
    read = 2;
  } else if (first == '/') {
    const bool comment = begin + 1 < text_.size() && text_[begin + 1] == '*';
    read = comment ? units.size() - start : 2;
  }
  read = std::min(read, units.size() - start);
  const CodeUnit& refused = units[start + read - 1];
  const bool at_end = start + read == units.size();
  std::string after;
  for (std::size_t i = start; read > 1 && i < start + read - (at_end ? 0 : 1); ++i) {
    append_escaped(after, units[i].value);
  }
  Place place = refused.place;
  std::string what = "<EOF>";
  if (at_end) {
    const bool line_end = refused.value == '\n' || refused.value == '\r';
    place = line_end ? Place{place.line + 1, 0} : Place{place.line, place.column + 1};
  } else {
    what = "\"";
    append_escaped(what, refused.value);
    what += fmt::format("\" ({}),", refused.value);
  }
  throw SyntaxError{
      fmt::format("org.apache.rocketmq.filter.parser.TokenMgrError: Lexical error at line {}, "
                  "column {}.  Encountered: {} after : \"{}\"",
                  place.line,
                  place.column,
                  what,
                  after),
      refused.byte};
}

Place Lexer::place(const Token& token) const {
  const bool end = token.kind == Kind::kEnd;
  const std::vector<CodeUnit> units =
      units_of(text_, end ? text_.size() : token.begin + std::size_t{1});
  return units.empty() ? Place{} : units.back().place;
}

}  // namespace tenon::filter_sql92
