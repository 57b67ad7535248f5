// Durations and sizes as people write them: "250ms", "5s", "64KiB" (plug-in ABI §10).
#pragma once

#include "tenon/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

/// "250ms", "5s", "2m", "1h", "3d" in milliseconds; whole numbers, no sign, no blanks.
/// @return kInvalid for any other text, kLimit if the value does not fit. Thread: any.
Result<std::int64_t> parse_duration_ms(std::string_view text);

/// "512B", "64KiB", "16MiB", "1GiB", "2TiB" in bytes, powers of 1024; whole numbers.
/// @return kInvalid for any other text, kLimit if the value does not fit. Thread: any.
Result<std::int64_t> parse_size_bytes(std::string_view text);

/// The shortest exact form: 5000 → "5s", 1500 → "1500ms". Thread: any.
std::string format_duration_ms(std::int64_t ms);
/// The shortest exact form: 65536 → "64KiB", 1000 → "1000B". Thread: any.
std::string format_size_bytes(std::int64_t bytes);

}  // namespace tenon
