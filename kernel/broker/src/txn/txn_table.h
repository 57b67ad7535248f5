// Which transactions are undecided. Every record of the half queue is either done (decided, or
// replaced by a copy) or stands for one undecided transaction, which is named by the queue offset of
// its first half ("root"). What lies below the floor is done.
#pragma once

#include "txn/offset_set.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tenon::broker {

/// Memory: nothing for an undecided half that was never looked at, some 60 bytes for others, one run
/// for a stretch of decided ones. Thread: one at a time, the service's lock.
class TxnTable {
 public:
  /// Starts with the saved positions; then op_read() for each op record, half_read() for each half
  /// from the floor on, in order, then linked().
  void reset(std::int64_t half_floor, std::int64_t op_floor);
  void op_read(std::int64_t op_offset, const std::vector<std::int64_t>& halves);
  /// @param uniq_key  of a copy that Java wrote without a link to its original, else empty
  void half_read(std::int64_t offset, std::int64_t root, std::string_view uniq_key);
  void linked();

  /// The record that stands for the transaction; nothing if it is decided. A record that was given up
  /// may be decided once, late.
  std::optional<std::int64_t> latest(std::int64_t root) const;
  /// The same for the original of a copy that Java wrote: found by its unique key.
  std::int64_t root_of(std::int64_t root, std::string_view uniq_key) const;
  /// Whether this record stands for an undecided transaction.
  bool undecided(std::int64_t offset) const { return offset >= floor_ && !done_.contains(offset); }
  /// The first undecided record from `from` on, or where the next half will be.
  std::int64_t next_undecided(std::int64_t from) const {
    return done_.next_gap(from < floor_ ? floor_ : from);
  }

  /// Decided; `latest` is its record.
  void resolve(std::int64_t root, std::int64_t latest);
  /// Given up: like resolve(), but one late decision is still taken.
  void give_up(std::int64_t root, std::int64_t latest);
  /// A copy at `to` stands for it from now on.
  void moved(std::int64_t root, std::int64_t from, std::int64_t to);
  /// Looked at and left where it is. @return how often before
  std::uint32_t visit(std::int64_t root, std::int64_t latest);
  std::uint32_t visits(std::int64_t root) const;

  /// The records below are gone from the log.
  void drop_below(std::int64_t offset);

  void op_written(std::int64_t op_offset, std::int64_t highest_half);
  std::int64_t floor() const noexcept { return floor_; }
  /// The first op record that says something about halves from the floor on.
  std::int64_t op_floor();
  std::size_t runs() const noexcept { return done_.runs(); }

 private:
  struct Known {
    std::int64_t latest = 0;
    std::uint32_t visits = 0;
  };
  struct Op {
    std::int64_t offset = 0;
    std::int64_t highest_half = 0;
  };
  void done(std::int64_t offset);

  std::int64_t floor_ = 0;
  std::int64_t next_op_ = 0;
  OffsetSet done_{};
  std::unordered_map<std::int64_t, Known> known_{};
  std::unordered_map<std::size_t, std::int64_t> aliases_{};  ///< hash of UNIQ_KEY → root
  std::deque<std::int64_t> given_up_order_{};
  std::unordered_set<std::int64_t> given_up_{};
  std::deque<Op> ops_{};
  std::vector<std::pair<std::int64_t, std::int64_t>> copies_read_{};  ///< (offset, root)
};

}  // namespace tenon::broker
