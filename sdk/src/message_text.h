// A message in wire form: properties text and compressed body (spec: client §4.2 to §4.4).
#pragma once

#include "tenon/sdk/producer.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::sdk {

/// Appends one property; no value, no property.
void put_property(std::string& text, std::string_view name, std::string_view value);

/// Appends all properties of a message, the id included. No separator at the end.
void put_properties(std::string& text, const Message& message, std::string_view unique_id);

/// Compresses from the threshold on, if that makes the body smaller.
/// @return sysFlag bits to be set; 0 if the body was left alone
std::int32_t compress_body(std::string& body, const ProducerOptions& options);

}  // namespace tenon::sdk
