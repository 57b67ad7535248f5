// One consume queue: units of 20 bytes that point into the commit log (spec: store §5).
#pragma once

#include "consume_queue_ext.h"
#include "mapped_file.h"

#include "tenon/base/result.h"
#include "tenon/store_format/unit.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace tenon::store_file {

using store_format::kUnitBytes;
using store_format::load_unit;
using store_format::store_unit;
using store_format::Unit;

/// What all queues of a store share.
struct QueueShared {
  MappingCount mappings{};
  std::atomic<bool> nearly_full{false};  ///< some queue is: look at nearly_full() of each
};

/// Threads: put() and everything marked "dispatch role" belongs to whoever dispatches; next() and
/// advance() to the append sequence; reads are for any thread.
class ConsumeQueue {
 public:
  ConsumeQueue(std::string topic,
               std::uint32_t id,
               std::string folder,
               std::uint64_t file_bytes,
               QueueShared& shared);

  const std::string& topic() const noexcept { return topic_; }
  std::uint32_t id() const noexcept { return id_; }
  FileSet& files() noexcept { return files_; }
  /// The extension; null without one.
  ConsumeQueueExt* ext() const noexcept { return ext_.get(); }
  /// Gives the queue an extension in that folder. Dispatch role, before use.
  void extend(std::string folder, std::uint64_t file_bytes) {
    ext_ = std::make_unique<ConsumeQueueExt>(std::move(folder), file_bytes, shared_.mappings);
  }
  /// Cuts the extension behind what the queue refers to. Dispatch role.
  Result<> settle_ext();

  std::int64_t min_offset() const noexcept { return min_.load(std::memory_order_acquire); }
  std::int64_t max_offset() const noexcept { return max_.load(std::memory_order_acquire); }
  std::uint64_t min_phys() const noexcept { return min_phys_.load(std::memory_order_relaxed); }
  std::int64_t last_store_ms() const noexcept {
    return last_store_ms_.load(std::memory_order_relaxed);
  }
  void set_last_store_ms(std::int64_t ms) noexcept {
    last_store_ms_.store(ms, std::memory_order_relaxed);
  }

  /// Next queue offset of the append sequence.
  std::int64_t next() const noexcept { return next_; }
  void advance(std::int64_t by) noexcept { next_ += by; }
  void rebuild_counter() noexcept { next_ = max_offset(); }
  /// For a record that is in the log and not here yet.
  void raise_next(std::int64_t offset) noexcept { next_ = std::max(next_, offset); }

  /// Loads what the files say: end, last physical offset. Dispatch role, before use.
  Result<> recover(bool crashed);
  /// Adds the unit of a record, unless the queue has it already. A gap is padded with filler, so
  /// that offsets never shift (spec: store §5.2 trap). Dispatch role. Does not allocate, except
  /// when a file is full.
  Result<> put(std::int64_t offset, const Unit& unit, std::int64_t store_ms) {
    if (offset == max_.load(std::memory_order_relaxed) && room_ > 0) [[likely]] {
      if (unit.phys + unit.bytes <= max_phys_) {
        return ok();
      }
      store_unit(tail_at_, unit);
      tail_at_ += kUnitBytes;
      --room_;
      max_phys_ = unit.phys + unit.bytes;
      last_store_ms_.store(store_ms, std::memory_order_relaxed);
      max_.store(offset + 1, std::memory_order_release);
      return ok();
    }
    return put_slow(offset, unit, store_ms);
  }
  /// Makes the unit at an offset that the queue has say what its record says: after a power cut a
  /// page may be an older one, or zero. Dispatch role, while nobody else knows the queue.
  Result<> repair(std::int64_t offset, const Unit& unit);
  /// End of the last record that the queue knows. Dispatch role.
  std::uint64_t max_phys() const noexcept { return max_phys_; }
  /// Removes the units of records at or behind phys, zeroing them. kBusy while a reader holds a
  /// file that would go. Dispatch role.
  Result<> truncate(std::uint64_t phys);
  /// Removes the units from offset `end` on, likewise.
  Result<> cut_units(std::int64_t end);
  /// Zeroes whatever lies behind the end (spec: store §13.3: stale units must not reappear); if not
  /// `always`, only when there is something right behind it.
  Result<> erase_tail(bool always);
  /// Moves the minimum to the first unit of a record at or behind log_min, never backwards. Any one
  /// thread at a time.
  void correct_min(std::uint64_t log_min);
  /// Removes files whose last unit is below log_min, never the last one.
  std::uint32_t remove_expired(std::uint64_t log_min);
  /// Ends the mappings of files that nobody reads; the next use maps them again. Dispatch role.
  void unmap_unheld();
  /// Whether files were looked for since the last call.
  bool take_used() noexcept;
  /// True if the next file should be made soon.
  bool nearly_full() const noexcept { return nearly_full_.load(std::memory_order_relaxed); }
  /// Makes the file after the current one. Thread: helper.
  void prepare_next_file() noexcept;

  /// Reads up to n units from offset on, to the end of the file of that unit. Returns how many.
  std::size_t read(std::int64_t offset, Unit* out, std::size_t n);
  /// Units of one file in [offset, …) without copying: for searches. Empty pin if not there.
  FilePin pin_unit(std::int64_t offset, const std::uint8_t*& at);

  /// Writes dirty pages, the extension's first; least_pages as in spec: store §9.4. @return whether there were any. Thread:
  /// flusher.
  Result<bool> flush(std::uint32_t least_pages);
  /// For a sync of many queues at once: what flush(least_pages) would write, to be marked as written
  /// afterwards. Thread: flusher.
  Unflushed unflushed(std::uint32_t least_pages);
  void mark_flushed(const Unflushed& written);

  bool is_dropped() const noexcept { return dropped_.load(std::memory_order_acquire); }
  void drop() noexcept { dropped_.store(true, std::memory_order_release); }

 private:
  Result<> put_slow(std::int64_t offset, const Unit& unit, std::int64_t store_ms);
  bool starts_blank(std::uint64_t base);
  Result<> pad_to(std::int64_t offset);
  /// Whether the unit has an extension that says this tags code.
  bool extends(const Unit& unit, std::int64_t tags_code);
  /// Sets tail_at_ and room_ for the unit at `offset`, creating its file and reserving its page.
  Result<> make_room(std::int64_t offset);
  void forget_tail() noexcept {
    tail_at_ = nullptr;
    room_ = 0;
  }

  const std::string topic_;
  const std::uint32_t id_;
  QueueShared& shared_;
  FileSet files_;
  std::unique_ptr<ConsumeQueueExt> ext_{};

  std::atomic<std::int64_t> min_{0};
  std::atomic<std::int64_t> max_{0};
  std::atomic<std::uint64_t> min_phys_{0};
  std::atomic<std::int64_t> last_store_ms_{0};
  std::atomic<bool> dropped_{false};
  std::atomic<bool> nearly_full_{false};

  std::int64_t next_ = 0;
  std::uint64_t max_phys_ = 0;
  std::int64_t blank_behind_ = -1;   ///< recovery saw that no unit follows the one before this
  std::uint8_t* tail_at_ = nullptr;  ///< where the next unit goes
  std::uint32_t room_ = 0;           ///< units that fit into the reserved page

  std::mutex flush_mutex_{};
  std::uint64_t flushed_ = 0;  ///< byte position up to which the disk has it; by flush_mutex_
  std::uint32_t cuts_ = 0;     ///< how often units were cut off; by flush_mutex_
};

}  // namespace tenon::store_file
