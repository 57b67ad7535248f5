#include "commit_log.h"

#include "tenon/base/endian.h"
#include "tenon/proto/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace tenon::store_file {

namespace {
/// The appender reserves in steps of this size when the helper was too slow.
constexpr std::uint64_t kInlineStep = 256u * 1024;
/// How long a file is tried on other disks while who reserves ahead is in the way.
constexpr int kMoveRounds = 1'000;
constexpr std::chrono::microseconds kMovePause{100};
}  // namespace

void CommitLog::configure(const store_format::LogFolders& folders, std::uint64_t file_bytes) {
  spread_ =
      folders.several() ? std::make_unique<store_format::FolderSpread>(folders.growing) : nullptr;
  files_.configure(folders.growing.front(), file_bytes);
  files_.spread_over(spread_.get());
}

void CommitLog::sync_folders() const noexcept {
  if (spread_ == nullptr) {
    sync_directory(files_.folder());
    return;
  }
  for (const std::string& folder : spread_->folders()) {
    sync_directory(folder);
  }
}

void CommitLog::set_positions(std::uint64_t min, std::uint64_t end, std::uint64_t durable) {
  min_.store(min, std::memory_order_release);
  durable_.store(durable, std::memory_order_release);
  set_end(end);
}

void CommitLog::set_end(std::uint64_t end) {
  file_ = files_.find(end);
  if (file_ != nullptr) {
    file_->expect_appends();
  }
  reserved_.store(end, std::memory_order_release);
  end_.store(end, std::memory_order_release);
  frame_end_.store(end, std::memory_order_release);
}

void CommitLog::raise_reserved(std::uint64_t pos) noexcept {
  std::uint64_t seen = reserved_.load(std::memory_order_relaxed);
  while (seen < pos && !reserved_.compare_exchange_weak(seen, pos, std::memory_order_release)) {
  }
}

/// Pages of file_ up to `upto`, which lies inside it.
Result<> CommitLog::reserve_here(std::uint64_t upto) {
  const std::uint64_t from =
      std::max(reserved_.load(std::memory_order_relaxed), end_.load(std::memory_order_relaxed));
  if (upto <= from) {
    return ok();
  }
  // Trap: a store to a page without a block on a full disk is a SIGBUS (spec: store §2.1).
  const std::uint64_t stop = std::min(std::max(upto, from + kInlineStep), file_->end());
  if (file_->reserve(from, stop)) {
    raise_reserved(stop);
    return ok();
  }
  TENON_TRY(file_->reserve(from, upto));
  raise_reserved(std::min(page_up(upto - file_->base()) + file_->base(), file_->end()));
  return ok();
}

Result<std::uint8_t*> CommitLog::room_slow(std::size_t bytes) {
  if (bytes + 8 > file_bytes()) {
    return Error{
        Errc::kInvalid,
        fmt::format(
            "a record of {} bytes does not fit into a log file of {} bytes", bytes, file_bytes())};
  }
  const std::uint64_t pos = end_.load(std::memory_order_relaxed);
  if (file_ == nullptr || pos == file_->end()) {
    TENON_TRY(file_, begin_file(files_.base_of(pos), bytes));
  } else if (pos + bytes + 8 > file_->end()) {
    TENON_TRY(roll(bytes));
  }
  const std::uint64_t at = end_.load(std::memory_order_relaxed);
  if (const auto reserved = reserve_here(at + bytes); !reserved) {
    // This disk is full; another one may not be. What was reserved has room for the filler mostly.
    if (reserved.error().code != Errc::kFull || spread_ == nullptr ||
        !spread_->mark_full(file_->path())) {
      return reserved.error();
    }
    TENON_TRY(roll(bytes));
    TENON_TRY(reserve_here(file_->base() + bytes));
    return file_->at(file_->base());
  }
  return file_->at(at);
}

/// The file that starts there, with space for its first bytes. On a full disk that is not the only one
/// it is made once more on another one.
Result<MappedFile*> CommitLog::begin_file(std::uint64_t base, std::size_t bytes) {
  TENON_TRY(MappedFile * file, files_.ensure(base));
  if (reserved() >= base + bytes) {
    return file;
  }
  Result<> got = file->reserve(base, base + bytes);
  for (int round = 0; got.has_error() && round < kMoveRounds; ++round) {
    if (got.error().code != Errc::kFull || spread_ == nullptr ||
        !spread_->mark_full(file->path())) {
      break;
    }
    // Trap: who reserves ahead may hold the file, or just make it again on the full disk.
    if (!files_.remove_from(base)) {
      std::this_thread::sleep_for(kMovePause);
      continue;
    }
    reserved_.store(std::min(reserved(), base), std::memory_order_release);
    TENON_TRY(file, files_.ensure(base));
    got = file->reserve(base, base + bytes);
  }
  TENON_TRY(std::move(got));
  return file;
}

/// Closes the current file with a filler: its length counts what is left including itself. All
/// space that is needed, also for the `bytes` behind it, is there before anything moves.
Result<> CommitLog::roll(std::size_t bytes) {
  const std::uint64_t pos = end_.load(std::memory_order_relaxed);
  TENON_TRY(MappedFile * next, begin_file(file_->end(), bytes));
  TENON_TRY(reserve_here(pos + 8));
  std::uint8_t* at = file_->at(pos);
  store_be(at + 4, proto::kBlankMagic);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  store_be(at, static_cast<std::uint32_t>(file_->end() - pos));
  end_.store(next->base(), std::memory_order_release);
  frame_end_.store(next->base(), std::memory_order_release);
  file_ = next;
  return ok();
}

Result<> CommitLog::reserve_raw(std::size_t bytes) {
  std::uint64_t pos = end_.load(std::memory_order_relaxed);
  const std::uint64_t stop = pos + bytes;
  while (pos < stop) {
    TENON_TRY(MappedFile * file, files_.ensure(files_.base_of(pos)));
    const std::uint64_t here = std::min(stop, file->end());
    TENON_TRY(file->reserve(pos, here));
    pos = here;
  }
  raise_reserved(stop);
  return ok();
}

Result<> CommitLog::append_raw(const std::uint8_t* from, std::size_t bytes) {
  while (bytes > 0) {
    const std::uint64_t pos = end_.load(std::memory_order_relaxed);
    if (file_ == nullptr || pos == file_->end()) {
      TENON_TRY(file_, files_.ensure(files_.base_of(pos)));
    }
    const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, file_->end() - pos));
    std::memcpy(file_->at(pos), from, here);
    end_.store(pos + here, std::memory_order_release);
    from += here;
    bytes -= here;
  }
  return ok();
}

Result<bool> CommitLog::reserve_ahead(std::uint64_t upto, std::uint64_t step) {
  const std::uint64_t pos = std::max(reserved(), end());
  if (pos >= upto) {
    return false;
  }
  FilePin pin = files_.pin(pos);
  if (!pin) {
    if (auto made = files_.ensure(files_.base_of(pos)); !made) {
      return made.error();
    }
    pin = files_.pin(pos);
  }
  if (!pin) {
    return Error{Errc::kIo, "map the next file of " + files_.folder()};
  }
  const std::uint64_t stop = std::min({upto, pos + step, pin->end()});
  TENON_TRY(pin->reserve(pos, stop));
  raise_reserved(stop);
  return true;
}

Result<> CommitLog::sync_to(std::uint64_t target) {
  std::uint64_t from = durable();
  while (from < target) {
    const FilePin pin = files_.pin(from);
    if (!pin) {
      from = files_.next_base(from);
      if (from == 0) {
        break;
      }
      continue;
    }
    const std::uint64_t stop = std::min(target, pin->end());
    TENON_TRY(pin->sync(from, stop));
    if (pin->base() != synced_base_) {
      sync_directory(store_format::folder_of_file(pin->path()));  // a new name, once
      synced_base_ = pin->base();
    }
    from = stop;
  }
  return ok();
}

FilePin CommitLog::pin_range(std::uint64_t phys, std::uint64_t bytes, const std::uint8_t*& at) {
  if (phys < min() || phys + bytes > end() || phys + bytes < phys) {
    return FilePin{};
  }
  FilePin pin = files_.pin(phys);
  if (!pin || phys + bytes > pin->end()) {
    return FilePin{};
  }
  at = pin->at(phys);
  return pin;
}

}  // namespace tenon::store_file
