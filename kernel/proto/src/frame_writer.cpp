#include "json_escape.h"

#include "tenon/base/check.h"
#include "tenon/base/endian.h"
#include "tenon/proto/command.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

namespace tenon::proto {
namespace {

constexpr std::size_t kHeaderMaxBytes = 0x00ff'ffff;
constexpr std::size_t kRemarkMaxBytes = 64 * 1024;
/// Fields stop here, so that the rest of the header always fits into its 24-bit length.
constexpr std::size_t kFieldsMaxBytes = kHeaderMaxBytes - 6 * kRemarkMaxBytes - 1024;

template <class T>
void append_be(std::string& out, T value) {
  char bytes[sizeof(T)];
  store_be(bytes, value);
  out.append(bytes, sizeof bytes);
}

/// Makes room for `n` bytes at the end and returns where they begin.
char* extend(std::string& out, std::size_t n) {
  const std::size_t at = out.size();
  out.resize(at + n);
  return out.data() + at;
}

char* put(char* p, std::string_view text) noexcept {
  if (!text.empty()) {
    std::memcpy(p, text.data(), text.size());
  }
  return p + text.size();
}

void append_decimal(std::string& out, std::int64_t value) {
  const fmt::format_int text(value);
  out.append(text.data(), text.size());
}

bool fits_short(std::int32_t value) noexcept {
  return value >= std::numeric_limits<std::int16_t>::min() &&
         value <= std::numeric_limits<std::int16_t>::max();
}

/// Cuts an overlong remark at a character boundary.
std::string_view cut_remark(std::string_view text) noexcept {
  if (text.size() <= kRemarkMaxBytes) {
    return text;
  }
  std::size_t n = kRemarkMaxBytes;
  while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) {
    --n;
  }
  return text.substr(0, n);
}

}  // namespace

FrameWriter::FrameWriter(std::string& out, const Head& head)
    : out_(out),
      start_(out.size()),
      head_(head) {
  head_.remark = cut_remark(head.remark);
  // Trap: the binary header has 16 bits for the code (spec remoting §1.4). Each frame names its own
  // kind, so codes beyond travel in JSON.
  if (!fits_short(head_.code)) {
    head_.kind = HeaderKind::kJson;
  }
  out_.append(kFramePrefixBytes, '\0');
  if (head_.kind == HeaderKind::kJson) {
    out_.append("{\"code\":");
    append_decimal(out_, head_.code);
    return;
  }
  append_be(out_, static_cast<std::int16_t>(head_.code));
  out_.push_back(static_cast<char>(head_.language));
  append_be(out_, static_cast<std::int16_t>(head_.version));
  append_be(out_, head_.opaque);
  append_be(out_, head_.flag);
  append_be(out_, static_cast<std::int32_t>(head_.remark.size()));
  out_.append(head_.remark);
  ext_length_at_ = out_.size() - start_;
  append_be(out_, std::int32_t{0});
}

void FrameWriter::begin_fields() {
  out_.append(has_fields_ ? ",\"" : ",\"extFields\":{\"");
  has_fields_ = true;
}

void FrameWriter::json_field(std::string_view key, std::string_view value) {
  begin_fields();
  if (!detail::is_json_plain(key) || !detail::is_json_plain(value)) {
    detail::append_json_escaped(out_, key);
    out_.append("\":\"", 3);
    detail::append_json_escaped(out_, value);
    out_.push_back('"');
    return;
  }
  char* p = extend(out_, key.size() + value.size() + 4);
  p = put(p, key);
  p = put(p, "\":\"");
  p = put(p, value);
  *p = '"';
}

void FrameWriter::field(std::string_view key, std::string_view value) {
  const bool json = head_.kind == HeaderKind::kJson;
  const std::size_t worst =
      json ? 6 * (key.size() + value.size()) + 16 : key.size() + value.size() + 6;
  if (out_.size() - start_ + worst > kFieldsMaxBytes ||
      (!json && key.size() > std::size_t{std::numeric_limits<std::int16_t>::max()})) {
    return;
  }
  if (json) {
    json_field(key, value);
    return;
  }
  char* p = extend(out_, key.size() + value.size() + 6);
  store_be(p, static_cast<std::int16_t>(key.size()));
  p = put(p + 2, key);
  store_be(p, static_cast<std::int32_t>(value.size()));
  put(p + 4, value);
}

void FrameWriter::field(std::string_view key, std::int64_t value) {
  const fmt::format_int text(value);
  field(key, std::string_view(text.data(), text.size()));
}

void FrameWriter::empty_fields() {
  want_empty_fields_ = true;
}

void FrameWriter::end_header() {
  if (head_.kind == HeaderKind::kRocketMq) {
    const std::size_t map_bytes = out_.size() - start_ - ext_length_at_ - 4;
    store_be(out_.data() + start_ + ext_length_at_, static_cast<std::int32_t>(map_bytes));
    return;
  }
  if (want_empty_fields_ && !has_fields_) {
    out_.append(",\"extFields\":{},\"flag\":");
  } else {
    out_.append(has_fields_ ? "},\"flag\":" : ",\"flag\":");
  }
  append_decimal(out_, head_.flag);
  out_.append(",\"language\":\"");
  out_.append(to_string(head_.language));
  out_.append("\",\"opaque\":");
  append_decimal(out_, head_.opaque);
  if (!head_.remark.empty()) {
    out_.append(",\"remark\":\"");
    detail::append_json_escaped(out_, head_.remark);
    out_.push_back('"');
  }
  out_.append(",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
  append_decimal(out_, head_.version);
  out_.push_back('}');
}

void FrameWriter::finish(std::span<const std::byte> body) {
  finish_detached(body.size());
  out_.append(as_text(body));
}

void FrameWriter::finish_detached(std::size_t body_bytes) {
  end_header();
  const std::size_t header_bytes = out_.size() - start_ - kFramePrefixBytes;
  const std::size_t frame_bytes = 4 + header_bytes + body_bytes;
  TENON_CHECK(header_bytes <= kHeaderMaxBytes, "header of {} bytes", header_bytes);
  TENON_CHECK(frame_bytes <= 0x7fff'ffffu, "frame of {} bytes", frame_bytes);
  char* prefix = out_.data() + start_;
  store_be(prefix, static_cast<std::uint32_t>(frame_bytes));
  store_be(
      prefix + 4,
      (static_cast<std::uint32_t>(head_.kind) << 24) | static_cast<std::uint32_t>(header_bytes));
}

}  // namespace tenon::proto
