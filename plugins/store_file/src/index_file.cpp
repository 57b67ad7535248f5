#include "index_file.h"

#include "tenon/base/endian.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::store_file {

namespace {
constexpr std::uint64_t kAllocateStep = 1u << 20;
}  // namespace

Result<> IndexFile::open() {
  TENON_TRY(file_.map(false));
  header_ = store_format::load_index_header(file_.data());
  if (header_.next_item > shape_.items) {
    return Error{
        Errc::kCorrupt,
        fmt::format("{} counts {} entries, {} fit", path(), header_.next_item, shape_.items)};
  }
  allocated_ = 0;
  return ok();
}

Result<> IndexFile::create(const IndexHeader* after) {
  TENON_TRY(file_.map(true));
  // The slots are written at random: without blocks a full disk would be a SIGBUS.
  TENON_TRY(file_.allocate(0, 40 + 4ull * shape_.slots));
  header_ = store_format::first_index_header(after);
  write_header();
  return ok();
}

std::uint32_t IndexFile::load_slot(std::uint32_t slot) const noexcept {
  const auto value = load_be<std::uint32_t>(slot_at(slot));
  return value < header_.next_item ? value : 0;
}

Result<> IndexFile::insert(std::int32_t hash, std::uint64_t phys, std::int64_t store_ms) {
  const std::uint64_t stop = shape_.item_at(header_.next_item) + 20;
  if (stop > allocated_) {
    const std::uint64_t from = allocated_ == 0 ? stop - 20 : allocated_;
    TENON_TRY(file_.allocate(from, std::min(from + kAllocateStep, file_.bytes())));
    allocated_ = std::min(from + kAllocateStep, file_.bytes());
  }
  store_format::add_index_item(file_.data(), shape_, header_, hash, phys, store_ms);
  return ok();
}

bool IndexFile::cut(std::uint64_t phys) {
  bool changed = false;
  while (header_.next_item > 1) {
    const std::uint32_t n = header_.next_item - 1;
    const IndexItem item = load_item(n);
    if (item.phys < phys) {
      break;
    }
    // The newest item of all is the newest of its chain: the slot goes back to the one before.
    store_be(slot_at(shape_.slot_of(item.hash)), item.previous);
    std::fill_n(item_at(n), 20, std::uint8_t{0});
    header_.used_slots -= item.previous == 0 && header_.used_slots > 0 ? 1 : 0;
    header_.next_item = n;
    changed = true;
  }
  if (!changed) {
    return false;
  }
  if (header_.next_item > 1) {
    const IndexItem last = load_item(header_.next_item - 1);
    header_.end_phys = last.phys;
    header_.end_ms = header_.begin_ms + std::int64_t{last.seconds} * 1000;
  } else {
    header_ = IndexHeader{};
  }
  write_header();
  return true;
}

void IndexFile::forget_items() const noexcept {
  const auto at = static_cast<std::uint64_t>(item_at(header_.next_item) - file_.data());
  file_.forget(40 + 4ull * shape_.slots, page_down(at));
}

}  // namespace tenon::store_file
