// The extension of a consume queue: for each message its tags code, its store time and a filter bit
// map; the queue unit holds the position here in place of a tags code (spec: store §5.4).
#pragma once

#include "mapped_file.h"

#include "tenon/base/result.h"
#include "tenon/store_format/unit.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace tenon::store_file {

using store_format::ExtUnit;
using store_format::is_ext_address;
using store_format::kExtBlankBytes;
using store_format::kExtHeadBytes;
using store_format::kExtUnitMax;
using store_format::parse_ext_unit;

/// Threads: put(), truncate() and recover() belong to the dispatch role; reads are for any thread.
class ConsumeQueueExt {
 public:
  ConsumeQueueExt(std::string folder, std::uint64_t file_bytes, MappingCount& mappings)
      : files_(std::move(folder), file_bytes, &mappings) {}
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
  /// For a sync of many files at once, as for the queues.
  Unflushed unflushed();
  void mark_flushed(const Unflushed& written);

 private:
  std::uint64_t find_end(MappedFile& file) const;

  FileSet files_;
  std::atomic<std::uint64_t> end_{0};
  std::uint64_t reserved_ = 0;  ///< pages up to here take a write without a fault; dispatch role
  void forget_flushed(std::uint64_t end);

  std::mutex flush_mutex_{};
  std::uint64_t flushed_ = 0;  ///< by flush_mutex_, as the next
  std::uint32_t cuts_ = 0;     ///< how often the end went back
};

}  // namespace tenon::store_file
