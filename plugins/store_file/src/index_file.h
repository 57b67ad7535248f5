// One file of the key index: a hash table on disk (spec: store §6).
//
//   0  40       begin time 8, end time 8, begin offset 8, end offset 8, used slots 4, next item 4
//  40  4 each   slots: number of the newest item of the chain, 0 = empty
//  ..  20 each  items: key hash 4, physical offset 8, seconds since begin 4, previous item 4
//
// Item 0 is never used.
#pragma once

#include "mapped_file.h"

#include "tenon/base/result.h"

#include <cstdint>
#include <span>
#include <string>

namespace tenon::store_file {

struct IndexShape {
  std::uint32_t slots = 0;
  std::uint32_t items = 0;
  std::uint64_t file_bytes() const noexcept { return 40 + 4ull * slots + 20ull * items; }
};

struct IndexHeader {
  std::int64_t begin_ms = 0;
  std::int64_t end_ms = 0;
  std::uint64_t begin_phys = 0;
  std::uint64_t end_phys = 0;
  std::uint32_t used_slots = 0;
  std::uint32_t next_item = 1;
};

/// Not synchronised: KeyIndex holds its lock.
class IndexFile {
 public:
  IndexFile(std::string path, IndexShape shape)
      : file_(std::move(path), 0, shape.file_bytes()),
        shape_(shape) {}

  /// Opens an existing file and checks its header.
  Result<> open();
  /// Creates the file. Its first entry is timed against `after`, the header of the file before.
  Result<> create(const IndexHeader* after);

  const IndexHeader& header() const noexcept { return header_; }
  const std::string& path() const noexcept { return file_.path(); }
  bool is_full() const noexcept { return header_.next_item >= shape_.items; }
  bool is_empty() const noexcept { return header_.next_item <= 1; }

  /// kFull when the disk has no space; nothing changed then.
  Result<> insert(std::int32_t hash, std::uint64_t phys, std::int64_t store_ms);
  /// Calls found(phys) for entries of that hash in the time range, newest first, until it returns
  /// false.
  template <class Found>
  void search(std::int32_t hash, std::int64_t begin_ms, std::int64_t end_ms, Found&& found) const;
  /// True if the times of the file and of the query meet.
  bool overlaps(std::int64_t begin_ms, std::int64_t end_ms) const noexcept {
    return begin_ms <= header_.end_ms && end_ms >= header_.begin_ms;
  }
  /// Takes back the entries at or behind phys.
  void cut(std::uint64_t phys);
  Result<> sync() const { return file_.sync(0, file_.bytes()); }
  /// Gives back the pages of the items that are not written any more.
  void forget_items() const noexcept;

  /// Whether a file with this content can have that shape: every item is linked where its hash
  /// belongs. For folders whose shape nobody knows.
  static bool fits(std::span<const std::uint8_t> content, IndexShape shape) noexcept;

 private:
  struct Item {
    std::int32_t hash = 0;
    std::uint64_t phys = 0;
    std::int32_t seconds = 0;
    std::uint32_t previous = 0;
  };
  std::uint8_t* slot_at(std::uint32_t slot) const noexcept {
    return file_.data() + 40 + 4ull * slot;
  }
  std::uint8_t* item_at(std::uint32_t item) const noexcept {
    return file_.data() + 40 + 4ull * shape_.slots + 20ull * item;
  }
  Item load_item(std::uint32_t item) const noexcept;
  std::uint32_t load_slot(std::uint32_t slot) const noexcept;
  void write_header() noexcept;

  MappedFile file_;
  IndexShape shape_;
  IndexHeader header_{};
  std::uint64_t allocated_ = 0;  ///< items up to this byte have blocks
};

template <class Found>
void IndexFile::search(std::int32_t hash,
                       std::int64_t begin_ms,
                       std::int64_t end_ms,
                       Found&& found) const {
  if (is_empty()) {
    return;
  }
  std::uint32_t at = load_slot(static_cast<std::uint32_t>(hash) % shape_.slots);
  while (at > 0 && at < header_.next_item) {
    const Item item = load_item(at);
    if (item.seconds < 0) {
      return;
    }
    const std::int64_t time = header_.begin_ms + std::int64_t{item.seconds} * 1000;
    if (item.hash == hash && time >= begin_ms && time <= end_ms && !found(item.phys)) {
      return;
    }
    // Chains run backwards in the file; anything else is damage and would not end.
    if (item.previous >= at || time < begin_ms) {
      return;
    }
    at = item.previous;
  }
}

}  // namespace tenon::store_file
