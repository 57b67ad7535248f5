// Searches of a queue by store time, over any way to learn the time of an entry (spec: store §16).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace tenon::store {

/// The entry of [low, high) whose time is nearest to ms, as 4.9.8 finds it: an exact hit is
/// whichever the binary search meets, ties go to the left, before the first is the first, after the
/// last is the last. An entry without a time counts as too old.
/// @param time_at  offset → optional time
template <class TimeAt>
std::int64_t nearest_offset(std::int64_t low,
                            std::int64_t high,
                            std::int64_t ms,
                            TimeAt&& time_at) {
  std::int64_t last = high - 1;
  std::int64_t left = -1;
  std::int64_t right = -1;
  std::optional<std::int64_t> left_ms;
  std::optional<std::int64_t> right_ms;
  while (low <= last) {
    const std::int64_t middle = low + (last - low) / 2;
    const std::optional<std::int64_t> time = time_at(middle);
    if (!time) {
      low = middle + 1;
      left = middle;
    } else if (*time == ms) {
      return middle;
    } else if (*time > ms) {
      last = middle - 1;
      right = middle;
      right_ms = time;
    } else {
      low = middle + 1;
      left = middle;
      left_ms = time;
    }
  }
  if (!left_ms) {
    return std::max<std::int64_t>(right, 0);
  }
  if (!right_ms) {
    return left;
  }
  return ms - *left_ms > *right_ms - ms ? right : left;
}

/// 5.x: the first entry of [low, high) with time >= ms (high if none), or with `upper` the last
/// with time <= ms (low if none).
template <class TimeAt>
std::int64_t bound_offset(
    std::int64_t low, std::int64_t high, std::int64_t ms, bool upper, TimeAt&& time_at) {
  const std::int64_t first = low;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const std::optional<std::int64_t> time = time_at(middle);
    if (!time || (upper ? *time <= ms : *time < ms)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return upper ? std::max(low - 1, first) : low;
}

}  // namespace tenon::store
