// What the reader and the printers say about names and ranges in the same words.
#pragma once

#include "tenon/config/visitor.h"

#include <string>
#include <string_view>

namespace tenon::config {

inline bool is_duration_key(std::string_view name) {
  return name.ends_with("_ms");
}
inline bool is_size_key(std::string_view name) {
  return name.ends_with("_bytes");
}

/// "0 to 65535", "at least 1", "at most 5"; empty without limits.
std::string range_text(const KeyInfo& info);

}  // namespace tenon::config
