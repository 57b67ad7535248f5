// ROCKETMQ header (spec: remoting §1.4).
//
// | off  | size | field                                   |
// |------|------|-----------------------------------------|
// | 0    | 2    | code                                    |
// | 2    | 1    | language                                |
// | 3    | 2    | version                                 |
// | 5    | 4    | opaque                                  |
// | 9    | 4    | flag                                    |
// | 13   | 4+R  | remark length, remark                   |
// | 17+R | 4+E  | map length, entries key i16, value i32  |
#include "command_codec.h"

#include "tenon/base/endian.h"

#include <fmt/format.h>

namespace tenon::proto::detail {
namespace {

Error invalid(std::string_view what, std::int64_t length) {
  return Error{Errc::kInvalid, fmt::format("binary header: {} length {}", what, length)};
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) noexcept
      : p_(in.data()),
        left_(in.size()) {}

  std::size_t left() const noexcept { return left_; }
  template <class T>
  bool integer(T& out) noexcept {
    if (left_ < sizeof(T)) {
      return false;
    }
    out = load_be<T>(p_);
    advance(sizeof(T));
    return true;
  }
  /// Length of type L, then as many bytes.
  template <class L>
  bool text(std::string_view& out, std::int64_t& length) noexcept {
    L n{};
    length = -1;
    if (!integer(n)) {
      return false;
    }
    length = n;
    if (n < 0 || static_cast<std::size_t>(n) > left_) {
      return false;
    }
    out = std::string_view(reinterpret_cast<const char*>(p_), static_cast<std::size_t>(n));
    advance(static_cast<std::size_t>(n));
    return true;
  }

 private:
  void advance(std::size_t n) noexcept {
    p_ += n;
    left_ -= n;
  }

  const std::byte* p_;
  std::size_t left_;
};

}  // namespace

Result<> decode_binary_header(std::span<const std::byte> header, CommandView& out) {
  Reader in(header);
  std::int16_t code = 0;
  std::uint8_t language = 0;
  std::int16_t version = 0;
  if (!in.integer(code) || !in.integer(language) || !in.integer(version) ||
      !in.integer(out.opaque) || !in.integer(out.flag)) {
    return invalid("header", static_cast<std::int64_t>(header.size()));
  }
  out.code = code;
  out.version = version;
  out.language = language <= static_cast<std::uint8_t>(Language::kNodeJs)
                     ? static_cast<Language>(language)
                     : Language::kOther;
  std::int64_t length = 0;
  if (!in.text<std::int32_t>(out.remark, length)) {
    return invalid("remark", length);
  }
  std::string_view map;
  if (!in.text<std::int32_t>(map, length)) {
    return invalid("map", length);
  }
  Reader entries(as_bytes(map));
  while (entries.left() != 0) {
    Field f;
    if (!entries.text<std::int16_t>(f.key, length)) {
      return invalid("key", length);
    }
    if (!entries.text<std::int32_t>(f.value, length)) {
      return invalid("value", length);
    }
    // Trap: a string of length zero decodes to null, so such an entry is absent (spec remoting
    // §1.4).
    if (!f.key.empty() && !f.value.empty()) {
      out.fields.push_back(f);
    }
  }
  return ok();
}

}  // namespace tenon::proto::detail
