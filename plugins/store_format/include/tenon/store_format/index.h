// One file of the key index: a hash table on disk (spec: store §6).
//
//   0  40       begin time 8, end time 8, begin offset 8, end offset 8, used slots 4, next item 4
//  40  4 each   slots: number of the newest item of the chain, 0 = empty
//  ..  20 each  items: key hash 4, physical offset 8, seconds since begin 4, previous item 4
//
// Item 0 is never used. Slots and items are not recorded in the file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace tenon::store_format {

inline constexpr std::uint64_t kIndexHeaderBytes = 40;
inline constexpr std::uint64_t kIndexItemBytes = 20;

struct IndexShape {
  std::uint32_t slots = 0;
  std::uint32_t items = 0;
  std::uint64_t file_bytes() const noexcept { return 40 + 4ull * slots + 20ull * items; }
  std::uint64_t slot_at(std::uint32_t slot) const noexcept { return 40 + 4ull * slot; }
  std::uint64_t item_at(std::uint32_t item) const noexcept {
    return 40 + 4ull * slots + 20ull * item;
  }
  std::uint32_t slot_of(std::int32_t hash) const noexcept {
    return static_cast<std::uint32_t>(hash) % slots;
  }
};

struct IndexHeader {
  std::int64_t begin_ms = 0;
  std::int64_t end_ms = 0;
  std::uint64_t begin_phys = 0;
  std::uint64_t end_phys = 0;
  std::uint32_t used_slots = 0;
  std::uint32_t next_item = 1;
};

struct IndexItem {
  std::int32_t hash = 0;
  std::uint64_t phys = 0;
  std::int32_t seconds = 0;
  std::uint32_t previous = 0;
};

/// The callers have checked that the bytes are there: 40 at a header, 20 at an item.
IndexHeader load_index_header(const std::uint8_t* p) noexcept;
void store_index_header(std::uint8_t* p, const IndexHeader& header) noexcept;
IndexItem load_index_item(const std::uint8_t* p) noexcept;
void store_index_item(std::uint8_t* p, const IndexItem& item) noexcept;

/// The header of a new file behind one with the header `before`: its first entry is timed against
/// the end of that (spec: store §6.3).
IndexHeader first_index_header(const IndexHeader* before) noexcept;
/// Adds an entry to a file that has room: item, slot, header. `file` is the whole file, `header`
/// what load_index_header gives of it.
void add_index_item(std::uint8_t* file,
                    IndexShape shape,
                    IndexHeader& header,
                    std::int32_t hash,
                    std::uint64_t phys,
                    std::int64_t store_ms) noexcept;
/// Seconds that an entry of that store time has.
std::int32_t index_seconds(std::int64_t begin_ms, std::int64_t store_ms) noexcept;

/// Whether a file with this content can have that shape: every item is linked where its hash
/// belongs. For folders whose shape nobody knows. Looks at the first items only.
bool index_fits(std::span<const std::uint8_t> content, IndexShape shape) noexcept;
/// The shape of a file: as configured, else one slot for four items, else the first that fits; a
/// file without entries fits everything of its size.
std::optional<IndexShape> find_index_shape(std::span<const std::uint8_t> content,
                                           IndexShape configured) noexcept;

}  // namespace tenon::store_format
