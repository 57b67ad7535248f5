// A remoting command: decoded in place as views into the receive buffer, encoded straight into a
// send buffer. Both header encodings. Source: spec remoting §1.3 to §1.9.
#pragma once

#include "tenon/base/result.h"
#include "tenon/proto/codes.h"
#include "tenon/proto/frame.h"

#include <boost/container/small_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::proto {

inline constexpr std::int32_t kFlagResponse = 1;
inline constexpr std::int32_t kFlagOneway = 2;

/// MQVersion ordinal that our servers and client put into every header: 4.9.8 (spec: remoting
/// §1.7).
inline constexpr std::int32_t kVersion = 409;

/// LanguageCode (spec: remoting §1.4). Unknown codes and names are kOther.
enum class Language : std::uint8_t {
  kJava = 0,
  kCpp,
  kDotnet,
  kPython,
  kDelphi,
  kErlang,
  kRuby,
  kOther,
  kHttp,
  kGo,
  kPhp,
  kOms,
  kRust,
  kNodeJs
};
std::string_view to_string(Language language) noexcept;  ///< "JAVA", "CPP", …
Language language_from_name(std::string_view name) noexcept;

struct Field {
  std::string_view key{};
  std::string_view value{};
};

/// A received command. All views point into the frame it was decoded from and live as long as that
/// buffer.
struct CommandView {
  std::int32_t code = 0;
  Language language = Language::kOther;
  std::int32_t version = 0;
  std::int32_t opaque = 0;
  std::int32_t flag = 0;
  HeaderKind kind = HeaderKind::kJson;
  std::string_view remark{};
  boost::container::small_vector<Field, 24>
      fields{};  ///< in wire order; duplicates possible, the last one wins
  std::span<const std::byte> body{};

  bool is_response() const noexcept { return (flag & kFlagResponse) != 0; }
  bool is_oneway() const noexcept { return (flag & kFlagOneway) != 0; }

  /// Value of an ext field; nullopt if absent. Linear search from the end.
  std::optional<std::string_view> field(std::string_view key) const noexcept;
  /// As above, parsed leniently like Java: nullopt if absent or not a decimal number in range.
  std::optional<std::int32_t> field_int(std::string_view key) const noexcept;
  std::optional<std::int64_t> field_long(std::string_view key) const noexcept;
  /// Case-insensitive "true" is true, everything else false (spec: remoting §1.9).
  std::optional<bool> field_bool(std::string_view key) const noexcept;
};

std::optional<std::int32_t> parse_int(std::string_view text) noexcept;
std::optional<std::int64_t> parse_long(std::string_view text) noexcept;

/// Decodes one whole frame (length word included) in place: escaped JSON strings are unescaped
/// inside the buffer, so the frame must be writable and is consumed by the call. `out` is reused:
/// its vector keeps its capacity, so the steady state does not allocate.
///
/// Tolerates what spec remoting §1.3 lists: any key order, unknown keys, numbers as strings,
/// booleans, numbers, null and nested objects as extField values.
/// @return kInvalid or kLimit with the reason; the connection must then be closed
/// Thread: any.
Result<> decode_command(std::span<std::byte> frame, CommandView& out);

/// Writes one frame at the end of a buffer without building anything in between: constructor,
/// field()…, then finish(). Exactly one finish() per writer; Head::remark must live until then.
/// Does not allocate beyond the growth of the buffer. Thread: any, one at a time.
///
/// What the format cannot carry is bent rather than broken: a code beyond 16 bits goes out with a
/// JSON header even if the binary one was asked for, a remark is cut at 64 KiB, a field that would
/// not fit into the header (16 MiB; binary keys: 32767 bytes) is left out.
class FrameWriter {
 public:
  struct Head {
    std::int32_t code = 0;
    std::int32_t opaque = 0;
    std::int32_t flag = 0;
    HeaderKind kind = HeaderKind::kJson;
    Language language = Language::kJava;
    std::int32_t version = kVersion;
    std::string_view remark{};
  };

  FrameWriter(std::string& out, const Head& head);
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;

  void field(std::string_view key, std::string_view value);
  void field(std::string_view key, std::int64_t value);
  void field(std::string_view key, int value) { field(key, static_cast<std::int64_t>(value)); }
  void field_bool(std::string_view key, bool value) {
    field(key, value ? std::string_view("true") : std::string_view("false"));
  }
  /// Makes a JSON header carry `"extFields":{}` although no field was written (spec: remoting
  /// §1.3).
  void empty_fields();

  /// Ends the header; the body is appended here.
  void finish(std::span<const std::byte> body = {});
  /// Ends the header; `body_bytes` bytes of body follow the buffer on the wire (scatter/gather),
  /// the caller sends them.
  void finish_detached(std::size_t body_bytes);

 private:
  void begin_fields();
  void json_field(std::string_view key, std::string_view value);
  void end_header();

  std::string& out_;
  std::size_t start_;
  std::size_t ext_length_at_ = 0;
  Head head_;
  bool has_fields_ = false;
  bool want_empty_fields_ = false;
};

/// An owned command, for code where convenience counts more than copies.
struct Command {
  std::int32_t code = 0;
  Language language = Language::kJava;
  std::int32_t version = kVersion;
  std::int32_t opaque = 0;
  std::int32_t flag = 0;
  HeaderKind kind = HeaderKind::kJson;
  std::string remark{};
  std::vector<std::pair<std::string, std::string>> fields{};
  bool has_fields = false;  ///< write `"extFields":{}` even without fields
  std::string body{};

  static Command from(const CommandView& view);
  Command& set(std::string_view key, std::string_view value);
  Command& set(std::string_view key, std::int64_t value);
  std::optional<std::string_view> field(std::string_view key) const noexcept;
  std::optional<std::int64_t> field_long(std::string_view key) const noexcept;
  void encode(std::string& out) const;  ///< appends the frame
};

}  // namespace tenon::proto
