#include "index_file.h"

#include "tenon/base/endian.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace tenon::store_file {

namespace {
constexpr std::uint64_t kAllocateStep = 1u << 20;

IndexHeader load_header(const std::uint8_t* p) noexcept {
  return {load_be<std::int64_t>(p),
          load_be<std::int64_t>(p + 8),
          load_be<std::uint64_t>(p + 16),
          load_be<std::uint64_t>(p + 24),
          load_be<std::uint32_t>(p + 32),
          std::max(load_be<std::uint32_t>(p + 36), 1u)};
}
}  // namespace

Result<> IndexFile::open() {
  TENON_TRY(file_.map(false));
  header_ = load_header(file_.data());
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
  header_ = IndexHeader{};
  if (after != nullptr) {
    header_.begin_ms = header_.end_ms = after->end_ms;
    header_.begin_phys = header_.end_phys = after->end_phys;
  }
  write_header();
  return ok();
}

void IndexFile::write_header() noexcept {
  std::uint8_t* p = file_.data();
  store_be(p, header_.begin_ms);
  store_be(p + 8, header_.end_ms);
  store_be(p + 16, header_.begin_phys);
  store_be(p + 24, header_.end_phys);
  store_be(p + 32, header_.used_slots);
  store_be(p + 36, header_.next_item);
}

IndexFile::Item IndexFile::load_item(std::uint32_t item) const noexcept {
  const std::uint8_t* p = item_at(item);
  return {load_be<std::int32_t>(p),
          load_be<std::uint64_t>(p + 4),
          load_be<std::int32_t>(p + 12),
          load_be<std::uint32_t>(p + 16)};
}

std::uint32_t IndexFile::load_slot(std::uint32_t slot) const noexcept {
  const auto value = load_be<std::uint32_t>(slot_at(slot));
  return value < header_.next_item ? value : 0;
}

Result<> IndexFile::insert(std::int32_t hash, std::uint64_t phys, std::int64_t store_ms) {
  const std::uint32_t n = header_.next_item;
  std::uint8_t* at = item_at(n);
  const auto stop = static_cast<std::uint64_t>(at + 20 - file_.data());
  if (stop > allocated_) {
    const std::uint64_t from = allocated_ == 0 ? stop - 20 : allocated_;
    TENON_TRY(file_.allocate(from, std::min(from + kAllocateStep, file_.bytes())));
    allocated_ = std::min(from + kAllocateStep, file_.bytes());
  }
  const std::uint32_t slot = static_cast<std::uint32_t>(hash) % shape_.slots;
  const std::uint32_t previous = load_slot(slot);
  std::int64_t seconds =
      header_.begin_ms <= 0 ? 0 : std::max<std::int64_t>(0, (store_ms - header_.begin_ms) / 1000);
  seconds = std::min<std::int64_t>(seconds, std::numeric_limits<std::int32_t>::max());
  store_be(at, hash);
  store_be(at + 4, phys);
  store_be(at + 12, static_cast<std::int32_t>(seconds));
  store_be(at + 16, previous);
  store_be(slot_at(slot), n);
  if (n <= 1) {
    header_.begin_phys = phys;
    header_.begin_ms = store_ms;
  }
  header_.used_slots += previous == 0 ? 1 : 0;
  header_.next_item = n + 1;
  header_.end_phys = phys;
  header_.end_ms = store_ms;
  write_header();
  return ok();
}

void IndexFile::cut(std::uint64_t phys) {
  bool changed = false;
  while (header_.next_item > 1) {
    const std::uint32_t n = header_.next_item - 1;
    const Item item = load_item(n);
    if (item.phys < phys) {
      break;
    }
    // The newest item of all is the newest of its chain: the slot goes back to the one before.
    store_be(slot_at(static_cast<std::uint32_t>(item.hash) % shape_.slots), item.previous);
    std::fill_n(item_at(n), 20, std::uint8_t{0});
    header_.used_slots -= item.previous == 0 && header_.used_slots > 0 ? 1 : 0;
    header_.next_item = n;
    changed = true;
  }
  if (!changed) {
    return;
  }
  if (header_.next_item > 1) {
    const Item last = load_item(header_.next_item - 1);
    header_.end_phys = last.phys;
    header_.end_ms = header_.begin_ms + std::int64_t{last.seconds} * 1000;
  } else {
    header_ = IndexHeader{};
  }
  write_header();
}

void IndexFile::forget_items() const noexcept {
  const auto at = static_cast<std::uint64_t>(item_at(header_.next_item) - file_.data());
  file_.forget(40 + 4ull * shape_.slots, page_down(at));
}

bool IndexFile::fits(std::span<const std::uint8_t> content, IndexShape shape) noexcept {
  if (shape.slots == 0 || shape.items < 2 || content.size() != shape.file_bytes()) {
    return false;
  }
  const IndexHeader header = load_header(content.data());
  if (header.next_item > shape.items || header.next_item <= 1) {
    return false;
  }
  const std::uint8_t* items = content.data() + 40 + 4ull * shape.slots;
  const std::uint32_t looked_at = std::min(header.next_item, 64u);
  for (std::uint32_t i = 1; i < looked_at; ++i) {
    const std::uint8_t* p = items + 20ull * i;
    const auto hash = load_be<std::int32_t>(p);
    const auto phys = load_be<std::uint64_t>(p + 4);
    const auto previous = load_be<std::uint32_t>(p + 16);
    if (hash < 0 || previous >= i || phys < header.begin_phys || phys > header.end_phys) {
      return false;
    }
    const std::uint32_t slot = static_cast<std::uint32_t>(hash) % shape.slots;
    const auto newest = load_be<std::uint32_t>(content.data() + 40 + 4ull * slot);
    if (newest < i || newest >= header.next_item) {
      return false;
    }
  }
  return true;
}

}  // namespace tenon::store_file
