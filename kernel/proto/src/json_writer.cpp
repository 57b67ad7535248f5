#include "json_escape.h"

#include "tenon/base/check.h"
#include "tenon/proto/json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>

namespace tenon::proto {
namespace {

/// Double.toString: plain from 10^-3 up to 10^7, otherwise with an exponent; always a decimal
/// point.
void append_double(std::string& out, double d) {
  char digits[32];
  const double magnitude = std::fabs(d);
  const bool plain = magnitude == 0.0 || (magnitude >= 1e-3 && magnitude < 1e7);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto [stop, error] = std::to_chars(digits, digits + sizeof digits, d, format);
  TENON_CHECK(error == std::errc{}, "a double has at most 24 characters");
  const std::string_view text(digits, static_cast<std::size_t>(stop - digits));
  const std::size_t e = text.find('e');
  const std::string_view mantissa = text.substr(0, e);
  out.append(mantissa);
  if (mantissa.find('.') == std::string_view::npos) {
    out.append(".0");
  }
  if (e != std::string_view::npos) {
    // "e+07" becomes "E7".
    std::string_view exponent = text.substr(e + 1);
    out.push_back('E');
    if (exponent.front() == '-') {
      out.push_back('-');
    }
    exponent.remove_prefix(1);
    exponent.remove_prefix(exponent.size() > 1 && exponent.front() == '0' ? 1 : 0);
    out.append(exponent);
  }
}

}  // namespace

void JsonWriter::line(std::size_t depth) {
  out_.push_back('\n');
  if (style_.layout == JsonLayout::kJava) {
    out_.append(depth, '\t');
  } else {
    out_.append(2 * depth, ' ');
  }
}

void JsonWriter::quoted(std::string_view text) {
  out_.push_back('"');
  if (style_.ascii) {
    detail::append_json_ascii(out_, text);
  } else {
    detail::append_json_escaped(out_, text);
  }
  out_.push_back('"');
}

/// Comma and line break in front of a value inside an array; nothing behind a key.
void JsonWriter::before_element() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) {
    return;
  }
  Level& level = levels_.back();
  TENON_DCHECK(level.array, "a value inside an object needs a key");
  if (!level.empty) {
    out_.push_back(',');
  }
  level.empty = false;
  if (style_.layout != JsonLayout::kCompact && !level.one_line) {
    line(levels_.size());
  }
}

void JsonWriter::open(char bracket, Level level) {
  out_.push_back(bracket);
  levels_.push_back(level);
}

void JsonWriter::close(char bracket) {
  TENON_CHECK(!levels_.empty(), "more ends than begins");
  const Level level = levels_.back();
  levels_.pop_back();
  if (style_.layout != JsonLayout::kCompact && !level.empty && !(level.array && level.one_line)) {
    line(levels_.size());
  }
  out_.push_back(bracket);
}

JsonWriter& JsonWriter::begin_object() {
  before_element();
  open('{', {});
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  close('}');
  return *this;
}

JsonWriter& JsonWriter::begin_array(bool one_line) {
  before_element();
  Level level;
  level.array = true;
  level.one_line = one_line;
  open('[', level);
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  close(']');
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  TENON_CHECK(!levels_.empty(), "a key outside an object");
  Level& level = levels_.back();
  if (!level.empty) {
    out_.push_back(',');
  }
  level.empty = false;
  if (style_.layout != JsonLayout::kCompact) {
    line(levels_.size());
  }
  quoted(name);
  out_.push_back(':');
  if (style_.layout == JsonLayout::kPretty) {
    out_.push_back(' ');
  }
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::int64_t number) {
  const fmt::format_int text(number);
  if (style_.quote_integer_keys) {
    return key(std::string_view(text.data(), text.size()));
  }
  Level& level = levels_.back();
  if (!level.empty) {
    out_.push_back(',');
  }
  level.empty = false;
  out_.append(text.data(), text.size());
  out_.push_back(':');
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::begin_object_key() {
  Level& level = levels_.back();
  if (!level.empty) {
    out_.push_back(',');
  }
  level.empty = false;
  open('{', {});
  return *this;
}

JsonWriter& JsonWriter::end_object_key() {
  close('}');
  out_.push_back(':');
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_element();
  quoted(text);
  return *this;
}

JsonWriter& JsonWriter::integer(std::int64_t number) {
  before_element();
  const fmt::format_int text(number);
  out_.append(text.data(), text.size());
  return *this;
}

JsonWriter& JsonWriter::unsigned_integer(std::uint64_t number) {
  before_element();
  const fmt::format_int text(number);
  out_.append(text.data(), text.size());
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) {
  before_element();
  out_.append(flag ? "true" : "false");
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) {
    return null();
  }
  before_element();
  append_double(out_, number);
  return *this;
}

JsonWriter& JsonWriter::null() {
  before_element();
  out_.append("null");
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  before_element();
  out_.append(json);
  return *this;
}

}  // namespace tenon::proto
