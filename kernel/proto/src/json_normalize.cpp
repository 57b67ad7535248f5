#include "json_normalize.h"

#include "json_escape.h"
#include "json_scan.h"

#include <fmt/format.h>

namespace tenon::proto::detail {
namespace {

/// An object inside a key inside a key would grow exponentially by its escapes; nobody writes it.
constexpr int kKeyNestingMax = 1;

bool is_name_char(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '$' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}

class Normalizer {
 public:
  explicit Normalizer(std::string_view text) noexcept
      : begin_(text.data()),
        p_(text.data()),
        end_(text.data() + text.size()) {}

  bool document(std::string& out) {
    if (!value(out, 0)) {
      return false;
    }
    skip_space();
    return p_ == end_ || fail("data after the document");
  }
  Error error() const {
    return Error{Errc::kInvalid, fmt::format("JSON: {} at byte {}", reason_, p_ - begin_)};
  }

 private:
  bool fail(const char* reason) noexcept {
    reason_ = reason;
    return false;
  }

  void skip_space() noexcept {
    for (;;) {
      while (p_ != end_ && (*p_ == ' ' || *p_ == '\t' || *p_ == '\n' || *p_ == '\r' ||
                            *p_ == '\f' || *p_ == '\b')) {
        ++p_;
      }
      if (end_ - p_ < 2 || *p_ != '/') {
        return;
      }
      const std::string_view rest(p_, static_cast<std::size_t>(end_ - p_));
      if (p_[1] == '/') {
        const std::size_t stop = rest.find('\n');
        p_ = stop == std::string_view::npos ? end_ : p_ + stop;
      } else if (p_[1] == '*') {
        const std::size_t stop = rest.find("*/", 2);
        p_ = stop == std::string_view::npos ? end_ : p_ + stop + 2;
      } else {
        return;
      }
    }
  }
  void skip_space_and_commas() noexcept {
    for (skip_space(); p_ != end_ && *p_ == ','; skip_space()) {
      ++p_;
    }
  }
  char peek() noexcept {
    skip_space();
    return p_ != end_ ? *p_ : '\0';
  }

  bool value(std::string& out, int depth) {
    if (depth > kJsonDepthMax) {
      return fail("nesting too deep");
    }
    const char c = peek();
    switch (c) {
      case '{':
        return object(out, depth + 1);
      case '[':
        return array(out, depth + 1);
      case '"':
      case '\'':
        return string(out);
      default:
        break;
    }
    if (is_digit(c) || c == '-' || c == '+') {
      return number(out);
    }
    return word(out, depth);
  }

  bool word(std::string& out, int depth) {
    const std::string_view name = take_name();
    if (name == "true" || name == "false" || name == "null") {
      out.append(name);
      return true;
    }
    if (name == "NaN" || name == "undefined") {
      out.append("null");
      return true;
    }
    if ((name == "Set" || name == "TreeSet") && peek() == '[') {
      return array(out, depth + 1);
    }
    return fail("value expected");
  }

  std::string_view take_name() noexcept {
    const char* start = p_;
    while (p_ != end_ && is_name_char(*p_)) {
      ++p_;
    }
    return {start, static_cast<std::size_t>(p_ - start)};
  }

  bool array(std::string& out, int depth) {
    ++p_;
    out.push_back('[');
    bool first = true;
    for (;;) {
      skip_space_and_commas();
      if (p_ == end_) {
        return fail("array without end");
      }
      if (*p_ == ']') {
        ++p_;
        out.push_back(']');
        return true;
      }
      if (!first) {
        out.push_back(',');
      }
      first = false;
      if (!value(out, depth)) {
        return false;
      }
      const char c = peek();
      if (c != ',' && c != ']') {
        return fail("comma or bracket expected");
      }
    }
  }

  bool object(std::string& out, int depth) {
    ++p_;
    out.push_back('{');
    bool first = true;
    for (;;) {
      skip_space_and_commas();
      if (p_ == end_) {
        return fail("object without end");
      }
      if (*p_ == '}') {
        ++p_;
        out.push_back('}');
        return true;
      }
      if (!first) {
        out.push_back(',');
      }
      first = false;
      if (!key(out, depth)) {
        return false;
      }
      if (peek() != ':') {
        return fail("colon expected");
      }
      ++p_;
      out.push_back(':');
      if (!value(out, depth)) {
        return false;
      }
      const char c = peek();
      if (c != ',' && c != '}') {
        return fail("comma or brace expected");
      }
    }
  }

  bool key(std::string& out, int depth) {
    const char c = *p_;
    if (c == '"' || c == '\'') {
      return string(out);
    }
    if (c == '{') {
      return object_key(out, depth);
    }
    const char* start = p_;
    if (c == '-') {
      ++p_;
    }
    if (take_name().empty()) {
      return fail("member name expected");
    }
    out.push_back('"');
    append_json_escaped(out, {start, static_cast<std::size_t>(p_ - start)});
    out.push_back('"');
    return true;
  }

  bool object_key(std::string& out, int depth) {
    if (key_nesting_ >= kKeyNestingMax) {
      return fail("object key inside an object key");
    }
    if (depth >= kJsonDepthMax) {
      return fail("nesting too deep");
    }
    std::string text;
    ++key_nesting_;
    const bool good = object(text, depth + 1);
    --key_nesting_;
    if (!good) {
      return false;
    }
    out.push_back('"');
    append_json_escaped(out, text);
    out.push_back('"');
    return true;
  }

  bool number(std::string& out) {
    if (*p_ == '+') {
      ++p_;
    } else if (*p_ == '-') {
      out.push_back(*p_++);
    }
    const char* start = p_;
    while (p_ != end_ && is_digit(*p_)) {
      ++p_;
    }
    if (p_ == start) {
      return fail("digit expected");
    }
    while (p_ - start > 1 && *start == '0') {
      ++start;
    }
    out.append(start, p_);
    if (p_ != end_ && *p_ == '.') {
      start = p_++;
      while (p_ != end_ && is_digit(*p_)) {
        ++p_;
      }
      if (p_ - start > 1) {
        out.append(start, p_);
      }
    }
    return exponent(out);
  }

  bool exponent(std::string& out) {
    if (p_ != end_ && (*p_ == 'e' || *p_ == 'E')) {
      const char* start = p_++;
      if (p_ != end_ && (*p_ == '+' || *p_ == '-')) {
        ++p_;
      }
      if (p_ == end_ || !is_digit(*p_)) {
        return fail("digit expected");
      }
      while (p_ != end_ && is_digit(*p_)) {
        ++p_;
      }
      out.append(start, p_);
    } else if (p_ != end_ && std::string_view("LSBFD").find(*p_) != std::string_view::npos) {
      ++p_;  // Type suffix of Java.
    }
    return p_ == end_ || !is_name_char(*p_) || fail("character in a number");
  }

  bool string(std::string& out) {
    const char quote = *p_++;
    out.push_back('"');
    for (;;) {
      const char* start = p_;
      while (p_ != end_ && *p_ != quote && *p_ != '\\') {
        ++p_;
      }
      append_json_escaped(out, {start, static_cast<std::size_t>(p_ - start)});
      if (p_ == end_) {
        return fail("string without end");
      }
      if (*p_ == quote) {
        ++p_;
        out.push_back('"');
        return true;
      }
      ++p_;
      if (!escape(out)) {
        return false;
      }
    }
  }

  /// p_ is behind the backslash.
  bool escape(std::string& out) {
    if (p_ == end_) {
      return fail("string without end");
    }
    const char c = *p_++;
    char text[4];
    std::size_t n = 1;
    if (c == 'u') {
      std::uint32_t code_point = 0;
      const char* next = read_unicode_escape(p_, end_, code_point);
      if (next == nullptr) {
        return fail("malformed \\u escape");
      }
      p_ = next;
      n = static_cast<std::size_t>(write_utf8(text, code_point) - text);
    } else if (c >= '0' && c <= '7') {
      text[0] = static_cast<char>(c - '0');
    } else {
      constexpr std::string_view kLetters = "\"'\\/bfFnrtv";
      constexpr std::string_view kMeaning = "\"'\\/\b\f\f\n\r\t\v";
      const std::size_t at = kLetters.find(c);
      if (at == std::string_view::npos) {
        return fail("unknown escape");
      }
      text[0] = kMeaning[at];
    }
    append_json_escaped(out, {text, n});
    return true;
  }

  const char* begin_;
  const char* p_;
  const char* end_;
  const char* reason_ = "";
  int key_nesting_ = 0;
};

}  // namespace

Result<std::string> normalize_json(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  Normalizer normalizer(text);
  if (!normalizer.document(out)) {
    return normalizer.error();
  }
  return out;
}

}  // namespace tenon::proto::detail
