// The delay levels: "1s 5s 10s …" (spec: broker §12.1).
#pragma once

#include "tenon/base/result.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon::broker {

/// Immutable. Level numbers start at 1. Thread: any.
class DelayLevels {
 public:
  /// @return kInvalid naming the malformed item
  static Result<DelayLevels> parse(std::string_view text);

  std::int32_t max_level() const noexcept { return static_cast<std::int32_t>(delay_ms_.size()); }
  /// A level beyond the table delays one second.
  std::int64_t delay_ms(std::int32_t level) const noexcept {
    return level >= 1 && level <= max_level() ? delay_ms_[static_cast<std::size_t>(level - 1)]
                                              : 1000;
  }
  std::int32_t clamp(std::int32_t level) const noexcept {
    return level > max_level() ? max_level() : level;
  }
  std::int64_t deliver_ms(std::int32_t level, std::int64_t store_ms) const noexcept {
    return store_ms + delay_ms(level);
  }

 private:
  std::vector<std::int64_t> delay_ms_{};
};

}  // namespace tenon::broker
