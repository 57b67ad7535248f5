// MD5 (RFC 1321), because the ring of the other clients is built with it. Not for security.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tenon::allocator {

/// Thread: any. Allocates one copy of the text.
std::array<std::uint8_t, 16> md5(std::string_view text);

}  // namespace tenon::allocator
