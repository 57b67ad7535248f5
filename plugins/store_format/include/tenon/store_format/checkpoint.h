// The file `checkpoint`: three times in Java's part, and in its unused end where Tenon's key index
// had got to (spec: store §7).
//
//    0  8  store time up to which the log is on the disk
//    8  8  the same for the queues
//   16  8  end time of the last complete index file
// 4056  8  entries of all queues at a clean stop, those that have expired included
// 4064  8  record of the last entry of the newest full index file
// 4072  8  record of the newest entry of the index
// 4080  8  mark that this and the next are there
// 4088  8  position up to which the log is indexed
#pragma once

#include <cstdint>
#include <span>

namespace tenon::store_format {

inline constexpr std::size_t kCheckpointBytes = 4096;

struct Checkpoint {
  std::int64_t physic_ms = 0;
  std::int64_t logics_ms = 0;
  std::int64_t index_ms = 0;
  std::uint64_t indexed = 0;      ///< 0 = not known
  std::uint64_t index_done = 0;   ///< full index files up to this record are whole; 0 = not known
  std::uint64_t index_last = 0;   ///< record of the newest entry of the index then; 0 = none
  std::uint64_t queue_units = 0;  ///< sum of the ends of all queues at a clean stop; 0 = not known

  /// Store time up to which log and queues are on the disk for sure.
  std::int64_t min_ms() const noexcept;
};

/// A short file is all zero; what is missing behind the three times counts as zero.
Checkpoint parse_checkpoint(std::span<const std::uint8_t> in) noexcept;
/// Writes the fields; other bytes, which newer versions may have written, stay.
void write_checkpoint(const Checkpoint& c, std::span<std::uint8_t, kCheckpointBytes> out) noexcept;

}  // namespace tenon::store_format
