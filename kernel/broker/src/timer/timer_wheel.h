// The pending timer messages of a broker by their time: where each lies in the timer queue, nothing
// else. Twelve bytes for each entry, 528 KiB for the tables, whatever the times are.
//
//   coarse table  65 536 lists, one for each 65.536 s of a round of 49.7 days
//   fine table    65 536 lists, one for each millisecond of the stretch that the cursor is in
//
// An entry belongs to the coarse list of its stretch and keeps only the low 16 bits of its time; when
// the cursor enters the stretch the list is dealt out to the fine table by relinking.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tenon::broker {

/// Thread: one at a time.
class TimerWheel {
 public:
  /// Entries may lie at most this far after the cursor.
  static constexpr std::int64_t kSpanMs = (std::int64_t{1} << 32) - 2 * 65'536;
  static constexpr std::size_t kEntryBytes = 12;

  /// @param start_ms  the cursor: entries before it count as due at it
  explicit TimerWheel(std::int64_t start_ms);

  /// @param due_ms  epoch ms; clamped into [cursor, cursor + kSpanMs]
  /// @param offset  0 to 2^48 - 1
  void add(std::int64_t due_ms, std::int64_t offset);

  /// Takes all entries of the earliest millisecond that is not after `now_ms`, in order of offset.
  /// Moves the cursor there, or to now_ms if nothing is due.
  /// @return that time; -1 if nothing is due
  std::int64_t pop(std::int64_t now_ms, std::vector<std::int64_t>& offsets);

  /// The clock went back: entries keep their times, the cursor moves to now_ms.
  void rewind(std::int64_t now_ms);

  /// The earliest time of an entry, or a time before it at which to ask again; -1 if empty.
  std::int64_t next_ms() const;

  std::int64_t cursor_ms() const noexcept { return cursor_; }
  std::size_t size() const noexcept { return size_; }
  /// Memory that the entries and tables occupy.
  std::size_t memory_bytes() const noexcept;
  /// Every entry, in no order.
  void for_each(const std::function<void(std::int64_t due_ms, std::int64_t offset)>& fn) const;

 private:
  static constexpr std::uint32_t kNone = 0xffff'ffff;
  static constexpr std::size_t kSlots = 65'536;
  static constexpr std::size_t kChunkEntries = 8192;

  struct Entry {
    std::uint32_t next;
    std::uint16_t due_low;
    std::uint16_t offset_high;
    std::uint32_t offset_low;
  };
  static_assert(sizeof(Entry) == kEntryBytes);

  /// Heads of lists and which of them are not empty.
  struct Table {
    std::vector<std::uint32_t> heads = std::vector<std::uint32_t>(kSlots, kNone);
    std::array<std::uint64_t, kSlots / 64> used{};

    /// The first used slot in [from, to); `to` if there is none.
    std::size_t first_used(std::size_t from, std::size_t to) const noexcept;
  };

  Entry& at(std::uint32_t index) noexcept {
    return chunks_[index / kChunkEntries][index % kChunkEntries];
  }
  const Entry& at(std::uint32_t index) const noexcept {
    return chunks_[index / kChunkEntries][index % kChunkEntries];
  }
  std::uint32_t take_entry();
  void push(Table& table, std::size_t slot, std::uint32_t index) noexcept;
  std::uint32_t take_list(Table& table, std::size_t slot) noexcept;
  void place(std::int64_t due_ms, std::uint32_t index) noexcept;
  void enter_stretch() noexcept;
  std::int64_t stretch_start() const noexcept { return cursor_ & ~std::int64_t{0xffff}; }
  /// Start of the next stretch after the cursor's that has entries; -1 if none.
  std::int64_t next_stretch() const noexcept;

  std::int64_t cursor_;
  std::size_t size_ = 0;
  Table coarse_{};
  Table fine_{};
  std::vector<std::unique_ptr<Entry[]>> chunks_{};
  std::uint32_t unused_ = 0;    ///< entries of the chunks that were never taken start here
  std::uint32_t free_ = kNone;  ///< list of entries that were given back
};

}  // namespace tenon::broker
