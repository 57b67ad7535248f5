// The extension of a consume queue: for each message its tags code, its store time and a filter bit
// map; the queue unit holds the position here in place of a tags code (spec: store §5.4).
//
//   0   2  size of the unit, 20 + bytes of the bit map; -1: nothing more in this file
//   2   8  tags code
//  10   8  store time
//  18   2  bytes of the bit map
//  20   n  bit map
#pragma once

#include "mapped_file.h"

#include "tenon/base/result.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>

namespace tenon::store_file {

inline constexpr std::uint64_t kExtHeadBytes = 20;
inline constexpr std::uint64_t kExtUnitMax = 32'767;
/// What stays free at the end of a file for the mark that ends it.
inline constexpr std::uint64_t kExtBlankBytes = 4;

struct ExtUnit {
  std::int64_t tags_code = 0;
  std::int64_t store_ms = 0;
  std::span<const std::uint8_t> bitmap{};
  std::uint64_t bytes() const noexcept { return kExtHeadBytes + bitmap.size(); }
};
/// The unit at the start of `in`; nothing if there is no whole one.
std::optional<ExtUnit> parse_ext_unit(std::span<const std::uint8_t> in) noexcept;

/// Whether the tags code of a queue unit is a position in the extension: no sign-extended hash is
/// that small.
constexpr bool is_ext_address(std::int64_t tags_code) noexcept {
  return tags_code < std::numeric_limits<std::int32_t>::min();
}

/// Threads: put(), truncate() and recover() belong to the dispatch role; reads are for any thread.
class ConsumeQueueExt {
 public:
  ConsumeQueueExt(std::string folder, std::uint64_t file_bytes)
      : files_(std::move(folder), file_bytes) {}
  FileSet& files() noexcept { return files_; }

  /// Finds the end: behind the last whole unit.
  Result<> recover();
  /// Adds a unit. @return its address; kFull, kIo: the caller keeps the plain tags code
  Result<std::int64_t> put(const ExtUnit& unit);
  /// The unit at an address; `pin` holds its file (and is kept if it does already). Nothing if it
  /// is not there.
  std::optional<ExtUnit> read(std::int64_t address, FilePin& pin);
  static bool is_in(const MappedFile& file, std::int64_t address) noexcept;
  /// Cuts behind the unit at `last`, the largest address that the queue has. An address beyond the
  /// end was lost in a crash: its place is not used again.
  Result<> settle(std::int64_t last);
  Result<> clear();  ///< the queue refers to nothing any more
  /// Removes files that lie wholly before the first address of the queue.
  void remove_expired(std::int64_t first);
  /// Writes dirty pages. Thread: flusher.
  Result<> flush();

 private:
  std::uint64_t find_end(MappedFile& file) const;

  FileSet files_;
  std::atomic<std::uint64_t> end_{0};
  std::uint64_t reserved_ = 0;  ///< pages up to here take a write without a fault; dispatch role
  std::mutex flush_mutex_{};
  std::uint64_t flushed_ = 0;
};

}  // namespace tenon::store_file
