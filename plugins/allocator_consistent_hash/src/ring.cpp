#include "ring.h"

#include "md5.h"

#include <algorithm>
#include <map>
#include <string>

namespace tenon::allocator {

std::uint32_t ring_hash(std::string_view text) {
  const auto digest = md5(text);
  return std::uint32_t{digest[0]} << 24 | std::uint32_t{digest[1]} << 16 |
         std::uint32_t{digest[2]} << 8 | std::uint32_t{digest[3]};
}

Ring::Ring(std::span<const std::string_view> members, std::uint32_t points_per_member) {
  std::map<std::uint32_t, std::uint32_t> points;
  std::map<std::string_view, std::uint32_t> placed;  // a member listed twice goes on counting
  for (std::uint32_t m = 0; m < members.size(); ++m) {
    std::uint32_t& next = placed[members[m]];
    for (std::uint32_t k = 0; k < points_per_member; ++k, ++next) {
      points[ring_hash(std::string(members[m]) + "-" + std::to_string(next))] = m;
    }
  }
  points_.assign(points.begin(), points.end());
}

std::uint32_t Ring::owner(std::uint32_t hash) const {
  const auto at =
      std::lower_bound(points_.begin(), points_.end(), hash, [](const auto& p, std::uint32_t h) {
        return p.first < h;
      });
  return at == points_.end() ? points_.front().second : at->second;
}

}  // namespace tenon::allocator
