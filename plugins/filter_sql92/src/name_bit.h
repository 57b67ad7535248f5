// One bit of 64 for a property name, by its length and first byte: most names of a message are not
// wanted, and that is seen without comparing them.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon::filter_sql92 {

/// @param name  not empty
inline std::uint64_t name_bit(std::string_view name) noexcept {
  return std::uint64_t{1} << ((name.size() * 7 + static_cast<unsigned char>(name.front())) & 63);
}

}  // namespace tenon::filter_sql92
