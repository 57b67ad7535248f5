// "Did you mean …": the known name that a mistyped one most likely stands for.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

/// Number of single-character insertions, deletions, replacements and swaps of neighbours between
/// two names; bytes are compared, letters without regard to case. Thread: any.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// @return the nearest of the known names, if it is near enough to be a typing mistake: at most a
///         third of the longer name differs. The first wins among equals. Thread: any.
std::optional<std::string_view> similar_name(std::string_view name,
                                             std::span<const std::string_view> known);
std::optional<std::string_view> similar_name(std::string_view name,
                                             std::span<const std::string> known);

/// `, did you mean "x"` or an empty text; for the end of an error message. Thread: any.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);
std::string did_you_mean(std::string_view name, std::span<const std::string> known);

}  // namespace tenon
