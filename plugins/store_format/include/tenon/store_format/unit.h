// Units of consume queues and of their extension (spec: store §5).
//
// consume queue                              extension
//   0  8  physical offset                      0  2  size of the unit, 20 + bytes of the bit map;
//   8  4  record length                              -1: nothing more in this file
//  12  8  tags code, or a position             2  8  tags code
//         in the extension                    10  8  store time
//                                             18  2  bytes of the bit map
//                                             20  n  bit map
//
// A queue unit with offset 0 and length 0x7fffffff is filler without a message; all zero is the end.
#pragma once

#include "tenon/base/endian.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace tenon::store_format {

inline constexpr std::uint64_t kUnitBytes = 20;
inline constexpr std::uint32_t kFillerLength = 0x7fff'ffff;

struct Unit {
  std::uint64_t phys = 0;
  std::uint32_t bytes = 0;
  std::int64_t tags_code = 0;

  bool is_filler() const noexcept { return phys == 0 && bytes == kFillerLength; }
  bool is_end() const noexcept {
    return bytes == 0 || static_cast<std::int32_t>(bytes) < 0 ||
           static_cast<std::int64_t>(phys) < 0;
  }
};
inline constexpr Unit kFillerUnit{0, kFillerLength, 0};

/// p has kUnitBytes bytes.
inline Unit load_unit(const std::uint8_t* p) noexcept {
  return {load_be<std::uint64_t>(p), load_be<std::uint32_t>(p + 8), load_be<std::int64_t>(p + 12)};
}
/// Writes the length last: a killed process leaves no unit rather than half of one.
inline void store_unit(std::uint8_t* p, const Unit& unit) noexcept {
  store_be(p, unit.phys);
  store_be(p + 12, unit.tags_code);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  store_be(p + 8, unit.bytes);
}

inline constexpr std::uint64_t kExtHeadBytes = 20;
inline constexpr std::uint64_t kExtUnitMax = 32'767;
/// What stays free at the end of a file for the mark that ends it.
inline constexpr std::uint64_t kExtBlankBytes = 4;

struct ExtUnit {
  std::int64_t tags_code = 0;
  std::int64_t store_ms = 0;
  std::span<const std::uint8_t> bitmap{};
  std::uint64_t bytes() const noexcept { return kExtHeadBytes + bitmap.size(); }
};
/// The unit at the start of `in`; nothing if there is no whole one.
std::optional<ExtUnit> parse_ext_unit(std::span<const std::uint8_t> in) noexcept;

/// Whether the tags code of a queue unit is a position in the extension: no sign-extended hash is
/// that small.
constexpr bool is_ext_address(std::int64_t tags_code) noexcept {
  return tags_code < std::numeric_limits<std::int32_t>::min();
}
constexpr std::uint64_t ext_position_of(std::int64_t address) noexcept {
  return static_cast<std::uint64_t>(address) ^ (std::uint64_t{1} << 63);
}
constexpr std::int64_t ext_address_of(std::uint64_t position) noexcept {
  return static_cast<std::int64_t>(position ^ (std::uint64_t{1} << 63));
}

}  // namespace tenon::store_format
