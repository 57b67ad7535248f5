// One file of the key index: a hash table on disk (spec: store §6).
#pragma once

#include "mapped_file.h"

#include "tenon/base/result.h"
#include "tenon/store_format/index.h"

#include <cstdint>
#include <string>

namespace tenon::store_file {

using store_format::IndexHeader;
using store_format::IndexItem;
using store_format::IndexShape;

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
  bool cut(std::uint64_t phys);
  Result<> sync() const { return file_.sync(0, file_.bytes()); }
  /// Gives back the pages of the items that are not written any more.
  void forget_items() const noexcept;

 private:
  std::uint8_t* slot_at(std::uint32_t slot) const noexcept {
    return file_.data() + shape_.slot_at(slot);
  }
  std::uint8_t* item_at(std::uint32_t item) const noexcept {
    return file_.data() + shape_.item_at(item);
  }
  IndexItem load_item(std::uint32_t item) const noexcept {
    return store_format::load_index_item(item_at(item));
  }
  std::uint32_t load_slot(std::uint32_t slot) const noexcept;
  void write_header() noexcept { store_format::store_index_header(file_.data(), header_); }

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
  std::uint32_t at = load_slot(shape_.slot_of(hash));
  while (at > 0 && at < header_.next_item) {
    const IndexItem item = load_item(at);
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
