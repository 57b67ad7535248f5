// Scanner of JSON text in place: no tree, no allocation. Strings are unescaped inside the buffer.
// Used by the header decoder; a nested value is checked and handed on as raw text.
#pragma once

#include <cstdint>
#include <string_view>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tenon::proto::detail {

inline bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// First '"' or '\\' in [p, end), or end.
inline char* find_quote_or_backslash(char* p, char* end) noexcept {
#ifdef __SSE2__
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  while (end - p >= 16) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const int mask =
        _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash)));
    if (mask != 0) {
      return p + __builtin_ctz(static_cast<unsigned>(mask));
    }
    p += 16;
  }
#endif
  while (p != end && *p != '"' && *p != '\\') {
    ++p;
  }
  return p;
}

/// Writes a code point as UTF-8 at `out` (room for 4 bytes); returns one past the last byte.
char* write_utf8(char* out, std::uint32_t code_point) noexcept;

/// Reads the four digits of a \u escape at p and, if they are the first half of a surrogate pair,
/// its second half. A lone surrogate becomes U+FFFD. Returns one past the escape, nullptr if it is
/// malformed.
const char* read_unicode_escape(const char* p, const char* end, std::uint32_t& code_point) noexcept;

class JsonScanner {
 public:
  JsonScanner(char* begin, char* end) noexcept
      : p_(begin),
        end_(end) {}

  /// Skips white space; then true if the next character is `c`, which is consumed.
  bool accept(char c) noexcept {
    skip_space();
    if (p_ != end_ && *p_ == c) {
      ++p_;
      return true;
    }
    return false;
  }
  /// Skips white space; next character without consuming it, 0 at the end.
  char peek() noexcept {
    skip_space();
    return p_ != end_ ? *p_ : '\0';
  }
  bool at_end() noexcept {
    skip_space();
    return p_ == end_;
  }

  /// A string, unescaped in place. Raw control characters are tolerated as fastjson does.
  bool string(std::string_view& out) noexcept {
    if (!accept('"')) {
      return false;
    }
    char* stop = find_quote_or_backslash(p_, end_);
    if (stop == end_) {
      return false;
    }
    if (*stop != '"') {
      return unescape_rest(stop, out);
    }
    out = std::string_view(p_, static_cast<std::size_t>(stop - p_));
    p_ = stop + 1;
    return true;
  }
  /// The text of a number.
  bool number(std::string_view& out) noexcept;
  /// A literal that starts here: "true", "false" or "null".
  bool literal(std::string_view& out) noexcept;
  /// Any value, checked but not converted; `out` is its raw text.
  bool raw_value(std::string_view& out) noexcept;

 private:
  void skip_space() noexcept {
    while (p_ != end_ && static_cast<unsigned char>(*p_) <= ' ' &&
           (*p_ == ' ' || *p_ == '\t' || *p_ == '\n' || *p_ == '\r')) {
      ++p_;
    }
  }
  bool digits() noexcept;
  bool unescape_rest(char* escape, std::string_view& out) noexcept;
  bool skip_string() noexcept;
  bool skip_value(int depth) noexcept;
  bool skip_object(int depth) noexcept;
  bool skip_array(int depth) noexcept;

  char* p_;
  char* end_;
};

}  // namespace tenon::proto::detail
