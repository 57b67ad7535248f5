#include "consume_queue_ext.h"

#include "tenon/base/endian.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace tenon::store_file {
namespace {

constexpr std::uint16_t kEndMark = 0xffff;  // -1

}  // namespace

std::uint64_t ConsumeQueueExt::find_end(MappedFile& file) const {
  std::uint64_t at = 0;
  while (const auto unit = parse_ext_unit({file.data() + at, file.bytes() - at})) {
    at += unit->bytes();
  }
  return file.base() + at;
}

Result<> ConsumeQueueExt::recover() {
  reserved_ = 0;
  std::uint64_t end = files_.first_base();
  const std::vector<std::uint64_t> bases = files_.bases();
  for (auto base = bases.rbegin(); base != bases.rend(); ++base) {
    MappedFile* file = files_.find(*base);
    if (file == nullptr) {
      return Error{Errc::kIo, fmt::format("map {}/{}", files_.folder(), file_name_of(*base))};
    }
    end = find_end(*file);
    if (end > *base) {
      break;  // an empty last file says nothing: the one before it does
    }
  }
  end_.store(end, std::memory_order_release);
  forget_flushed(end);
  return ok();
}

Result<std::int64_t> ConsumeQueueExt::put(const ExtUnit& unit) {
  const std::uint64_t bytes = unit.bytes();
  std::uint64_t at = end_.load(std::memory_order_relaxed);
  if (bytes > kExtUnitMax || bytes + kExtBlankBytes > files_.file_bytes()) {
    return Error{Errc::kLimit, fmt::format("an extension unit of {} bytes", bytes)};
  }
  std::uint64_t base = files_.base_of(at);
  if (at - base + bytes + kExtBlankBytes > files_.file_bytes()) {
    // Trap: the mark is what lets a reader go on in the next file (spec: store §5.4).
    if (MappedFile* full = files_.find(at); full != nullptr && full->end() - at >= 2) {
      store_be(full->at(at), kEndMark);
    }
    base += files_.file_bytes();
    at = base;
  }
  MappedFile* file = files_.find(at);
  if (file == nullptr) {
    TENON_TRY(file, files_.ensure(base));
    file->expect_appends();
  }
  if (at + bytes > reserved_ || reserved_ <= base) {
    const std::uint64_t stop = std::min(page_up(at - base + bytes), files_.file_bytes());
    TENON_TRY(file->reserve(at, base + stop));
    reserved_ = base + stop;
  }
  std::uint8_t* p = file->at(at);
  store_be(p + 2, unit.tags_code);
  store_be(p + 10, unit.store_ms);
  store_be(p + 18, static_cast<std::uint16_t>(unit.bitmap.size()));
  if (!unit.bitmap.empty()) {
    std::memcpy(p + kExtHeadBytes, unit.bitmap.data(), unit.bitmap.size());
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  store_be(p, static_cast<std::uint16_t>(bytes));  // last: a killed process leaves no half unit
  end_.store(at + bytes, std::memory_order_release);
  return store_format::ext_address_of(at);
}

bool ConsumeQueueExt::is_in(const MappedFile& file, std::int64_t address) noexcept {
  const std::uint64_t at = store_format::ext_position_of(address);
  return at >= file.base() && at < file.end();
}

std::optional<ExtUnit> ConsumeQueueExt::read(std::int64_t address, FilePin& pin) {
  const std::uint64_t at = store_format::ext_position_of(address);
  if (at >= end_.load(std::memory_order_acquire)) {
    return std::nullopt;
  }
  if (!pin || !is_in(*pin.get(), address)) {
    pin = files_.pin(at);
  }
  if (!pin) {
    return std::nullopt;
  }
  return parse_ext_unit({pin->at(at), static_cast<std::size_t>(pin->end() - at)});
}

Result<> ConsumeQueueExt::settle(std::int64_t last) {
  const std::uint64_t at = store_format::ext_position_of(last);
  std::uint64_t end = end_.load(std::memory_order_relaxed);
  if (at >= end) {
    // Lost with its pages. A later unit there would answer for the wrong message.
    const std::uint64_t next = files_.base_of(at) + files_.file_bytes();
    while (files_.last_end() < next && !files_.empty()) {
      TENON_TRY(MappedFile * made, files_.ensure(files_.last_end()));
      static_cast<void>(made);
    }
    end = next;
  } else {
    FilePin pin;
    const auto unit = read(last, pin);
    if (!unit) {
      return ok();
    }
    end = at + unit->bytes();
  }
  if (!files_.remove_from(std::max(end, files_.first_base() + 1))) {
    return Error{Errc::kBusy, files_.folder() + " is in use"};
  }
  if (MappedFile* file = files_.find(end); file != nullptr && end < file->end()) {
    TENON_TRY(file->erase_from(end));
  }
  reserved_ = 0;
  end_.store(end, std::memory_order_release);
  forget_flushed(end);
  return ok();
}

Result<> ConsumeQueueExt::clear() {
  if (!files_.remove_from(0)) {
    return Error{Errc::kBusy, files_.folder() + " is in use"};
  }
  reserved_ = 0;
  end_.store(0, std::memory_order_release);
  forget_flushed(0);
  return ok();
}

void ConsumeQueueExt::remove_expired(std::int64_t first) {
  const std::uint64_t at = store_format::ext_position_of(first);
  while (files_.count() > 1 && files_.first_base() + files_.file_bytes() <= at) {
    if (!files_.remove_first()) {
      break;
    }
  }
  files_.reap();
}

void ConsumeQueueExt::forget_flushed(std::uint64_t end) {
  const std::scoped_lock lock(flush_mutex_);
  flushed_ = std::min(flushed_, end);
  ++cuts_;
}

Unflushed ConsumeQueueExt::unflushed() {
  const std::uint64_t end = end_.load(std::memory_order_acquire);
  const std::scoped_lock lock(flush_mutex_);
  return {end > flushed_ ? end : 0, cuts_};
}

void ConsumeQueueExt::mark_flushed(const Unflushed& written) {
  const std::scoped_lock lock(flush_mutex_);
  if (cuts_ == written.cuts) {
    flushed_ = std::max(flushed_, written.end);
  }
}

Result<> ConsumeQueueExt::flush() {
  const std::uint64_t end = end_.load(std::memory_order_acquire);
  const std::scoped_lock lock(flush_mutex_);
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
  flushed_ = std::max(flushed_, from);
  return ok();
}

}  // namespace tenon::store_file
