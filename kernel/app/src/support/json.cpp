#include "support/json.h"

#include <fmt/format.h>

#include <cmath>

namespace tenon::app {
namespace {

/// Length of the well-formed UTF-8 sequence at the front, 0 if it is none.
std::size_t utf8_bytes(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char lead = byte(0);
  const std::size_t n = lead < 0x80                    ? 1
                        : lead >= 0xc2 && lead < 0xe0  ? 2
                        : lead >= 0xe0 && lead < 0xf0  ? 3
                        : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                       : 0;
  if (n == 0 || s.size() < n) {
    return 0;
  }
  for (std::size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  const bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xed && byte(1) >= 0xa0;
  const bool beyond = lead == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : n;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t n = utf8_bytes(text);
    if (n == 0) {
      return false;
    }
    text.remove_prefix(n);
  }
  return true;
}

std::string quote_json(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t n = utf8_bytes(text);
    const char c = text.front();
    if (n == 0) {
      out += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += c == '\n'   ? std::string("\\n")
             : c == '\t' ? std::string("\\t")
             : c == '\r' ? std::string("\\r")
                         : fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, n);
    }
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out + "\"";
}

void Json::separate() {
  if (!first_) {
    text_ += ',';
  }
  first_ = false;
}

Json& Json::open(char bracket) {
  separate();
  text_ += bracket;
  first_ = true;
  return *this;
}

Json& Json::close(char bracket) {
  text_ += bracket;
  first_ = false;
  return *this;
}

Json& Json::key(std::string_view name) {
  separate();
  text_ += quote_json(name) + ":";
  first_ = true;
  return *this;
}

Json& Json::raw(std::string_view token) {
  separate();
  text_ += token;
  return *this;
}

Json& Json::value(std::string_view text) {
  return raw(quote_json(text));
}

Json& Json::value(double number) {
  return raw(std::isfinite(number) ? fmt::format("{:.6g}", number) : std::string("null"));
}

}  // namespace tenon::app
