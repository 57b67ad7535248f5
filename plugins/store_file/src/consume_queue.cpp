#include "consume_queue.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::store_file {

namespace {
/// A jump of the queue offset over more files than this is damage, not a gap: 3 million messages with
/// files of the usual size.
constexpr std::uint64_t kGapFilesMax = 10;
using store_format::kFillerUnit;
}  // namespace

ConsumeQueue::ConsumeQueue(std::string topic,
                           std::uint32_t id,
                           std::string folder,
                           std::uint64_t file_bytes,
                           QueueShared& shared)
    : topic_(std::move(topic)),
      id_(id),
      shared_(shared),
      files_(std::move(folder), file_bytes, &shared.mappings) {}

/// A file that cannot be mapped is none: whoever reads it next says why.
bool ConsumeQueue::starts_blank(std::uint64_t base) {
  const MappedFile* file = files_.find(base);
  return file != nullptr && load_unit(file->data()).is_end();
}

Result<> ConsumeQueue::recover(bool crashed) {
  forget_tail();
  max_phys_ = 0;
  const std::vector<std::uint64_t> bases = files_.bases();
  if (bases.empty()) {
    min_.store(0, std::memory_order_release);
    max_.store(0, std::memory_order_release);
    next_ = 0;
    return ok();
  }
  std::uint64_t end = bases.front();
  bool blank_behind = false;     // a unit of zeros follows
  std::uint64_t first_phys = 0;  // of the first unit that is no filler, if it is read
  // Third-last file first; if it holds nothing valid the end lies before it, so go further back.
  std::size_t first = bases.size() > 3 ? bases.size() - 3 : 0;
  while (first > 0 && starts_blank(bases[first])) {
    --first;
  }
  for (std::size_t i = first; i < bases.size(); ++i) {
    MappedFile* file = files_.find(bases[i]);
    if (file == nullptr) {
      return Error{Errc::kIo, fmt::format("map {}/{}", files_.folder(), file_name_of(bases[i]))};
    }
    std::uint64_t pos = 0;
    while (pos < file->bytes()) {
      const Unit unit = load_unit(file->data() + pos);
      if (unit.is_end()) {
        blank_behind = unit.phys == 0 && unit.bytes == 0;
        break;
      }
      // Trap: filler says nothing about the log; its length must not count (spec: store §13.2).
      if (!unit.is_filler()) {
        max_phys_ = std::max(max_phys_, unit.phys + unit.bytes);
        if (first_phys == 0 && first == 0 && i == 0 && pos == 0) {
          first_phys = unit.phys;
        }
      }
      pos += kUnitBytes;
    }
    end = file->base() + pos;
    if (pos < file->bytes()) {
      break;
    }
  }
  // The first file stays even when empty: its name carries the queue's position.
  if (!files_.remove_from(end == bases.front() ? end + 1 : end)) {
    return Error{Errc::kBusy, files_.folder() + " is in use"};
  }
  const auto max = static_cast<std::int64_t>(end / kUnitBytes);
  const auto min = static_cast<std::int64_t>(bases.front() / kUnitBytes);
  max_.store(max, std::memory_order_release);
  min_.store(min, std::memory_order_release);
  min_phys_.store(first_phys, std::memory_order_relaxed);
  next_ = max;
  blank_behind_ = blank_behind ? max : -1;
  flushed_ = crashed ? bases.front() : end;  // after a crash nobody knows what the disk has
  return ok();
}

Result<> ConsumeQueue::put_slow(std::int64_t offset, const Unit& unit, std::int64_t store_ms) {
  const std::int64_t end = max_.load(std::memory_order_relaxed);
  if (unit.phys + unit.bytes <= max_phys_ || offset < end) {
    return ok();  // built already
  }
  const bool fresh = files_.empty();
  if (offset > end) {
    const std::uint64_t gap_max = kGapFilesMax * files_.file_bytes() / kUnitBytes;
    if (!fresh && static_cast<std::uint64_t>(offset - end) > gap_max) {
      return Error{
          Errc::kCorrupt,
          fmt::format(
              "queue offset {} of {}/{} is {} beyond the end", offset, topic_, id_, offset - end)};
    }
    TENON_TRY(pad_to(offset));
  }
  if (room_ == 0 || tail_at_ == nullptr) {
    TENON_TRY(make_room(offset));
  }
  store_unit(tail_at_, unit);
  tail_at_ += kUnitBytes;
  --room_;
  max_phys_ = unit.phys + unit.bytes;
  last_store_ms_.store(store_ms, std::memory_order_relaxed);
  if (fresh) {
    min_.store(offset, std::memory_order_release);
    min_phys_.store(unit.phys, std::memory_order_relaxed);
  }
  max_.store(offset + 1, std::memory_order_release);
  return ok();
}

Result<> ConsumeQueue::repair(std::int64_t offset, const Unit& unit) {
  const std::uint64_t pos = static_cast<std::uint64_t>(offset) * kUnitBytes;
  if (offset >= max_.load(std::memory_order_relaxed) || pos < files_.first_base()) {
    return ok();
  }
  MappedFile* file = files_.find(pos);
  if (file == nullptr) {
    return Error{Errc::kIo, "map a file of " + files_.folder()};
  }
  const Unit found = load_unit(file->at(pos));
  const bool same_tags = found.tags_code == unit.tags_code || extends(found, unit.tags_code);
  if (found.phys == unit.phys && found.bytes == unit.bytes && same_tags) {
    return ok();
  }
  TENON_TRY(file->reserve(pos, pos + kUnitBytes));
  store_unit(file->at(pos), unit);
  min_phys_.store(0, std::memory_order_relaxed);  // perhaps of what stood there
  return ok();
}

bool ConsumeQueue::extends(const Unit& unit, std::int64_t tags_code) {
  if (ext_ == nullptr || !is_ext_address(unit.tags_code)) {
    return false;
  }
  FilePin pin;
  const auto more = ext_->read(unit.tags_code, pin);
  return more && more->tags_code == tags_code;
}

Result<> ConsumeQueue::pad_to(std::int64_t offset) {
  std::int64_t at = max_.load(std::memory_order_relaxed);
  if (files_.empty()) {
    // The first file of the queue starts at the file boundary before its first unit.
    const auto per_file = static_cast<std::int64_t>(files_.file_bytes() / kUnitBytes);
    at = offset - offset % per_file;
    forget_tail();
    min_.store(at, std::memory_order_release);
    max_.store(at, std::memory_order_release);
  }
  while (at < offset) {
    if (room_ == 0 || tail_at_ == nullptr) {
      TENON_TRY(make_room(at));
    }
    store_unit(tail_at_, kFillerUnit);
    tail_at_ += kUnitBytes;
    --room_;
    ++at;
    max_.store(at, std::memory_order_release);
  }
  return ok();
}

Result<> ConsumeQueue::make_room(std::int64_t offset) {
  const std::uint64_t pos = static_cast<std::uint64_t>(offset) * kUnitBytes;
  TENON_TRY(MappedFile * file, files_.ensure(files_.base_of(pos)));
  file->expect_appends();
  // A page at a time: a full disk is an error here and not a SIGBUS at the store.
  const std::uint64_t in_file = pos - file->base();
  std::uint64_t stop = std::min(page_up(in_file + kUnitBytes), file->bytes());
  TENON_TRY(file->reserve(pos, file->base() + stop));
  tail_at_ = file->at(pos);
  room_ = static_cast<std::uint32_t>((stop - in_file) / kUnitBytes);
  if (in_file + (file->bytes() / 8) > file->bytes() && files_.last_end() == file->end()) {
    nearly_full_.store(true, std::memory_order_relaxed);
    shared_.nearly_full.store(true, std::memory_order_relaxed);
  }
  return ok();
}

void ConsumeQueue::unmap_unheld() {
  forget_tail();
  files_.unmap_unheld();
  if (ext_ != nullptr) {
    ext_->files().unmap_unheld();
  }
}

bool ConsumeQueue::take_used() noexcept {
  const bool ext_used = ext_ != nullptr && ext_->files().take_used();
  return files_.take_used() || ext_used;
}

void ConsumeQueue::prepare_next_file() noexcept {
  nearly_full_.store(false, std::memory_order_relaxed);
  if (!files_.empty()) {
    const std::uint64_t end = files_.last_end();
    const std::uint64_t used = static_cast<std::uint64_t>(max_offset()) * kUnitBytes;
    if (used + files_.file_bytes() / 8 < end) {
      return;  // the queue needed the file before this thread came to it
    }
    if (const FilePin before =
            end < 2 * files_.file_bytes() ? FilePin{} : files_.pin(end - 2 * files_.file_bytes())) {
      before->expect_reads();
    }
    // A failure shows when the file is needed.
    static_cast<void>(files_.ensure(files_.last_end()).has_value());
  }
}

Result<> ConsumeQueue::truncate(std::uint64_t phys) {
  if (phys == 0) {
    return cut_units(0);
  }
  if (max_phys_ != 0 && max_phys_ <= phys) {
    return ok();  // 0: only filler was read
  }
  // The cut is at the first message that goes: filler before it says where the queue began.
  const auto file_min = static_cast<std::int64_t>(files_.first_base() / kUnitBytes);
  std::int64_t cut = max_.load(std::memory_order_relaxed);
  for (std::int64_t at = cut - 1; at >= file_min; --at) {
    const std::uint64_t pos = static_cast<std::uint64_t>(at) * kUnitBytes;
    const MappedFile* file = files_.find(pos);
    if (file == nullptr) {
      return Error{Errc::kIo, "map a file of " + files_.folder()};
    }
    const Unit unit = load_unit(file->at(pos));
    if (unit.is_filler()) {
      continue;
    }
    if (unit.phys < phys) {
      break;
    }
    cut = at;
  }
  return cut_units(cut);
}

Result<> ConsumeQueue::cut_units(std::int64_t end) {
  if (end >= max_.load(std::memory_order_relaxed)) {
    return ok();
  }
  forget_tail();
  const std::uint64_t cut = static_cast<std::uint64_t>(end) * kUnitBytes;
  // The file of the cut stays, even when empty: its name carries the queue's position.
  if (!files_.remove_from(end == 0 ? 0 : cut + 1)) {
    return Error{Errc::kBusy, files_.folder() + " is in use"};
  }
  max_phys_ = 0;
  for (std::uint64_t pos = cut; pos > files_.first_base() && max_phys_ == 0; pos -= kUnitBytes) {
    if (const MappedFile* file = files_.find(pos - kUnitBytes)) {
      const Unit last = load_unit(file->at(pos - kUnitBytes));
      max_phys_ = last.is_filler() ? 0 : last.phys + last.bytes;
    }
  }
  max_.store(end, std::memory_order_release);
  if (min_.load(std::memory_order_relaxed) >= end) {
    min_.store(end, std::memory_order_release);
    min_phys_.store(0, std::memory_order_relaxed);
  }
  next_ = end;
  TENON_TRY(settle_ext());
  const std::scoped_lock lock(flush_mutex_);
  flushed_ = std::min(flushed_, cut);
  ++cuts_;
  return erase_tail(true);
}

Result<> ConsumeQueue::settle_ext() {
  if (ext_ == nullptr) {
    return ok();
  }
  const auto begin = static_cast<std::int64_t>(files_.first_base() / kUnitBytes);
  const std::uint8_t* at = nullptr;
  for (std::int64_t offset = max_offset() - 1; offset >= begin; --offset) {
    const FilePin pin = pin_unit(offset, at);
    if (!pin) {
      break;
    }
    const Unit unit = load_unit(at);
    if (!unit.is_filler()) {
      // The newest message tells; one without an extension says nothing about it.
      return is_ext_address(unit.tags_code) ? ext_->settle(unit.tags_code) : ok();
    }
  }
  return max_offset() <= begin ? ext_->clear() : ok();
}

Result<> ConsumeQueue::erase_tail(bool always) {
  if (!always && max_.load(std::memory_order_relaxed) == blank_behind_) {
    return ok();
  }
  const std::uint64_t end =
      static_cast<std::uint64_t>(max_.load(std::memory_order_relaxed)) * kUnitBytes;
  const MappedFile* file = end == files_.last_end() ? nullptr : files_.find(end);
  if (file == nullptr) {
    return ok();
  }
  const Unit next = load_unit(file->at(end));
  if (!always && next.phys == 0 && next.bytes == 0) {
    return ok();
  }
  return file->erase_from(end);
}

void ConsumeQueue::correct_min(std::uint64_t log_min) {
  const std::int64_t max = max_offset();
  std::int64_t low =
      std::max(min_offset(), static_cast<std::int64_t>(files_.first_base() / kUnitBytes));
  if (low >= max) {
    min_.store(std::min(low, max), std::memory_order_release);
    return;
  }
  if (low == min_offset() && min_phys() != 0 && min_phys() >= log_min) {
    return;  // without looking into the file
  }
  // First unit in [low, max) of a record at or behind log_min. Filler counts as what follows it.
  const auto value_at = [&](std::int64_t& offset) {
    const std::uint8_t* at = nullptr;
    for (; offset < max; ++offset) {
      const FilePin pin = pin_unit(offset, at);
      if (!pin) {
        return std::uint64_t{0};
      }
      const Unit unit = load_unit(at);
      if (!unit.is_filler()) {
        return unit.phys;
      }
    }
    return ~std::uint64_t{0};
  };
  std::int64_t high = max;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    std::int64_t seen = middle;
    if (value_at(seen) < log_min) {
      low = seen + 1;
    } else {
      high = middle;
    }
  }
  std::int64_t found = low;
  const std::uint64_t phys = found < max ? value_at(found) : 0;
  if (found < max) {
    min_phys_.store(phys, std::memory_order_relaxed);
  }
  min_.store(found, std::memory_order_release);
  const std::uint8_t* at = nullptr;
  if (const FilePin pin = ext_ == nullptr || found >= max ? FilePin{} : pin_unit(found, at)) {
    if (const Unit first = load_unit(at); is_ext_address(first.tags_code)) {
      ext_->remove_expired(first.tags_code);
    }
  }
}

std::uint32_t ConsumeQueue::remove_expired(std::uint64_t log_min) {
  std::uint32_t removed = 0;
  files_.reap();
  while (files_.count() > 1) {
    const std::uint64_t last_unit = files_.first_base() + files_.file_bytes() - kUnitBytes;
    const std::uint8_t* at = nullptr;
    {
      const FilePin pin = pin_unit(static_cast<std::int64_t>(last_unit / kUnitBytes), at);
      if (!pin || load_unit(at).phys >= log_min ||
          static_cast<std::int64_t>(last_unit / kUnitBytes) >= max_offset()) {
        break;
      }
    }
    if (!files_.remove_first()) {
      break;
    }
    ++removed;
  }
  return removed;
}

FilePin ConsumeQueue::pin_unit(std::int64_t offset, const std::uint8_t*& at) {
  const std::uint64_t pos = static_cast<std::uint64_t>(offset) * kUnitBytes;
  FilePin pin = files_.pin(pos);
  if (pin) {
    at = pin->at(pos);
  }
  return pin;
}

std::size_t ConsumeQueue::read(std::int64_t offset, Unit* out, std::size_t n) {
  const std::uint8_t* at = nullptr;
  const std::int64_t max = max_offset();
  if (offset < 0 || offset >= max) {
    return 0;
  }
  const FilePin pin = pin_unit(offset, at);
  if (!pin) {
    return 0;
  }
  const auto in_file = static_cast<std::int64_t>(
      (pin->end() - static_cast<std::uint64_t>(offset) * kUnitBytes) / kUnitBytes);
  const auto count =
      static_cast<std::size_t>(std::min({static_cast<std::int64_t>(n), in_file, max - offset}));
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = load_unit(at + i * kUnitBytes);
  }
  return count;
}

Result<bool> ConsumeQueue::flush(std::uint32_t least_pages) {
  const std::uint64_t end = static_cast<std::uint64_t>(max_offset()) * kUnitBytes;
  const std::scoped_lock lock(flush_mutex_);
  if (end <= flushed_ || end / kPageBytes - flushed_ / kPageBytes < least_pages) {
    return false;
  }
  if (ext_ != nullptr) {
    TENON_TRY(ext_->flush());
  }
  std::uint64_t from = std::max(flushed_, files_.first_base());
  while (from < end) {
    const FilePin pin = files_.pin(from);
    if (!pin) {
      break;
    }
    const std::uint64_t stop = std::min(end, pin->end());
    TENON_TRY(pin->sync(from, stop));
    from = stop;
  }
  flushed_ = end;
  return true;
}

Unflushed ConsumeQueue::unflushed(std::uint32_t least_pages) {
  const std::uint64_t end = static_cast<std::uint64_t>(max_offset()) * kUnitBytes;
  const std::scoped_lock lock(flush_mutex_);
  const bool enough = end > flushed_ && end / kPageBytes - flushed_ / kPageBytes >= least_pages;
  return {enough ? end : 0, cuts_};
}

void ConsumeQueue::mark_flushed(const Unflushed& written) {
  const std::scoped_lock lock(flush_mutex_);
  if (cuts_ == written.cuts) {
    flushed_ = std::max(flushed_, written.end);
  }
}

}  // namespace tenon::store_file
