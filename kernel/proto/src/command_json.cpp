// JSON header (spec: remoting §1.3), decoded in place.
#include "command_codec.h"
#include "json_scan.h"

#include <charconv>
#include <limits>

namespace tenon::proto::detail {
namespace {

Error invalid(std::string_view what) {
  return Error{Errc::kInvalid, "JSON header: " + std::string(what)};
}

/// A number in the forms that fastjson takes for an int: integer, or fraction cut off.
bool int_from_number(std::string_view text, std::int32_t& out) noexcept {
  if (const auto exact = parse_int(text)) {
    out = *exact;
    return true;
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size() ||
      text.find_first_of(".eE") == std::string_view::npos ||
      value <= static_cast<double>(std::numeric_limits<std::int32_t>::min()) - 1.0 ||
      value >= static_cast<double>(std::numeric_limits<std::int32_t>::max()) + 1.0) {
    return false;
  }
  out = static_cast<std::int32_t>(value);
  return true;
}

/// Number, number as string, or null (keeps the default).
bool read_int(JsonScanner& in, std::int32_t& out) noexcept {
  std::string_view text;
  switch (in.peek()) {
    case '"': {
      if (!in.string(text)) {
        return false;
      }
      const auto value = parse_int(text);
      if (!value) {
        return false;
      }
      out = *value;
      return true;
    }
    case 'n':
      return in.literal(text) && text == "null";
    default:
      return in.number(text) && int_from_number(text, out);
  }
}

/// Trap: names that we do not know, ordinals and other types must not fail the request (spec
/// remoting §1.3, §1.4).
bool read_language(JsonScanner& in, Language& out) noexcept {
  std::string_view text;
  if (in.peek() == '"') {
    if (!in.string(text)) {
      return false;
    }
    out = text == "JAVA" ? Language::kJava : language_from_name(text);
    return true;
  }
  if (!in.raw_value(text)) {
    return false;
  }
  const auto ordinal = parse_int(text);
  out = ordinal && *ordinal >= 0 && *ordinal <= static_cast<std::int32_t>(Language::kNodeJs)
            ? static_cast<Language>(*ordinal)
            : Language::kOther;
  return true;
}

/// Any value as text: strings unescaped, everything else as it stands. `present` is false for null.
bool read_text(JsonScanner& in, std::string_view& out, bool& present) noexcept {
  present = true;
  switch (in.peek()) {
    case '"':
      return in.string(out);
    case 'n':
      present = false;
      return in.literal(out);
    case 't':
    case 'f':
      return in.literal(out);
    default:
      return in.raw_value(out);
  }
}

bool read_fields(JsonScanner& in, CommandView& out) {
  std::string_view key;
  std::string_view value;
  out.fields.clear();
  if (in.peek() == 'n') {
    return in.literal(value);
  }
  if (!in.accept('{')) {
    return false;
  }
  if (in.accept('}')) {
    return true;
  }
  for (;;) {
    bool present = false;
    if (!in.string(key) || !in.accept(':') || !read_text(in, value, present)) {
      return false;
    }
    if (present) {
      out.fields.push_back(Field{key, value});
    }
    if (in.accept(',')) {
      continue;
    }
    return in.accept('}');
  }
}

bool read_member(JsonScanner& in, std::string_view key, CommandView& out) {
  std::string_view text;
  if (key == "extFields") {
    return read_fields(in, out);
  }
  if (key == "code") {
    return read_int(in, out.code);
  }
  if (key == "opaque") {
    return read_int(in, out.opaque);
  }
  if (key == "flag") {
    return read_int(in, out.flag);
  }
  if (key == "version") {
    return read_int(in, out.version);
  }
  if (key == "language") {
    return read_language(in, out.language);
  }
  if (key == "remark") {
    bool present = false;
    if (!read_text(in, text, present)) {
      return false;
    }
    out.remark = present ? text : std::string_view{};
    return true;
  }
  return in.raw_value(text);
}

}  // namespace

Result<> decode_json_header(std::span<std::byte> header, CommandView& out) {
  auto* begin = reinterpret_cast<char*>(header.data());
  JsonScanner in(begin, begin + header.size());
  if (!in.accept('{')) {
    return invalid("no object");
  }
  if (!in.accept('}')) {
    for (;;) {
      std::string_view key;
      if (!in.string(key) || !in.accept(':')) {
        return invalid("member name expected");
      }
      if (!read_member(in, key, out)) {
        return invalid(std::string("value of \"").append(key.substr(0, 64)).append("\""));
      }
      if (in.accept(',')) {
        continue;
      }
      if (in.accept('}')) {
        break;
      }
      return invalid("comma or closing brace expected");
    }
  }
  if (!in.at_end()) {
    return invalid("data after the object");
  }
  return ok();
}

}  // namespace tenon::proto::detail
