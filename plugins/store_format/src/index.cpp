#include "tenon/store_format/index.h"

#include "tenon/base/endian.h"

#include <algorithm>
#include <limits>

namespace tenon::store_format {

IndexHeader load_index_header(const std::uint8_t* p) noexcept {
  return {load_be<std::int64_t>(p),
          load_be<std::int64_t>(p + 8),
          load_be<std::uint64_t>(p + 16),
          load_be<std::uint64_t>(p + 24),
          load_be<std::uint32_t>(p + 32),
          std::max(load_be<std::uint32_t>(p + 36), 1u)};
}

void store_index_header(std::uint8_t* p, const IndexHeader& header) noexcept {
  store_be(p, header.begin_ms);
  store_be(p + 8, header.end_ms);
  store_be(p + 16, header.begin_phys);
  store_be(p + 24, header.end_phys);
  store_be(p + 32, header.used_slots);
  store_be(p + 36, header.next_item);
}

IndexItem load_index_item(const std::uint8_t* p) noexcept {
  return {load_be<std::int32_t>(p),
          load_be<std::uint64_t>(p + 4),
          load_be<std::int32_t>(p + 12),
          load_be<std::uint32_t>(p + 16)};
}

void store_index_item(std::uint8_t* p, const IndexItem& item) noexcept {
  store_be(p, item.hash);
  store_be(p + 4, item.phys);
  store_be(p + 12, item.seconds);
  store_be(p + 16, item.previous);
}

IndexHeader first_index_header(const IndexHeader* before) noexcept {
  IndexHeader header;
  if (before != nullptr) {
    header.begin_ms = header.end_ms = before->end_ms;
    header.begin_phys = header.end_phys = before->end_phys;
  }
  return header;
}

std::int32_t index_seconds(std::int64_t begin_ms, std::int64_t store_ms) noexcept {
  if (begin_ms <= 0 || store_ms <= begin_ms) {
    return 0;
  }
  return static_cast<std::int32_t>(std::min<std::int64_t>(
      (store_ms - begin_ms) / 1000, std::numeric_limits<std::int32_t>::max()));
}

void add_index_item(std::uint8_t* file,
                    IndexShape shape,
                    IndexHeader& header,
                    std::int32_t hash,
                    std::uint64_t phys,
                    std::int64_t store_ms) noexcept {
  const std::uint32_t n = header.next_item;
  std::uint8_t* slot = file + shape.slot_at(shape.slot_of(hash));
  std::uint32_t previous = load_be<std::uint32_t>(slot);
  previous = previous < n ? previous : 0;
  store_index_item(file + shape.item_at(n),
                   {hash, phys, index_seconds(header.begin_ms, store_ms), previous});
  store_be(slot, n);
  if (n <= 1) {
    header.begin_phys = phys;
    header.begin_ms = store_ms;
  }
  header.used_slots += previous == 0 ? 1 : 0;
  header.next_item = n + 1;
  header.end_phys = phys;
  header.end_ms = store_ms;
  store_index_header(file, header);
}

bool index_fits(std::span<const std::uint8_t> content, IndexShape shape) noexcept {
  if (shape.slots == 0 || shape.items < 2 || content.size() != shape.file_bytes()) {
    return false;
  }
  const IndexHeader header = load_index_header(content.data());
  if (header.next_item > shape.items || header.next_item <= 1) {
    return false;
  }
  const std::uint32_t looked_at = std::min(header.next_item, 64u);
  for (std::uint32_t i = 1; i < looked_at; ++i) {
    const IndexItem item = load_index_item(content.data() + shape.item_at(i));
    if (item.hash < 0 || item.previous >= i || item.phys < header.begin_phys ||
        item.phys > header.end_phys) {
      return false;
    }
    const auto newest =
        load_be<std::uint32_t>(content.data() + shape.slot_at(shape.slot_of(item.hash)));
    if (newest < i || newest >= header.next_item) {
      return false;
    }
  }
  return true;
}

std::optional<IndexShape> find_index_shape(std::span<const std::uint8_t> content,
                                           IndexShape configured) noexcept {
  if (content.size() <= kIndexHeaderBytes) {
    return std::nullopt;
  }
  const std::uint64_t payload = content.size() - kIndexHeaderBytes;
  const IndexShape usual{static_cast<std::uint32_t>(payload / 84),
                         static_cast<std::uint32_t>(payload / 84 * 4)};
  for (const IndexShape shape : {configured, usual}) {
    if (index_fits(content, shape)) {
      return shape;
    }
  }
  for (std::uint64_t slots = payload / 4 % 5; 4 * slots <= payload; slots += 5) {
    const IndexShape shape{static_cast<std::uint32_t>(slots),
                           static_cast<std::uint32_t>((payload - 4 * slots) / 20)};
    if (index_fits(content, shape)) {
      return shape;
    }
  }
  for (const IndexShape shape : {configured, usual}) {
    if (shape.slots > 0 && shape.file_bytes() == content.size()) {
      return shape;
    }
  }
  return std::nullopt;
}

}  // namespace tenon::store_format
