// Turns fastjson's dialect into standard JSON text.
#pragma once

#include "tenon/base/result.h"

#include <string>
#include <string_view>

namespace tenon::proto::detail {

inline constexpr int kJsonDepthMax = 64;

/// Rewrites single quotes, unquoted names, integer keys, objects as keys (their JSON text becomes
/// the key), extra commas, comments, raw control characters, Java number suffixes and half
/// surrogates. @return kInvalid if the text is not even that.
Result<std::string> normalize_json(std::string_view text);

}  // namespace tenon::proto::detail
