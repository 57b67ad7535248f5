#include "tenon/base/similar.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tenon {
namespace {

/// Names longer than this are not compared: no key or identifier of ours is near that, and the
/// comparison is quadratic.
constexpr std::size_t kNameMaxBytes = 128;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

template <class Name>
std::optional<std::string_view> nearest(std::string_view name, std::span<const Name> known) {
  std::optional<std::string_view> best;
  std::size_t best_distance = 0;
  for (const Name& candidate : known) {
    const std::string_view text = candidate;
    if (name.size() > kNameMaxBytes || text.size() > kNameMaxBytes) {
      continue;
    }
    const std::size_t distance = edit_distance(name, text);
    const std::size_t longer = std::max(name.size(), text.size());
    if (distance * 3 <= longer && (!best || distance < best_distance)) {
      best = text;
      best_distance = distance;
    }
  }
  return best;
}

std::string suffix(std::optional<std::string_view> found) {
  return found ? fmt::format(", did you mean \"{}\"", *found) : std::string();
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: the swap looks two rows back.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    last[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0u : 1u)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::optional<std::string_view> similar_name(std::string_view name,
                                             std::span<const std::string_view> known) {
  return nearest(name, known);
}

std::optional<std::string_view> similar_name(std::string_view name,
                                             std::span<const std::string> known) {
  return nearest(name, known);
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> known) {
  return suffix(nearest(name, known));
}

std::string did_you_mean(std::string_view name, std::span<const std::string> known) {
  return suffix(nearest(name, known));
}

}  // namespace tenon
