#include "timer/timer_wheel.h"

#include <algorithm>
#include <bit>

namespace tenon::broker {

TimerWheel::TimerWheel(std::int64_t start_ms)
    : cursor_(start_ms) {}

std::size_t TimerWheel::Table::first_used(std::size_t from, std::size_t to) const noexcept {
  while (from < to) {
    const std::uint64_t word = used[from / 64] >> (from % 64);
    if (word != 0) {
      return std::min(to, from + static_cast<std::size_t>(std::countr_zero(word)));
    }
    from = (from / 64 + 1) * 64;
  }
  return to;
}

std::uint32_t TimerWheel::take_entry() {
  if (free_ != kNone) {
    const std::uint32_t index = free_;
    free_ = at(index).next;
    return index;
  }
  if (unused_ == chunks_.size() * kChunkEntries) {
    chunks_.push_back(std::make_unique_for_overwrite<Entry[]>(kChunkEntries));
  }
  return unused_++;
}

void TimerWheel::push(Table& table, std::size_t slot, std::uint32_t index) noexcept {
  at(index).next = table.heads[slot];
  table.heads[slot] = index;
  table.used[slot / 64] |= std::uint64_t{1} << (slot % 64);
}

std::uint32_t TimerWheel::take_list(Table& table, std::size_t slot) noexcept {
  const std::uint32_t head = table.heads[slot];
  table.heads[slot] = kNone;
  table.used[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
  return head;
}

void TimerWheel::place(std::int64_t due_ms, std::uint32_t index) noexcept {
  if ((due_ms >> 16) == (cursor_ >> 16)) {
    push(fine_, static_cast<std::size_t>(due_ms & 0xffff), index);
  } else {
    push(coarse_, static_cast<std::size_t>((due_ms >> 16) & 0xffff), index);
  }
}

void TimerWheel::add(std::int64_t due_ms, std::int64_t offset) {
  due_ms = std::clamp(due_ms, cursor_, cursor_ + kSpanMs);
  const std::uint32_t index = take_entry();
  Entry& e = at(index);
  e.due_low = static_cast<std::uint16_t>(due_ms & 0xffff);
  e.offset_high = static_cast<std::uint16_t>(offset >> 32);
  e.offset_low = static_cast<std::uint32_t>(offset);
  place(due_ms, index);
  ++size_;
}

std::int64_t TimerWheel::next_stretch() const noexcept {
  const std::size_t here = static_cast<std::size_t>((cursor_ >> 16) & 0xffff);
  std::size_t slot = coarse_.first_used(here + 1, kSlots);
  std::size_t distance = slot - here;
  if (slot == kSlots) {
    slot = coarse_.first_used(0, here);
    if (slot == here) {
      return -1;
    }
    distance = kSlots - here + slot;
  }
  return stretch_start() + static_cast<std::int64_t>(distance << 16);
}

/// Deals the coarse list of the cursor's stretch out to milliseconds.
void TimerWheel::enter_stretch() noexcept {
  const std::size_t slot = static_cast<std::size_t>((cursor_ >> 16) & 0xffff);
  const std::size_t first = static_cast<std::size_t>(cursor_ & 0xffff);
  for (std::uint32_t index = take_list(coarse_, slot); index != kNone;) {
    const std::uint32_t next = at(index).next;
    push(fine_, std::max<std::size_t>(at(index).due_low, first), index);
    index = next;
  }
}

std::int64_t TimerWheel::pop(std::int64_t now_ms, std::vector<std::int64_t>& offsets) {
  offsets.clear();
  while (size_ != 0 && cursor_ <= now_ms) {
    const std::size_t from = static_cast<std::size_t>(cursor_ & 0xffff);
    const std::size_t slot = fine_.first_used(from, kSlots);
    if (slot != kSlots) {
      const std::int64_t due = stretch_start() + static_cast<std::int64_t>(slot);
      if (due > now_ms) {
        break;
      }
      cursor_ = due;
      for (std::uint32_t index = take_list(fine_, slot); index != kNone;) {
        Entry& e = at(index);
        offsets.push_back((std::int64_t{e.offset_high} << 32) | e.offset_low);
        const std::uint32_t next = e.next;
        e.next = free_;
        free_ = index;
        index = next;
      }
      size_ -= offsets.size();
      std::sort(offsets.begin(), offsets.end());
      if (size_ == 0) {
        chunks_.clear();
        unused_ = 0;
        free_ = kNone;
      }
      return due;
    }
    const std::int64_t next = next_stretch();
    if (next < 0 || next > now_ms) {
      break;
    }
    cursor_ = next;
    enter_stretch();
  }
  if (cursor_ < now_ms) {
    const bool same = (cursor_ >> 16) == (now_ms >> 16);
    cursor_ = now_ms;
    if (!same) {
      enter_stretch();
    }
  }
  return -1;
}

void TimerWheel::rewind(std::int64_t now_ms) {
  if (now_ms >= cursor_) {
    return;
  }
  if ((now_ms >> 16) != (cursor_ >> 16)) {
    const std::size_t coarse_slot = static_cast<std::size_t>((cursor_ >> 16) & 0xffff);
    for (std::size_t slot = fine_.first_used(0, kSlots); slot != kSlots;
         slot = fine_.first_used(slot, kSlots)) {
      for (std::uint32_t index = take_list(fine_, slot); index != kNone;) {
        const std::uint32_t next = at(index).next;
        at(index).due_low = static_cast<std::uint16_t>(slot);
        push(coarse_, coarse_slot, index);
        index = next;
      }
    }
    cursor_ = now_ms;
    enter_stretch();
    return;
  }
  cursor_ = now_ms;
}

std::int64_t TimerWheel::next_ms() const {
  if (size_ == 0) {
    return -1;
  }
  const std::size_t slot = fine_.first_used(static_cast<std::size_t>(cursor_ & 0xffff), kSlots);
  return slot != kSlots ? stretch_start() + static_cast<std::int64_t>(slot) : next_stretch();
}

std::size_t TimerWheel::memory_bytes() const noexcept {
  return chunks_.size() * kChunkEntries * sizeof(Entry) +
         2 * (kSlots * sizeof(std::uint32_t) + kSlots / 8);
}

void TimerWheel::for_each(
    const std::function<void(std::int64_t due_ms, std::int64_t offset)>& fn) const {
  const auto walk = [&](std::uint32_t index, std::int64_t stretch) {
    for (; index != kNone; index = at(index).next) {
      const Entry& e = at(index);
      fn(stretch + e.due_low, (std::int64_t{e.offset_high} << 32) | e.offset_low);
    }
  };
  for (std::size_t slot = fine_.first_used(0, kSlots); slot != kSlots;
       slot = fine_.first_used(slot + 1, kSlots)) {
    walk(fine_.heads[slot], stretch_start());
  }
  const std::size_t here = static_cast<std::size_t>((cursor_ >> 16) & 0xffff);
  for (std::size_t slot = coarse_.first_used(0, kSlots); slot != kSlots;
       slot = coarse_.first_used(slot + 1, kSlots)) {
    const std::size_t distance = slot > here ? slot - here : kSlots - here + slot;
    walk(coarse_.heads[slot], stretch_start() + static_cast<std::int64_t>(distance << 16));
  }
}

}  // namespace tenon::broker
