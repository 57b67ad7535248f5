// Names in a store folder (spec: store §1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::store_format {

/// Digits of the name of a file that is named by the position of its first byte.
inline constexpr std::size_t kPositionDigits = 20;

/// "00000000000000262144": the position of the first byte, 20 digits.
std::string file_name_of(std::uint64_t base);
/// The value of a text of digits only.
std::optional<std::uint64_t> number_of(std::string_view text) noexcept;
/// The position that a file name of 20 digits stands for.
std::optional<std::uint64_t> base_of_name(std::string_view name) noexcept;

std::string log_folder(const std::string& root);
std::string queue_folder(const std::string& root, std::string_view topic, std::uint32_t id);
std::string ext_folder(const std::string& root, std::string_view topic, std::uint32_t id);
std::string index_folder(const std::string& root);

/// Name of an index file: local time with 17 digits; if that is not behind `last`, `last` plus one.
std::string index_name_of(std::int64_t wall_ms, std::string_view last);

}  // namespace tenon::store_format
