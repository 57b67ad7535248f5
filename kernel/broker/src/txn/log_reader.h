// Reading queues and records of the log for services.
#pragma once

#include "append/log.h"

#include "tenon/proto/message.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tenon::broker {

/// Entries of a queue, the first at queue offset `first`.
struct QueueSlice {
  static constexpr std::size_t kMax = 64;
  std::int64_t first = 0;
  std::size_t n = 0;
  std::array<tenon_index_entry, kMax> entries{};
};
/// Reads from `from` on, over gaps. @return false at the end of the queue or when it is unreadable
bool read_entries(const Log& log, tenon_queue queue, std::int64_t from, QueueSlice& out);

/// Records in the log, valid as long as this object. Thread: may read the disk.
class Records {
 public:
  explicit Records(const Log& log)
      : log_(log) {}
  ~Records() { release(); }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  /// At most QueueSlice::kMax. Replaces what was read before. @return false: nothing could be read
  bool fetch(std::span<const tenon_extent> extents);
  /// The record at a position that may be anything. @return false if there is none
  bool fetch_at(std::int64_t phys);
  /// A piece of the log from `phys` on, of one file. @return empty at the end
  std::span<const std::byte> fetch_raw(std::uint64_t phys, std::uint32_t max_bytes);
  /// Nothing for a record that was removed or is damaged.
  std::optional<proto::MessageView> record(std::size_t i) const;

 private:
  void release();

  const Log& log_;
  std::array<tenon_view, QueueSlice::kMax> views_{};
  std::size_t n_ = 0;
  tenon_hold hold_{};
};

}  // namespace tenon::broker
