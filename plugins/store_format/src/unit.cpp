#include "tenon/store_format/unit.h"

#include "tenon/base/endian.h"

namespace tenon::store_format {

std::optional<ExtUnit> parse_ext_unit(std::span<const std::uint8_t> in) noexcept {
  if (in.size() < kExtHeadBytes) {
    return std::nullopt;
  }
  const std::uint64_t size = load_be<std::uint16_t>(in.data());
  const std::uint64_t bits = load_be<std::uint16_t>(in.data() + 18);
  if (size < kExtHeadBytes || size > kExtUnitMax || size > in.size() ||
      bits != size - kExtHeadBytes) {
    return std::nullopt;
  }
  return ExtUnit{load_be<std::int64_t>(in.data() + 2),
                 load_be<std::int64_t>(in.data() + 10),
                 in.subspan(kExtHeadBytes, bits)};
}

}  // namespace tenon::store_format
