#include "json_escape.h"

#include <array>
#include <cstdint>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tenon::proto::detail {
namespace {

constexpr char kHex[] = "0123456789ABCDEF";

void append_unit(std::string& out, std::uint32_t unit) {
  const char text[6] = {'\\',
                        'u',
                        kHex[(unit >> 12) & 0xF],
                        kHex[(unit >> 8) & 0xF],
                        kHex[(unit >> 4) & 0xF],
                        kHex[unit & 0xF]};
  out.append(text, sizeof text);
}

/// Bytes that may need an escape: controls, quote, backslash, DEL, and the lead bytes of U+0080 to
/// U+00BF and U+2000 to U+2FFF.
constexpr std::array<bool, 256> kSpecial = [] {
  std::array<bool, 256> table{};
  for (std::size_t c = 0; c < table.size(); ++c) {
    table[c] = c < 0x20 || c == '"' || c == '\\' || c == 0x7F || c == 0xC2 || c == 0xE2;
  }
  return table;
}();

bool is_special(char c) noexcept {
  return kSpecial[static_cast<unsigned char>(c)];
}

const char* find_special(const char* p, const char* end) noexcept {
#ifdef __SSE2__
  const __m128i control = _mm_set1_epi8(0x1F);
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i del = _mm_set1_epi8(0x7F);
  const __m128i lead2 = _mm_set1_epi8(static_cast<char>(0xC2));
  const __m128i lead3 = _mm_set1_epi8(static_cast<char>(0xE2));
  while (end - p >= 16) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    __m128i hit = _mm_cmpeq_epi8(_mm_min_epu8(v, control), v);
    hit = _mm_or_si128(hit, _mm_cmpeq_epi8(v, quote));
    hit = _mm_or_si128(hit, _mm_cmpeq_epi8(v, backslash));
    hit = _mm_or_si128(hit, _mm_cmpeq_epi8(v, del));
    hit = _mm_or_si128(hit, _mm_cmpeq_epi8(v, lead2));
    hit = _mm_or_si128(hit, _mm_cmpeq_epi8(v, lead3));
    const int mask = _mm_movemask_epi8(hit);
    if (mask != 0) {
      return p + __builtin_ctz(static_cast<unsigned>(mask));
    }
    p += 16;
  }
#endif
  while (p != end && !is_special(*p)) {
    ++p;
  }
  return p;
}

/// One-letter escape of an ASCII character, 0 if it has none.
char short_escape(char c) noexcept {
  switch (c) {
    case '"':
    case '\\':
      return c;
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return '\0';
  }
}

bool append_ascii_special(std::string& out, char c) {
  if (const char e = short_escape(c); e != '\0') {
    out += '\\';
    out += e;
    return true;
  }
  const auto u = static_cast<unsigned char>(c);
  if (u < 0x20 || u == 0x7F) {
    append_unit(out, u);
    return true;
  }
  return false;
}

/// A legal second byte lies in [low, high].
struct SecondByte {
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
};

/// The `extra` continuation bytes behind a legal lead byte.
char32_t read_continuations(
    const char*& p, const char* end, char32_t lead, int extra, SecondByte second = {}) noexcept {
  char32_t cp = lead;
  for (int i = 0; i < extra; ++i) {
    if (p == end) {
      return 0xFFFD;
    }
    const auto u = static_cast<unsigned char>(*p);
    if ((u & 0xC0) != 0x80 || (i == 0 && (u < second.low || u > second.high))) {
      return 0xFFFD;
    }
    cp = (cp << 6) | (u & 0x3Fu);
    ++p;
  }
  return cp;
}

}  // namespace

char32_t next_code_point(const char*& p, const char* end) noexcept {
  const auto lead = static_cast<unsigned char>(*p++);
  if (lead < 0x80) {
    return lead;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    return read_continuations(p, end, lead & 0x1Fu, 1);
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    SecondByte second;
    second.low = lead == 0xE0 ? 0xA0 : 0x80;
    const char32_t cp = read_continuations(p, end, lead & 0x0Fu, 2, second);
    // An encoded surrogate counts as one malformed sequence of three bytes in Java.
    return cp >= 0xD800 && cp <= 0xDFFF ? U'\uFFFD' : cp;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    SecondByte second;
    second.low = lead == 0xF0 ? 0x90 : 0x80;
    second.high = lead == 0xF4 ? 0x8F : 0xBF;
    return read_continuations(p, end, lead & 0x07u, 3, second);
  }
  return U'\uFFFD';
}

bool is_json_plain(std::string_view text) noexcept {
  const char* const end = text.data() + text.size();
  return find_special(text.data(), end) == end;
}

void append_json_escaped(std::string& out, std::string_view text) {
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p != end) {
    const char* stop = find_special(p, end);
    out.append(p, static_cast<std::size_t>(stop - p));
    p = stop;
    if (p == end) {
      return;
    }
    if (append_ascii_special(out, *p)) {
      ++p;
      continue;
    }
    const char* start = p;
    const char32_t cp = next_code_point(p, end);
    if ((cp >= 0x80 && cp <= 0x9F) || cp == 0x2028 || cp == 0x2029) {
      append_unit(out, cp);
    } else {
      out.append(start, static_cast<std::size_t>(p - start));
    }
  }
}

void append_json_ascii(std::string& out, std::string_view text) {
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p != end) {
    if (*p == '/') {
      out += "\\/";
      ++p;
    } else if (append_ascii_special(out, *p)) {
      ++p;
    } else if (static_cast<unsigned char>(*p) < 0x80) {
      out += *p++;
    } else {
      const char32_t cp = next_code_point(p, end);
      if (cp >= 0x10000) {
        append_unit(out, 0xD800 + ((cp - 0x10000) >> 10));
        append_unit(out, 0xDC00 + ((cp - 0x10000) & 0x3FF));
      } else {
        append_unit(out, cp);
      }
    }
  }
}

}  // namespace tenon::proto::detail
