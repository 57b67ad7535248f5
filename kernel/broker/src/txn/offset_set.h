// A set of queue offsets, kept as the runs that it mostly consists of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace tenon::broker {

/// Thread: one.
class OffsetSet {
 public:
  void insert(std::int64_t offset) {
    auto next = runs_.upper_bound(offset);
    if (next != runs_.begin()) {
      const auto before = std::prev(next);
      if (offset < before->second) {
        return;
      }
      if (offset == before->second) {
        ++before->second;
        join(before, next);
        return;
      }
    }
    const auto at = runs_.emplace_hint(next, offset, offset + 1);
    join(at, next);
  }
  bool contains(std::int64_t offset) const { return next_gap(offset) != offset; }
  /// The first offset from `from` on that is not in the set.
  std::int64_t next_gap(std::int64_t from) const {
    const auto next = runs_.upper_bound(from);
    if (next == runs_.begin()) {
      return from;
    }
    const auto run = std::prev(next);
    return from < run->second ? run->second : from;
  }
  void erase_below(std::int64_t offset) {
    while (!runs_.empty() && runs_.begin()->first < offset) {
      const std::int64_t end = runs_.begin()->second;
      runs_.erase(runs_.begin());
      if (end > offset) {
        runs_.emplace_hint(runs_.begin(), offset, end);
      }
    }
  }
  std::size_t runs() const noexcept { return runs_.size(); }
  void clear() { runs_.clear(); }

 private:
  using Runs = std::map<std::int64_t, std::int64_t>;  ///< first → one behind the last
  void join(Runs::iterator run, Runs::iterator next) {
    if (next != runs_.end() && run->second == next->first) {
      run->second = next->second;
      runs_.erase(next);
    }
  }
  Runs runs_{};
};

}  // namespace tenon::broker
