// Looks into a shared object without executing it: the host refuses what is not a plug-in before dlopen runs
// its constructors. 64-bit little-endian ELF only.
#pragma once

#include "tenon/base/result.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tenon::host {

/// Names of the symbols that the file exports.
/// @return kNotFound, kDenied or kIo if it cannot be opened; kInvalid if it is not a shared object for this
///         machine; kCorrupt if it is shorter than its tables say. The texts carry a remedy, not the file name.
Result<std::vector<std::string>> exported_symbols(const std::filesystem::path& file);

}  // namespace tenon::host
