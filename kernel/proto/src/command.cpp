#include "tenon/proto/command.h"

#include "command_codec.h"

#include "tenon/base/endian.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace tenon::proto {
namespace {

constexpr std::array<std::string_view, 14> kLanguages{"JAVA",
                                                      "CPP",
                                                      "DOTNET",
                                                      "PYTHON",
                                                      "DELPHI",
                                                      "ERLANG",
                                                      "RUBY",
                                                      "OTHER",
                                                      "HTTP",
                                                      "GO",
                                                      "PHP",
                                                      "OMS",
                                                      "RUST",
                                                      "NODE_JS"};

bool equals_true(std::string_view text) noexcept {
  return text.size() == 4 && (text[0] | 0x20) == 't' && (text[1] | 0x20) == 'r' &&
         (text[2] | 0x20) == 'u' && (text[3] | 0x20) == 'e';
}

/// Integer.parseInt and Long.parseLong: optional sign, digits only, the whole text.
template <class T>
std::optional<T> parse_decimal(std::string_view text) noexcept {
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text.front() == '-') {
      return std::nullopt;
    }
  }
  T value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::string_view to_string(Language language) noexcept {
  const auto index = static_cast<std::size_t>(language);
  return index < kLanguages.size() ? kLanguages[index] : std::string_view("OTHER");
}

Language language_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kLanguages.size(); ++i) {
    if (kLanguages[i] == name) {
      return static_cast<Language>(i);
    }
  }
  return Language::kOther;
}

std::optional<std::int32_t> parse_int(std::string_view text) noexcept {
  return parse_decimal<std::int32_t>(text);
}

std::optional<std::int64_t> parse_long(std::string_view text) noexcept {
  return parse_decimal<std::int64_t>(text);
}

std::optional<std::string_view> CommandView::field(std::string_view key) const noexcept {
  const Field* const begin = fields.data();
  for (const Field* f = begin + fields.size(); f != begin;) {
    --f;
    // Most names have one letter and differ in it: no call for those.
    if (f->key.size() == key.size() && !key.empty() && f->key.front() == key.front() &&
        (key.size() == 1 || f->key == key)) {
      return f->value;
    }
  }
  return std::nullopt;
}

std::optional<std::int32_t> CommandView::field_int(std::string_view key) const noexcept {
  const auto text = field(key);
  return text ? parse_int(*text) : std::nullopt;
}

std::optional<std::int64_t> CommandView::field_long(std::string_view key) const noexcept {
  const auto text = field(key);
  return text ? parse_long(*text) : std::nullopt;
}

std::optional<bool> CommandView::field_bool(std::string_view key) const noexcept {
  const auto text = field(key);
  return text ? std::optional<bool>(equals_true(*text)) : std::nullopt;
}

Result<> decode_command(std::span<std::byte> frame, CommandView& out) {
  if (frame.size() < kFramePrefixBytes) {
    return Error{Errc::kInvalid, fmt::format("frame of {} bytes", frame.size())};
  }
  // The limit was applied by whoever buffered the frame; here the lengths must only agree.
  TENON_TRY(const FramePrefix prefix, decode_frame_prefix(frame, 0xffff'ffffu));
  if (prefix.total_bytes() != frame.size()) {
    return Error{Errc::kInvalid,
                 fmt::format("frame of {} bytes announces {}", frame.size(), prefix.total_bytes())};
  }
  out.code = 0;
  out.language = Language::kOther;
  out.version = 0;
  out.opaque = 0;
  out.flag = 0;
  out.kind = prefix.kind;
  out.remark = {};
  out.fields.clear();
  out.body = frame.subspan(kFramePrefixBytes + prefix.header_bytes);
  const auto header = frame.subspan(kFramePrefixBytes, prefix.header_bytes);
  return prefix.kind == HeaderKind::kJson ? detail::decode_json_header(header, out)
                                          : detail::decode_binary_header(header, out);
}

Command Command::from(const CommandView& view) {
  Command c;
  c.code = view.code;
  c.language = view.language;
  c.version = view.version;
  c.opaque = view.opaque;
  c.flag = view.flag;
  c.kind = view.kind;
  c.remark = view.remark;
  c.fields.reserve(view.fields.size());
  for (const Field& f : view.fields) {
    c.fields.emplace_back(f.key, f.value);
  }
  c.has_fields = !c.fields.empty();
  c.body = as_text(view.body);
  return c;
}

Command& Command::set(std::string_view key, std::string_view value) {
  for (auto& [k, v] : fields) {
    if (k == key) {
      v = value;
      return *this;
    }
  }
  fields.emplace_back(key, value);
  return *this;
}

Command& Command::set(std::string_view key, std::int64_t value) {
  return set(key, std::string_view(fmt::format_int(value).c_str()));
}

std::optional<std::string_view> Command::field(std::string_view key) const noexcept {
  for (std::size_t i = fields.size(); i-- > 0;) {
    if (fields[i].first == key) {
      return fields[i].second;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> Command::field_long(std::string_view key) const noexcept {
  const auto text = field(key);
  return text ? parse_long(*text) : std::nullopt;
}

void Command::encode(std::string& out) const {
  FrameWriter::Head head;
  head.code = code;
  head.opaque = opaque;
  head.flag = flag;
  head.kind = kind;
  head.language = language;
  head.version = version;
  head.remark = remark;
  FrameWriter writer(out, head);
  for (const auto& [key, value] : fields) {
    writer.field(key, value);
  }
  if (has_fields) {
    writer.empty_fields();
  }
  writer.finish(as_bytes(body));
}

}  // namespace tenon::proto
