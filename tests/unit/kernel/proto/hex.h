// Hex text to bytes and back, for tests that quote bytes from the specification.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tenon::test {

/// Bytes of a hex text; blanks and line ends are skipped.
inline std::string unhex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
  std::string out;
  int high = -1;
  for (const char c : hex) {
    if (c == ' ' || c == '\n') {
      continue;
    }
    if (high < 0) {
      high = digit(c);
    } else {
      out.push_back(static_cast<char>(high * 16 + digit(c)));
      high = -1;
    }
  }
  return out;
}

inline std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : bytes) {
    out.push_back(kDigits[(static_cast<unsigned char>(c)) >> 4]);
    out.push_back(kDigits[(static_cast<unsigned char>(c)) & 0xF]);
  }
  return out;
}

inline std::span<std::byte> writable(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), text.size()};
}

}  // namespace tenon::test
