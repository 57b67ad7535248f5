// First bytes of a remoting frame (spec: remoting §1.2).
//
// | offset | size | field                                                    |
// |--------|------|----------------------------------------------------------|
// | 0      | 4    | L: bytes that follow, i32 big-endian                     |
// | 4      | 1    | header kind: 0 JSON, 1 ROCKETMQ                          |
// | 5      | 3    | H: header length, u24                                    |
// | 8      | H    | header                                                   |
// | 8 + H  | B    | body, B = L - 4 - H                                      |
#pragma once

#include "tenon/base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon::proto {

/// How the header of a remoting frame is encoded (first byte of the mark word).
enum class HeaderKind : std::uint8_t { kJson = 0, kRocketMq = 1 };

/// Size of the part that must be present before a frame can be measured, in bytes.
inline constexpr std::size_t kFramePrefixBytes = 8;

/// Largest frame accepted from a peer, in bytes, counting the length word.
/// Source: NettyDecoder, system property frameMaxLength.
inline constexpr std::uint32_t kFrameMaxBytes = 16u * 1024 * 1024;

struct FramePrefix {
  std::uint32_t frame_bytes = 0;   ///< everything after the length word
  std::uint32_t header_bytes = 0;  ///< encoded header; the rest is the body
  HeaderKind kind = HeaderKind::kJson;

  std::uint32_t body_bytes() const { return frame_bytes - 4 - header_bytes; }
  /// Size of the whole frame on the wire, with the length word.
  std::size_t total_bytes() const { return std::size_t{4} + frame_bytes; }
};

/// Reads the length word and the mark word.
///
/// @param in  at least kFramePrefixBytes bytes, big-endian as on the wire
/// @return    kLimit if the peer announces more than max_bytes in all, kInvalid if the two lengths
/// contradict each other or the
///            kind is unknown; the connection must be closed on any error, the stream cannot be
///            resynchronised
/// Thread: any. Does not allocate on success.
Result<FramePrefix> decode_frame_prefix(std::span<const std::byte> in,
                                        std::uint32_t max_bytes = kFrameMaxBytes);

}  // namespace tenon::proto
