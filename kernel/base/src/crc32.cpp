#include "tenon/base/crc32.h"

#include <libdeflate.h>

namespace tenon {

std::uint32_t crc32(std::span<const std::byte> bytes) noexcept {
  return libdeflate_crc32(0, bytes.data(), bytes.size());
}

}  // namespace tenon
