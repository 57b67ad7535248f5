// JSON string output with the escapes that fastjson writes, and UTF-8 decoding as Java does it.
#pragma once

#include <string>
#include <string_view>

namespace tenon::proto::detail {

/// Appends `text` without quotes. Escaped are quote, backslash, control characters U+0000 to
/// U+001F and U+007F to U+009F, U+2028 and U+2029; other UTF-8 is copied as it is.
void append_json_escaped(std::string& out, std::string_view text);

/// True if `text` needs no escape in the form above.
bool is_json_plain(std::string_view text) noexcept;

/// As append_json_escaped(), and everything outside ASCII as \uXXXX and '/' as \/ (the "browser compatible" form).
void append_json_ascii(std::string& out, std::string_view text);

/// Decodes one UTF-8 sequence at [p, end), p < end, and moves p behind it. Malformed input yields
/// U+FFFD and moves p as far as Java's decoder does.
char32_t next_code_point(const char*& p, const char* end) noexcept;

}  // namespace tenon::proto::detail
