// The signature that RocketMQ's access control asks for. Source: spec client §3.5.
#pragma once

#include "tenon/proto/command.h"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tenon::proto {

inline constexpr std::string_view kAclAccessKey = "AccessKey";
inline constexpr std::string_view kAclSecurityToken = "SecurityToken";
inline constexpr std::string_view kAclSignature = "Signature";

using Sha1Digest = std::array<std::byte, 20>;

/// HMAC-SHA1 of the parts one after the other. Thread: any.
Sha1Digest hmac_sha1(std::string_view key, std::span<const std::string_view> parts);

/// With padding, alphabet of RFC 4648 §4. Thread: any.
std::string base64(std::span<const std::byte> bytes);

/// Value of the ext field Signature: Base64 of the HMAC-SHA1 of the values of all fields but
/// Signature itself, in the order of their keys, and the body. AccessKey and SecurityToken are
/// fields like others and must be among them. Keys are compared bytewise, which is Java's order for
/// all but supplementary characters. Thread: any.
std::string acl_signature(std::string_view secret_key,
                          std::span<const Field> fields,
                          std::span<const std::byte> body);

}  // namespace tenon::proto
