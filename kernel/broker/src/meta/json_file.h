// Configuration files in <store_root>/config: never a moment without a readable file, and the
// previous content in X.bak as RocketMQ leaves it (spec: store §8.1).
#pragma once

#include "tenon/base/result.h"

#include <filesystem>
#include <functional>
#include <string_view>

namespace tenon::broker {

/// Hands the text of `path` to `parse`; if the file is missing, empty or refused by `parse`, the
/// text of `path`.bak. Both missing is success without a call.
/// @return the error of the .bak file; the text names it
Result<> load_json_file(const std::filesystem::path& path,
                        const std::function<Result<>(std::string_view)>& parse);

/// Writes path.tmp, keeps the old file as path.bak, renames. Durable when it returns. Not for I/O
/// threads.
Result<> save_json_file(const std::filesystem::path& path, std::string_view text);

}  // namespace tenon::broker
