// The commit log: one sequence of bytes in mapped files, and its positions (spec: store §2 to §4).
#pragma once

#include "mapped_file.h"

#include "tenon/base/result.h"
#include "tenon/store_format/log_folders.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace tenon::store_file {

/// Positions are bytes from the beginning of time. min <= frame_end <= end; durable <= end.
/// Threads: "append" functions belong to the append sequence, reads are for any thread.
class CommitLog {
 public:
  void configure(const store_format::LogFolders& folders, std::uint64_t file_bytes);
  /// Where new files go; null if there is one folder.
  store_format::FolderSpread* spread() noexcept { return spread_.get(); }
  /// The names of files in all folders reach the disk.
  void sync_folders() const noexcept;
  FileSet& files() noexcept { return files_; }
  std::uint64_t file_bytes() const noexcept { return files_.file_bytes(); }

  std::uint64_t min() const noexcept { return min_.load(std::memory_order_acquire); }
  std::uint64_t end() const noexcept { return end_.load(std::memory_order_acquire); }
  std::uint64_t frame_end() const noexcept { return frame_end_.load(std::memory_order_acquire); }
  std::uint64_t durable() const noexcept { return durable_.load(std::memory_order_acquire); }
  std::uint64_t reserved() const noexcept { return reserved_.load(std::memory_order_acquire); }

  /// Sets all positions after recovery, truncate or reset. No other call runs.
  void set_positions(std::uint64_t min, std::uint64_t end, std::uint64_t durable);
  void set_min(std::uint64_t min) noexcept { min_.store(min, std::memory_order_release); }
  /// Positions after truncate. [append]
  void set_end(std::uint64_t end);

  /// Zeroed, writable room for a frame of `bytes` at end(), with space for the filler behind it;
  /// closes the file with a filler and goes to the next one if it does not fit. [append]
  /// @return kFull if the disk has no space; nothing was moved then
  Result<std::uint8_t*> room(std::size_t bytes) {
    const std::uint64_t pos = end_.load(std::memory_order_relaxed);
    if (file_ != nullptr && pos + bytes + 8 <= file_->end() &&
        pos + bytes <= reserved_.load(std::memory_order_acquire)) [[likely]] {
      return file_->at(pos);
    }
    return room_slow(bytes);
  }
  /// The frame in room() is complete: readers may see it. [append]
  void commit(std::size_t bytes) noexcept {
    const std::uint64_t pos = end_.load(std::memory_order_relaxed) + bytes;
    end_.store(pos, std::memory_order_release);
    frame_end_.store(pos, std::memory_order_release);
  }
  /// Copies bytes to end() as they are, over file boundaries. Only end() moves. [append]
  Result<> append_raw(const std::uint8_t* from, std::size_t bytes);
  /// Reserves room for `bytes` raw bytes, so that append_raw cannot fail half-way. [append]
  Result<> reserve_raw(std::size_t bytes);
  void set_frame_end(std::uint64_t pos) noexcept {
    frame_end_.store(pos, std::memory_order_release);
  }

  /// Makes [reserved, upto) writable in advance, at most `step` bytes per call, creating the next
  /// file when it comes near. True if something was done. Thread: helper.
  Result<bool> reserve_ahead(std::uint64_t upto, std::uint64_t step);

  /// Brings everything up to `target` to the disk. Thread: one flusher at a time.
  Result<> sync_to(std::uint64_t target);
  void set_durable(std::uint64_t pos) noexcept { durable_.store(pos, std::memory_order_release); }

  /// The bytes [phys, phys + bytes) if they are inside the log and inside one file.
  FilePin pin_range(std::uint64_t phys, std::uint64_t bytes, const std::uint8_t*& at);

 private:
  Result<std::uint8_t*> room_slow(std::size_t bytes);
  Result<MappedFile*> begin_file(std::uint64_t base, std::size_t bytes);
  Result<> roll(std::size_t bytes);
  Result<> reserve_here(std::uint64_t upto);
  void raise_reserved(std::uint64_t pos) noexcept;

  FileSet files_;
  std::unique_ptr<store_format::FolderSpread> spread_{};
  MappedFile* file_ = nullptr;  ///< file of end(); append sequence
  std::uint64_t synced_base_ = ~std::uint64_t{0};

  // Written by the appender on every frame: its own cache line.
  alignas(64) std::atomic<std::uint64_t> end_{0};
  std::atomic<std::uint64_t> frame_end_{0};
  alignas(64) std::atomic<std::uint64_t> durable_{0};
  std::atomic<std::uint64_t> min_{0};
  alignas(64) std::atomic<std::uint64_t> reserved_{0};
};

}  // namespace tenon::store_file
