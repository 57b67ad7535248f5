#include "tenon/proto/peek.h"

#include "tenon/base/check.h"
#include "tenon/base/endian.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tenon::proto {
namespace {

constexpr std::size_t kBinaryHeadBytes = 13;
constexpr std::size_t kBinaryOpaqueAt = 5;
constexpr std::size_t kBinaryFlagAt = 9;

/// Goes over the JSON that encoders write: no white space, a map one level deep.
class JsonPeek {
 public:
  explicit JsonPeek(std::string_view text) noexcept
      : p_(text.data()),
        end_(text.data() + text.size()) {}

  bool header(CommandPeek& out) noexcept {
    if (!accept('{')) {
      return false;
    }
    do {
      std::string_view key;
      if (!name(key) || !member(key, out)) {
        return false;
      }
    } while (accept(','));
    return accept('}') && p_ == end_;
  }

 private:
  bool accept(char c) noexcept {
    if (p_ != end_ && *p_ == c) {
      ++p_;
      return true;
    }
    return false;
  }
  /// A name and its colon. Escapes are for the decoder: they could spell a name that we look for.
  bool name(std::string_view& out) noexcept {
    if (!accept('"')) {
      return false;
    }
    const char* const begin = p_;
    find_special();
    out = std::string_view(begin, static_cast<std::size_t>(p_ - begin));
    return accept('"') && accept(':');
  }
  bool member(std::string_view key, CommandPeek& out) noexcept {
    if (key == "code") {
      return number(out.code);
    }
    if (key == "opaque") {
      return number(out.opaque);
    }
    if (key == "flag") {
      return number(out.flag);
    }
    return key == "extFields" ? map() : simple();
  }
  bool map() noexcept {
    if (!accept('{')) {
      return false;
    }
    if (accept('}')) {
      return true;
    }
    do {
      if (!accept('"')) {
        return false;
      }
      // Most names have one letter.
      if (end_ - p_ > 2 && p_[1] == '"' && p_[0] != '\\' && p_[0] != '"') {
        p_ += 2;
      } else if (!rest_of_string()) {
        return false;
      }
      if (!accept(':') || !simple()) {
        return false;
      }
    } while (accept(','));
    return accept('}');
  }
  /// A string, number or literal.
  bool simple() noexcept {
    if (accept('"')) {
      return rest_of_string();
    }
    const char* const begin = p_;
    while (p_ != end_ && *p_ != ',' && *p_ != '}') {
      if (*p_ == '{' || *p_ == '[' || *p_ == '"' || static_cast<unsigned char>(*p_) <= ' ') {
        return false;
      }
      ++p_;
    }
    return p_ != begin;
  }
  bool rest_of_string() noexcept {
    for (;;) {
      find_special();
      if (p_ == end_) {
        return false;
      }
      if (*p_++ == '"') {
        return true;
      }
      if (p_ == end_) {
        return false;
      }
      ++p_;
    }
  }
  /// To the next '"' or '\\', or to the end.
  void find_special() noexcept {
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    while (end_ - p_ >= 16) {
      const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p_));
      const int mask =
          _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash)));
      if (mask != 0) {
        p_ += __builtin_ctz(static_cast<unsigned>(mask));
        return;
      }
      p_ += 16;
    }
#endif
    while (p_ != end_ && *p_ != '"' && *p_ != '\\') {
      ++p_;
    }
  }
  /// An integer that fits; everything else is for the decoder.
  bool number(std::int32_t& out) noexcept {
    const bool negative = accept('-');
    std::int64_t value = 0;
    const char* const begin = p_;
    while (p_ != end_ && *p_ >= '0' && *p_ <= '9' && p_ - begin < 11) {
      value = value * 10 + (*p_++ - '0');
    }
    if (p_ == begin || p_ == end_ || (*p_ != ',' && *p_ != '}')) {
      return false;
    }
    value = negative ? -value : value;
    out = static_cast<std::int32_t>(value);
    return out == value;
  }

  const char* p_;
  const char* end_;
};

}  // namespace

std::optional<CommandPeek> peek_command(std::span<const std::byte> frame) noexcept {
  if (frame.size() < kFramePrefixBytes) {
    return std::nullopt;
  }
  const auto mark = load_be<std::uint32_t>(frame.data() + 4);
  const std::size_t header_bytes = mark & 0x00ff'ffffu;
  if (header_bytes > frame.size() - kFramePrefixBytes) {
    return std::nullopt;
  }
  const std::span<const std::byte> header = frame.subspan(kFramePrefixBytes, header_bytes);
  CommandPeek out;
  switch (mark >> 24) {
    case static_cast<std::uint32_t>(HeaderKind::kJson):
      out.kind = HeaderKind::kJson;
      if (JsonPeek(as_text(header)).header(out)) {
        return out;
      }
      return std::nullopt;
    case static_cast<std::uint32_t>(HeaderKind::kRocketMq):
      if (header_bytes < kBinaryHeadBytes) {
        return std::nullopt;
      }
      out.kind = HeaderKind::kRocketMq;
      out.code = load_be<std::int16_t>(header.data());
      out.opaque = load_be<std::int32_t>(header.data() + kBinaryOpaqueAt);
      out.flag = load_be<std::int32_t>(header.data() + kBinaryFlagAt);
      return out;
    default:
      return std::nullopt;
  }
}

AnswerTemplate::AnswerTemplate(FrameWriter::Head head)
    : kind_(head.kind) {
  head.opaque = 0;
  FrameWriter(bytes_, head).finish();
  kind_ = static_cast<HeaderKind>(bytes_[4]);  // a code may force the other one
  constexpr std::string_view kOpaque = "\"opaque\":";
  if (kind_ == HeaderKind::kRocketMq) {
    opaque_at_ = kFramePrefixBytes + kBinaryOpaqueAt;
  } else {
    opaque_at_ = bytes_.find(kOpaque, kFramePrefixBytes) + kOpaque.size();
  }
}

void AnswerTemplate::append(std::string& out, std::int32_t opaque) const {
  TENON_CHECK(!bytes_.empty(), "an empty template");
  const std::size_t at = out.size();
  if (kind_ == HeaderKind::kRocketMq) {
    out.append(bytes_);
    store_be(out.data() + at + opaque_at_, opaque);
    return;
  }
  const fmt::format_int digits(opaque);
  const std::size_t tail = bytes_.size() - opaque_at_ - 1;
  out.append(bytes_, 0, opaque_at_);
  out.append(digits.data(), digits.size());
  out.append(bytes_, opaque_at_ + 1, tail);
  const std::size_t header_bytes = out.size() - at - kFramePrefixBytes;
  store_be(out.data() + at, static_cast<std::uint32_t>(4 + header_bytes));
  store_be(out.data() + at + 4, static_cast<std::uint32_t>(header_bytes));
}

}  // namespace tenon::proto
