#include "util/snapshot.h"

#include <algorithm>
#include <limits>

namespace tenon::broker {
namespace {

/// One thread's word: the epoch in which its section began, 0 outside. In a list that only grows; the
/// slot of a thread that has ended goes to the next one that begins.
struct alignas(64) Slot {
  std::atomic<std::uint64_t> entered{0};
  std::atomic<bool> taken{true};
  Slot* next = nullptr;
};

std::atomic<Slot*> slots{nullptr};
std::atomic<std::uint64_t> epoch{1};

Slot* take_slot() {
  for (Slot* slot = slots.load(); slot != nullptr; slot = slot->next) {
    if (!slot->taken.exchange(true)) {
      return slot;
    }
  }
  auto* slot = new Slot;  // lives as long as the process
  slot->next = slots.load();
  while (!slots.compare_exchange_weak(slot->next, slot)) {
  }
  return slot;
}

struct Owner {
  Slot* slot = take_slot();
  Owner() = default;
  ~Owner() { slot->taken.store(false); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
};

}  // namespace

ReadSection::ReadSection() noexcept {
  thread_local const Owner mine;
  std::atomic<std::uint64_t>& word = mine.slot->entered;
  if (word.load(std::memory_order_relaxed) != 0) {
    entered_ = nullptr;
    return;
  }
  entered_ = &word;
  // Sequentially consistent, as is the load of the value that follows it: whoever replaces that
  // value and then reads this word sees the section, or the section sees the new value.
  word.store(epoch.load());
}

ReadSection::~ReadSection() {
  if (entered_ != nullptr) {
    entered_->store(0, std::memory_order_release);
  }
}

std::uint64_t detail::end_epoch() noexcept {
  return epoch.fetch_add(1);
}

std::uint64_t detail::oldest_section() noexcept {
  std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
  for (const Slot* slot = slots.load(); slot != nullptr; slot = slot->next) {
    const std::uint64_t entered = slot->entered.load();
    oldest = entered == 0 ? oldest : std::min(oldest, entered);
  }
  return oldest;
}

}  // namespace tenon::broker
