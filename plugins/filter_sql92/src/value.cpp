#include "value.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace tenon::filter_sql92 {
namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

std::size_t run(std::string_view s, std::size_t at, bool (*in)(char)) noexcept {
  std::size_t n = 0;
  while (at + n < s.size() && in(s[at + n])) {
    ++n;
  }
  return n;
}

/// Bytes of an exponent at `at`: mark, sign, digits; 0 if there is none.
std::size_t exponent(std::string_view s, std::size_t at, char mark) noexcept {
  if (at >= s.size() || (s[at] | 0x20) != mark) {
    return 0;
  }
  const std::size_t sign = at + 1 < s.size() && (s[at + 1] == '+' || s[at + 1] == '-') ? 1 : 0;
  const std::size_t digits = run(s, at + 1 + sign, is_digit);
  return digits == 0 ? 0 : 1 + sign + digits;
}

/// What from_chars leaves open: whether a value out of range is too large or too small. `scale` is
/// the number of decimal digits (or of bits) that one place of the mantissa or exponent stands for.
double out_of_range(std::string_view number, bool hex) noexcept {
  std::int64_t places = 0;  // of the first digit that is not zero, from the point
  bool point = false;
  bool seen = false;
  std::size_t at = 0;
  for (; at < number.size(); ++at) {
    const char c = number[at];
    if (c == '.') {
      point = true;
      continue;
    }
    if (!(hex ? is_hex(c) : is_digit(c))) {
      break;
    }
    seen = seen || c != '0';
    if (!point && seen) {
      ++places;
    } else if (point && !seen) {
      --places;
    }
  }
  std::int64_t power = 0;
  bool negative = false;
  for (; at < number.size(); ++at) {
    if (number[at] == '-') {
      negative = true;
    } else if (is_digit(number[at]) && power < (1LL << 50)) {
      power = power * 10 + (number[at] - '0');
    }
  }
  const std::int64_t total = places * (hex ? 4 : 1) + (negative ? -power : power);
  return total > 0 ? std::numeric_limits<double>::infinity() : 0.0;
}

}  // namespace

bool parse_integer(std::string_view text, unsigned bits, std::int64_t& out) noexcept {
  bool negative = false;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  if (text.empty()) {
    return false;
  }
  const std::uint64_t limit = (std::uint64_t{1} << (bits - 1)) - (negative ? 0 : 1);
  std::uint64_t value = 0;
  for (const char c : text) {
    if (!is_digit(c)) {
      return false;
    }
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (value > (limit - digit) / 10) {
      return false;
    }
    value = value * 10 + digit;
  }
  out = static_cast<std::int64_t>(negative ? 0 - value : value);
  return true;
}

bool parse_double(std::string_view s, double& out) noexcept {
  const auto blank = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  while (!s.empty() && blank(s.front())) {
    s.remove_prefix(1);
  }
  while (!s.empty() && blank(s.back())) {
    s.remove_suffix(1);
  }
  bool negative = false;
  if (!s.empty() && (s.front() == '-' || s.front() == '+')) {
    negative = s.front() == '-';
    s.remove_prefix(1);
  }
  const auto give = [&](double d) {
    out = negative ? -d : d;
    return true;
  };
  if (s == "NaN") {
    return give(std::numeric_limits<double>::quiet_NaN());
  }
  if (s == "Infinity") {
    return give(std::numeric_limits<double>::infinity());
  }
  const bool hex = s.size() > 2 && s[0] == '0' && (s[1] | 0x20) == 'x';
  if (hex) {
    s.remove_prefix(2);
  }
  const auto in = hex ? is_hex : is_digit;
  const std::size_t whole = run(s, 0, in);
  std::size_t at = whole;
  std::size_t part = 0;
  if (at < s.size() && s[at] == '.') {
    part = run(s, at + 1, in);
    at += 1 + part;
  }
  if (whole + part == 0) {
    return false;
  }
  const std::size_t power = exponent(s, at, hex ? 'p' : 'e');
  if (hex && power == 0) {
    return false;
  }
  at += power;
  const std::string_view number = s.substr(0, at);
  if (at < s.size() && ((s[at] | 0x20) == 'f' || (s[at] | 0x20) == 'd')) {
    ++at;
  }
  if (at != s.size()) {
    return false;
  }
  double value = 0;
  const auto result = std::from_chars(number.data(),
                                      number.data() + number.size(),
                                      value,
                                      hex ? std::chars_format::hex : std::chars_format::general);
  return give(result.ec == std::errc{} ? value : out_of_range(number, hex));
}

bool parse_boolean(std::string_view text) noexcept {
  return text.size() == 4 && (text[0] | 0x20) == 't' && (text[1] | 0x20) == 'r' &&
         (text[2] | 0x20) == 'u' && (text[3] | 0x20) == 'e';
}

int compare_doubles(double a, double b) noexcept {
  if (a < b) {
    return -1;
  }
  if (a > b) {
    return 1;
  }
  const auto order = [](double d) {
    return std::isnan(d) ? std::numeric_limits<std::int64_t>::max()
                         : std::bit_cast<std::int64_t>(d);
  };
  const std::int64_t x = order(a);
  const std::int64_t y = order(b);
  return x == y ? 0 : x < y ? -1 : 1;
}

std::string java_text(double d) {
  if (d == 0 || !std::isfinite(d)) {
    return std::isnan(d) ? "NaN"
           : d == 0      ? (std::signbit(d) ? "-0.0" : "0.0")
                         : (d > 0 ? "Infinity" : "-Infinity");
  }
  constexpr double kPlainMin = 1e-3;
  constexpr double kPlainMax = 1e7;
  // Shortest digits as d.ddde±xx; Java shows that form outside [1e-3, 1e7).
  const double size = std::fabs(d);
  if (size >= kPlainMin && size < kPlainMax) {
    std::string plain = fmt::format("{}", d);
    return plain.find('.') == std::string::npos ? plain + ".0" : plain;
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, d, std::chars_format::scientific);
  const std::string_view all(digits, static_cast<std::size_t>(end.ptr - digits));
  const std::size_t e = all.find('e');
  std::string out(all.substr(0, e));
  if (out == "5e" || out == "5") {
    // The smallest double has one digit too few for Java.
    out = std::string(all) == "5e-324" ? "4.9" : out;
  }
  if (out.find('.') == std::string::npos) {
    out += ".0";
  }
  std::int64_t power = 0;
  std::string_view mark = all.substr(e + 1);
  parse_integer(mark, 32, power);
  return out + "E" + std::to_string(power);
}

}  // namespace tenon::filter_sql92
