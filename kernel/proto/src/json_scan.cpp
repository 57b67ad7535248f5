#include "json_scan.h"

#include <cstring>

namespace tenon::proto::detail {
namespace {

constexpr int kDepthMax = 64;

/// Four hexadecimal digits at p, or -1.
std::int32_t hex4(const char* p) noexcept {
  std::int32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = p[i];
    std::int32_t digit = 0;
    if (is_digit(c)) {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

/// Character behind a one-letter escape, 0 if there is none.
char simple_escape(char c) noexcept {
  switch (c) {
    case '"':
    case '\\':
    case '/':
      return c;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return '\0';
  }
}

}  // namespace

const char* read_unicode_escape(const char* p,
                                const char* end,
                                std::uint32_t& code_point) noexcept {
  if (end - p < 4) {
    return nullptr;
  }
  const std::int32_t unit = hex4(p);
  if (unit < 0) {
    return nullptr;
  }
  p += 4;
  code_point = static_cast<std::uint32_t>(unit);
  if (unit < 0xD800 || unit > 0xDFFF) {
    return p;
  }
  code_point = 0xFFFD;
  if (unit < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
    const std::int32_t low = hex4(p + 2);
    if (low >= 0xDC00 && low <= 0xDFFF) {
      code_point = 0x10000u + (static_cast<std::uint32_t>(unit - 0xD800) << 10) +
                   static_cast<std::uint32_t>(low - 0xDC00);
      p += 6;
    }
  }
  return p;
}

char* write_utf8(char* out, std::uint32_t cp) noexcept {
  if (cp < 0x80) {
    *out++ = static_cast<char>(cp);
  } else if (cp < 0x800) {
    *out++ = static_cast<char>(0xC0 | (cp >> 6));
    *out++ = static_cast<char>(0x80 | (cp & 0x3F));
  } else if (cp < 0x10000) {
    *out++ = static_cast<char>(0xE0 | (cp >> 12));
    *out++ = static_cast<char>(0x80 | ((cp >> 6) & 0x3F));
    *out++ = static_cast<char>(0x80 | (cp & 0x3F));
  } else {
    *out++ = static_cast<char>(0xF0 | (cp >> 18));
    *out++ = static_cast<char>(0x80 | ((cp >> 12) & 0x3F));
    *out++ = static_cast<char>(0x80 | ((cp >> 6) & 0x3F));
    *out++ = static_cast<char>(0x80 | (cp & 0x3F));
  }
  return out;
}

/// p_ is behind the opening quote, `escape` at the first backslash. What follows an escape moves
/// towards the front.
bool JsonScanner::unescape_rest(char* escape, std::string_view& out) noexcept {
  char* read = escape;
  char* write = escape;
  for (;;) {
    if (read == end_) {
      return false;
    }
    if (*read == '"') {
      break;
    }
    if (end_ - read < 2) {
      return false;
    }
    if (read[1] == 'u') {
      std::uint32_t code_point = 0;
      const char* next = read_unicode_escape(read + 2, end_, code_point);
      if (next == nullptr) {
        return false;
      }
      write = write_utf8(write, code_point);
      read += next - read;
    } else {
      const char c = simple_escape(read[1]);
      if (c == '\0') {
        return false;
      }
      *write++ = c;
      read += 2;
    }
    char* next = find_quote_or_backslash(read, end_);
    const auto run = static_cast<std::size_t>(next - read);
    std::memmove(write, read, run);
    write += run;
    read = next;
  }
  out = std::string_view(p_, static_cast<std::size_t>(write - p_));
  p_ = read + 1;
  return true;
}

bool JsonScanner::digits() noexcept {
  const char* start = p_;
  while (p_ != end_ && is_digit(*p_)) {
    ++p_;
  }
  return p_ != start;
}

bool JsonScanner::number(std::string_view& out) noexcept {
  skip_space();
  const char* start = p_;
  if (p_ != end_ && *p_ == '-') {
    ++p_;
  }
  if (!digits()) {
    return false;
  }
  if (p_ != end_ && *p_ == '.') {
    ++p_;
    if (!digits()) {
      return false;
    }
  }
  if (p_ != end_ && (*p_ == 'e' || *p_ == 'E')) {
    ++p_;
    if (p_ != end_ && (*p_ == '+' || *p_ == '-')) {
      ++p_;
    }
    if (!digits()) {
      return false;
    }
  }
  out = std::string_view(start, static_cast<std::size_t>(p_ - start));
  return true;
}

bool JsonScanner::literal(std::string_view& out) noexcept {
  skip_space();
  const std::string_view rest(p_, static_cast<std::size_t>(end_ - p_));
  for (const std::string_view word : {"true", "false", "null"}) {
    if (rest.starts_with(word)) {
      out = rest.substr(0, word.size());
      p_ += word.size();
      return true;
    }
  }
  return false;
}

bool JsonScanner::skip_string() noexcept {
  if (!accept('"')) {
    return false;
  }
  for (;;) {
    p_ = find_quote_or_backslash(p_, end_);
    if (p_ == end_) {
      return false;
    }
    if (*p_ == '"') {
      ++p_;
      return true;
    }
    if (end_ - p_ < 2) {
      return false;
    }
    if (p_[1] == 'u') {
      std::uint32_t ignored = 0;
      const char* next = read_unicode_escape(p_ + 2, end_, ignored);
      if (next == nullptr) {
        return false;
      }
      p_ += next - p_;
    } else {
      if (simple_escape(p_[1]) == '\0') {
        return false;
      }
      p_ += 2;
    }
  }
}

bool JsonScanner::skip_object(int depth) noexcept {
  if (!accept('{')) {
    return false;
  }
  if (accept('}')) {
    return true;
  }
  for (;;) {
    if (!skip_string() || !accept(':') || !skip_value(depth)) {
      return false;
    }
    if (accept('}')) {
      return true;
    }
    if (!accept(',')) {
      return false;
    }
  }
}

bool JsonScanner::skip_array(int depth) noexcept {
  if (!accept('[')) {
    return false;
  }
  if (accept(']')) {
    return true;
  }
  for (;;) {
    if (!skip_value(depth)) {
      return false;
    }
    if (accept(']')) {
      return true;
    }
    if (!accept(',')) {
      return false;
    }
  }
}

bool JsonScanner::skip_value(int depth) noexcept {
  if (depth >= kDepthMax) {
    return false;
  }
  std::string_view ignored;
  switch (peek()) {
    case '"':
      return skip_string();
    case '{':
      return skip_object(depth + 1);
    case '[':
      return skip_array(depth + 1);
    case 't':
    case 'f':
    case 'n':
      return literal(ignored);
    default:
      return number(ignored);
  }
}

bool JsonScanner::raw_value(std::string_view& out) noexcept {
  skip_space();
  const char* start = p_;
  if (!skip_value(0)) {
    return false;
  }
  out = std::string_view(start, static_cast<std::size_t>(p_ - start));
  return true;
}

}  // namespace tenon::proto::detail
