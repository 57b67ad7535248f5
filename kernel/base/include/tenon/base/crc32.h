// CRC-32 (zlib polynomial) of message bodies and registration bodies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon {

/// Plain CRC-32. Thread: any. Does not allocate.
std::uint32_t crc32(std::span<const std::byte> bytes) noexcept;

/// CRC-32 with the sign bit cleared, as RocketMQ stores it (spec: remoting §9.5).
inline std::int32_t crc32_java(std::span<const std::byte> bytes) noexcept {
  return static_cast<std::int32_t>(crc32(bytes) & 0x7fff'ffffu);
}

}  // namespace tenon
