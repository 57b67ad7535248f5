// Key index files, checkpoints, DLedger entries, queue units and exported topics. The first byte chooses.
#include "tenon/base/check.h"
#include "tenon/store_format/checkpoint.h"
#include "tenon/store_format/dledger.h"
#include "tenon/store_format/index.h"
#include "tenon/store_format/unit.h"
#include "tenon/store_tool/exchange.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

using namespace tenon::store_format;

namespace {

/// A shape that is found can be walked and written to.
void index(std::span<const std::uint8_t> in) {
  const auto shape = find_index_shape(in, {2, 8});
  if (!shape) {
    return;
  }
  TENON_CHECK(shape->slots > 0 && shape->file_bytes() == in.size(), "shape");
  std::vector<std::uint8_t> file(in.begin(), in.end());
  IndexHeader header = load_index_header(file.data());
  for (std::uint32_t i = 1; i < header.next_item && i < shape->items; ++i) {
    static_cast<void>(load_index_item(file.data() + shape->item_at(i)));
  }
  if (header.next_item < shape->items) {
    const std::uint32_t before = header.next_item;
    add_index_item(file.data(), *shape, header, 77, 1000, 1'700'000'000'000);
    const IndexItem added = load_index_item(file.data() + shape->item_at(before));
    TENON_CHECK(added.phys == 1000 && added.previous < before && added.seconds >= 0, "item");
    TENON_CHECK(load_index_header(file.data()).next_item == before + 1, "header");
  }
}

void checkpoint(std::span<const std::uint8_t> in) {
  const Checkpoint c = parse_checkpoint(in);
  TENON_CHECK(c.min_ms() >= 0, "minimum");
  std::uint8_t out[kCheckpointBytes] = {};
  write_checkpoint(c, out);
  const Checkpoint again = parse_checkpoint(out);
  TENON_CHECK(again.physic_ms == c.physic_ms && again.indexed == c.indexed, "round trip");
}

void dledger(std::span<const std::uint8_t> in) {
  while (!is_dledger_file_end(in)) {
    const auto entry = parse_dledger_entry(in);
    if (!entry) {
      return;
    }
    TENON_CHECK(entry->bytes() <= in.size() && entry->bytes() >= kDledgerHeadBytes, "size");
    in = in.subspan(entry->bytes());
  }
}

void units(std::span<const std::uint8_t> in) {
  for (; in.size() >= kUnitBytes; in = in.subspan(kUnitBytes)) {
    const Unit unit = load_unit(in.data());
    std::uint8_t out[kUnitBytes] = {};
    store_unit(out, unit);
    TENON_CHECK(std::memcmp(out, in.data(), kUnitBytes) == 0, "round trip");
    if (is_ext_address(unit.tags_code)) {
      TENON_CHECK(ext_address_of(ext_position_of(unit.tags_code)) == unit.tags_code, "address");
    }
  }
}

void exported(std::span<const std::uint8_t> in) {
  auto reader = tenon::store_tool::ExportReader::open(in);
  if (!reader) {
    return;
  }
  std::size_t bytes = reader.value().header().size();
  while (true) {
    const auto record = reader.value().next();
    if (!record || record.value().empty()) {
      return;
    }
    bytes += record.value().size();
    TENON_CHECK(bytes < in.size(), "beyond the end");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      index(rest);
      break;
    case 1:
      checkpoint(rest);
      break;
    case 2:
      dledger(rest);
      break;
    case 3:
      units(rest);
      break;
    default:
      exported(rest);
      break;
  }
  return 0;
}
