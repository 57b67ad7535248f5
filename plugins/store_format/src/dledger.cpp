#include "tenon/store_format/dledger.h"

#include "tenon/base/endian.h"

namespace tenon::store_format {

bool is_dledger_file_end(std::span<const std::uint8_t> in) noexcept {
  return in.size() >= 4 && load_be<std::int32_t>(in.data()) == kDledgerFileEnd;
}

std::optional<DledgerEntry> parse_dledger_entry(std::span<const std::uint8_t> in) noexcept {
  if (in.size() < kDledgerHeadBytes) {
    return std::nullopt;
  }
  const auto kind = load_be<std::int32_t>(in.data());
  const std::uint64_t size = load_be<std::uint32_t>(in.data() + 4);
  const std::uint64_t body = load_be<std::uint32_t>(in.data() + 44);
  if (kind < kDledgerMessage || kind > 3 || size > in.size() || size != kDledgerHeadBytes + body) {
    return std::nullopt;
  }
  DledgerEntry entry;
  entry.kind = kind;
  entry.index = load_be<std::int64_t>(in.data() + 8);
  entry.term = load_be<std::int64_t>(in.data() + 16);
  entry.pos = load_be<std::uint64_t>(in.data() + 24);
  entry.body = in.subspan(kDledgerHeadBytes, body);
  return entry;
}

}  // namespace tenon::store_format
