// Distinct types for the numbers that must not be mixed up. Raw integers appear only in codecs and
// at the C boundary.
#pragma once

#include <compare>
#include <cstdint>

namespace tenon {

/// A position: positions compare, differ by and move by a distance, and never add to each other.
template <class Tag>
class Position {
 public:
  constexpr Position() noexcept = default;
  explicit constexpr Position(std::int64_t value) noexcept
      : value_(value) {}
  constexpr std::int64_t value() const noexcept { return value_; }
  friend constexpr auto operator<=>(Position, Position) noexcept = default;
  friend constexpr Position operator+(Position p, std::int64_t distance) noexcept {
    return Position{p.value_ + distance};
  }
  friend constexpr Position operator-(Position p, std::int64_t distance) noexcept {
    return Position{p.value_ - distance};
  }
  friend constexpr std::int64_t operator-(Position a, Position b) noexcept {
    return a.value_ - b.value_;
  }

 private:
  std::int64_t value_ = 0;
};

using PhysOffset = Position<struct PhysOffsetTag>;    ///< bytes in the commit log
using QueueOffset = Position<struct QueueOffsetTag>;  ///< entries in a consume queue

}  // namespace tenon
