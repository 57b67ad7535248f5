#include "timer_wheel.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tenon::net {
namespace {

/// Delays are cut here (about 34 years of milliseconds), far inside the reach of the top level.
constexpr std::uint64_t kDelayMaxTicks = std::uint64_t{1} << 40;

}  // namespace

TimerId TimerWheel::add(std::uint64_t due_tick, Task task, std::uint64_t period_ticks) {
  const std::uint32_t index = take_node();
  Node& node = nodes_[index];
  if (period_ticks > 0) {
    node.due.repeated = std::make_shared<Task>(std::move(task));
  } else {
    node.due.once = std::move(task);
  }
  node.period = std::min(period_ticks, kDelayMaxTicks);
  node.tick = std::clamp(due_tick, now_ + 1, now_ + kDelayMaxTicks);
  place(index);
  ++size_;
  return (std::uint64_t{node.generation} << 32) | (index + 1u);
}

std::optional<TimerWheel::Due> TimerWheel::cancel(TimerId id) {
  const auto low = static_cast<std::uint32_t>(id);
  if (low == 0 || low > nodes_.size()) {
    return std::nullopt;
  }
  const std::uint32_t index = low - 1;
  Node& node = nodes_[index];
  if (node.generation != static_cast<std::uint32_t>(id >> 32) || node.list == kFreeList) {
    return std::nullopt;
  }
  unlink(index);
  std::optional<Due> due{std::move(node.due)};
  free_node(index);
  --size_;
  return due;
}

void TimerWheel::advance(std::uint64_t now_tick) {
  for (;;) {
    unsigned level = 0;
    while (level < kLevels && occupied_[level] == 0) {
      ++level;
    }
    if (level == kLevels) {
      break;
    }
    const auto slot = static_cast<unsigned>(std::countr_zero(occupied_[level]));
    const unsigned shift = level * kLevelBits;
    const std::uint64_t window = now_ >> (shift + kLevelBits) << (shift + kLevelBits);
    const std::uint64_t start = window + (std::uint64_t{slot} << shift);
    if (start > now_tick) {
      break;
    }
    now_ = std::max(now_, start);
    const auto list = static_cast<std::uint16_t>((level << kLevelBits) + slot);
    std::uint32_t index = std::exchange(lists_[list], List{}).head;
    occupied_[level] &= ~(std::uint64_t{1} << slot);
    while (index != kNil) {
      const std::uint32_t next = nodes_[index].next;
      if (nodes_[index].tick <= now_) {
        append(kDueList, index);
      } else {
        place(index);
      }
      index = next;
    }
  }
  now_ = std::max(now_, now_tick);
}

std::optional<TimerWheel::Due> TimerWheel::pop_due() {
  const std::uint32_t index = lists_[kDueList].head;
  if (index == kNil) {
    return std::nullopt;
  }
  unlink(index);
  Node& node = nodes_[index];
  if (node.period == 0) {
    std::optional<Due> due{std::move(node.due)};
    free_node(index);
    --size_;
    return due;
  }
  node.tick += node.period;
  if (node.tick <= now_) {
    node.tick = now_ + node.period - (now_ - node.tick) % node.period;
  }
  place(index);
  return Due{{}, node.due.repeated};
}

std::optional<std::uint64_t> TimerWheel::next_tick() const noexcept {
  if (lists_[kDueList].head != kNil) {
    return now_;
  }
  for (unsigned level = 0; level < kLevels; ++level) {
    if (occupied_[level] != 0) {
      const auto slot = static_cast<unsigned>(std::countr_zero(occupied_[level]));
      const unsigned shift = level * kLevelBits;
      const std::uint64_t window = now_ >> (shift + kLevelBits) << (shift + kLevelBits);
      return window + (std::uint64_t{slot} << shift);
    }
  }
  return std::nullopt;
}

std::vector<TimerWheel::Due> TimerWheel::clear() {
  std::vector<Due> all;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].list != kFreeList) {
      unlink(i);
      all.push_back(std::move(nodes_[i].due));
      free_node(i);
    }
  }
  size_ = 0;
  return all;
}

std::uint32_t TimerWheel::take_node() {
  if (free_ != kNil) {
    const std::uint32_t index = free_;
    free_ = nodes_[index].next;
    return index;
  }
  nodes_.emplace_back();
  return static_cast<std::uint32_t>(nodes_.size() - 1);
}

void TimerWheel::free_node(std::uint32_t index) {
  Node& node = nodes_[index];
  node.due = Due{};
  ++node.generation;
  node.list = kFreeList;
  node.next = free_;
  free_ = index;
}

void TimerWheel::place(std::uint32_t index) {
  const std::uint64_t tick = nodes_[index].tick;
  const auto differing = static_cast<unsigned>(std::bit_width(tick ^ now_));
  const unsigned level = (differing - 1) / kLevelBits;
  const unsigned slot = static_cast<unsigned>(tick >> (level * kLevelBits)) & 63u;
  occupied_[level] |= std::uint64_t{1} << slot;
  append(static_cast<std::uint16_t>((level << kLevelBits) + slot), index);
}

void TimerWheel::append(std::uint16_t list, std::uint32_t index) {
  Node& node = nodes_[index];
  List& l = lists_[list];
  node.list = list;
  node.prev = l.tail;
  node.next = kNil;
  (l.tail == kNil ? l.head : nodes_[l.tail].next) = index;
  l.tail = index;
}

void TimerWheel::unlink(std::uint32_t index) {
  const Node& node = nodes_[index];
  List& l = lists_[node.list];
  (node.prev == kNil ? l.head : nodes_[node.prev].next) = node.next;
  (node.next == kNil ? l.tail : nodes_[node.next].prev) = node.prev;
  if (l.head == kNil && node.list < kDueList) {
    occupied_[node.list >> kLevelBits] &= ~(std::uint64_t{1} << (node.list & 63u));
  }
}

}  // namespace tenon::net
