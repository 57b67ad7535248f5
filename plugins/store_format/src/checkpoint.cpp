#include "tenon/store_format/checkpoint.h"

#include "tenon/base/endian.h"

#include <algorithm>

namespace tenon::store_format {

namespace {
constexpr std::size_t kQueueUnitsAt = 4056;
constexpr std::size_t kIndexDoneAt = 4064;
constexpr std::size_t kIndexLastAt = 4072;
constexpr std::size_t kIndexedAt = 4080;
constexpr std::uint64_t kIndexedMagic = 0x54454e4f4e494458;  // "TENONIDX"
}  // namespace

std::int64_t Checkpoint::min_ms() const noexcept {
  const std::int64_t both = std::min(physic_ms, logics_ms);
  return both <= 3000 ? 0 : both - 3000;
}

Checkpoint parse_checkpoint(std::span<const std::uint8_t> in) noexcept {
  Checkpoint c;
  if (in.size() < 24) {
    return c;
  }
  c.physic_ms = load_be<std::int64_t>(in.data());
  c.logics_ms = load_be<std::int64_t>(in.data() + 8);
  c.index_ms = load_be<std::int64_t>(in.data() + 16);
  if (in.size() >= kCheckpointBytes) {
    c.index_done = load_be<std::uint64_t>(in.data() + kIndexDoneAt);
  }
  if (in.size() >= kCheckpointBytes &&
      load_be<std::uint64_t>(in.data() + kIndexedAt) == kIndexedMagic) {
    c.indexed = load_be<std::uint64_t>(in.data() + kIndexedAt + 8);
    c.index_last = load_be<std::uint64_t>(in.data() + kIndexLastAt);
    c.queue_units = load_be<std::uint64_t>(in.data() + kQueueUnitsAt);
  }
  return c;
}

void write_checkpoint(const Checkpoint& c, std::span<std::uint8_t, kCheckpointBytes> out) noexcept {
  store_be(out.data(), c.physic_ms);
  store_be(out.data() + 8, c.logics_ms);
  store_be(out.data() + 16, c.index_ms);
  store_be(out.data() + kIndexDoneAt, c.index_done);
  store_be(out.data() + kIndexLastAt, c.index_last);
  store_be(out.data() + kQueueUnitsAt, c.queue_units);
  store_be(out.data() + kIndexedAt, c.indexed == 0 ? std::uint64_t{0} : kIndexedMagic);
  store_be(out.data() + kIndexedAt + 8, c.indexed);
}

}  // namespace tenon::store_format
