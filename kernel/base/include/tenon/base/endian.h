// Big-endian loads and stores, as on the wire and in the store.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace tenon {

static_assert(std::endian::native == std::endian::little,
              "only little-endian machines are supported");

template <class T>
inline T byte_swap(T value) noexcept {
  static_assert(std::is_integral_v<T>);
  if constexpr (sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<T>(__builtin_bswap16(static_cast<std::uint16_t>(value)));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<T>(__builtin_bswap32(static_cast<std::uint32_t>(value)));
  } else {
    static_assert(sizeof(T) == 8);
    return static_cast<T>(__builtin_bswap64(static_cast<std::uint64_t>(value)));
  }
}

/// Reads a big-endian integer at p; the caller has checked that sizeof(T) bytes are there.
template <class T>
inline T load_be(const void* p) noexcept {
  T value;
  std::memcpy(&value, p, sizeof value);
  return byte_swap(value);
}

/// Writes a big-endian integer at p; the caller has checked that sizeof(T) bytes fit.
template <class T>
inline void store_be(void* p, T value) noexcept {
  value = byte_swap(value);
  std::memcpy(p, &value, sizeof value);
}

inline std::span<const std::byte> as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace tenon
