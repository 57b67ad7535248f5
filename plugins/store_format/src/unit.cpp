#include "tenon/store_format/unit.h"

#include "tenon/base/endian.h"

#include <atomic>

namespace tenon::store_format {

Unit load_unit(const std::uint8_t* p) noexcept {
  return {load_be<std::uint64_t>(p), load_be<std::uint32_t>(p + 8), load_be<std::int64_t>(p + 12)};
}

void store_unit(std::uint8_t* p, const Unit& unit) noexcept {
  store_be(p, unit.phys);
  store_be(p + 12, unit.tags_code);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  store_be(p + 8, unit.bytes);
}

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
