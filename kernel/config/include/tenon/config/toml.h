// TOML text into a tree of ConfigNode. The only place that knows the parser.
#pragma once

#include "tenon/base/config_node.h"
#include "tenon/base/result.h"

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace tenon::config {

/// Largest configuration file that is read, in bytes.
inline constexpr std::size_t kTomlMaxBytes = 4u * 1024 * 1024;

/// Parses a whole document; the root is a table. Members stand in file order and carry the position
/// of their key, array elements that of their value.
///
/// @param name  what positions call the text, normally the file name
/// @return kInvalid with "name:line:column: reason" for a syntax error (the parser stops at the
///         first) and for a date or time value, which no key of ours takes; kLimit for a text above
///         kTomlMaxBytes
/// Thread: any. Does not throw, except std::bad_alloc.
Result<ConfigNode> parse_toml(std::string_view text, std::string_view name);

/// The same for a file. @return also kNotFound and kIo with the file's name and the system's reason
Result<ConfigNode> parse_toml_file(const std::filesystem::path& path);

}  // namespace tenon::config
