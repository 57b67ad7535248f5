// Ring of members, each at several points (spec: client §5.7, CONSISTENT_HASH).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::allocator {

/// First four bytes of the MD5 of a text, big-endian.
std::uint32_t ring_hash(std::string_view text);

/// Thread: any after construction.
class Ring {
 public:
  /// Point k of a member is at ring_hash("<member>-<k>"). Where two points collide the later wins.
  Ring(std::span<const std::string_view> members, std::uint32_t points_per_member);

  /// Index of the member with the first point at or after the hash, else of the first point.
  std::uint32_t owner(std::uint32_t hash) const;

 private:
  std::vector<std::pair<std::uint32_t, std::uint32_t>> points_;  ///< (hash, member), ascending
};

}  // namespace tenon::allocator
