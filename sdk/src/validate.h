// Checks before anything is sent, with the limits and texts of the Java client (spec: client §4.2).
#pragma once

#include "tenon/sdk/message.h"
#include "tenon/sdk/result.h"

#include <cstddef>
#include <string_view>

namespace tenon::sdk {

inline constexpr std::size_t kTopicMaxChars = 127;
inline constexpr std::size_t kGroupMaxChars = 255;

Result<void> check_topic(std::string_view topic);
Result<void> check_sendable(std::string_view topic);
Result<void> check_group(std::string_view group);
bool is_reserved_property(std::string_view name) noexcept;
/// @return kInvalidArgument for names and properties, kMessageIllegal for the body
Result<void> check_message(const Message& message, std::size_t max_body_bytes);
/// The size that a broker accepts for the whole properties text.
Result<void> check_properties_size(std::size_t bytes);

}  // namespace tenon::sdk
