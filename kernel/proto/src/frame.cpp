#include "tenon/proto/frame.h"

#include "tenon/base/check.h"
#include "tenon/base/endian.h"

#include <fmt/format.h>

namespace tenon::proto {

Result<FramePrefix> decode_frame_prefix(std::span<const std::byte> in, std::uint32_t max_bytes) {
  TENON_CHECK(in.size() >= kFramePrefixBytes, "caller must buffer the prefix, has {}", in.size());

  // A negative length is a huge unsigned one and falls to the first check.
  const auto frame_bytes = load_be<std::uint32_t>(in.data());
  if (std::uint64_t{frame_bytes} + 4 > max_bytes || frame_bytes > 0x7fff'ffffu) {
    return Error{Errc::kLimit,
                 fmt::format("frame of {} bytes, the limit is {}", frame_bytes, max_bytes)};
  }
  if (frame_bytes < 4) {
    return Error{Errc::kInvalid, fmt::format("frame length {} below 4", frame_bytes)};
  }
  const auto mark = load_be<std::uint32_t>(in.data() + 4);
  const std::uint32_t kind = mark >> 24;
  const std::uint32_t header_bytes = mark & 0x00ff'ffffu;
  if (kind > static_cast<std::uint32_t>(HeaderKind::kRocketMq)) {
    return Error{Errc::kInvalid, fmt::format("unknown header kind {}", kind)};
  }
  if (header_bytes > frame_bytes - 4) {
    return Error{
        Errc::kInvalid,
        fmt::format("header of {} bytes in a frame of {} bytes", header_bytes, frame_bytes)};
  }
  FramePrefix prefix;
  prefix.frame_bytes = frame_bytes;
  prefix.header_bytes = header_bytes;
  prefix.kind = static_cast<HeaderKind>(kind);
  return prefix;
}

}  // namespace tenon::proto
