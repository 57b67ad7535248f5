#include "levels.h"

#include <algorithm>

namespace tenon::logging {

const std::atomic<LogLevel>& Levels::find(std::string_view component) const noexcept {
  const std::size_t count = count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    if (slots_[i].text() == component) {
      return slots_[i].level;
    }
  }
  return fallback_;
}

void Levels::set(std::string_view component, LogLevel level) {
  if (component.empty()) {
    fallback_.store(level, std::memory_order_relaxed);
    return;
  }
  const std::scoped_lock lock(grow_);
  const std::size_t count = count_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    if (slots_[i].text() == component) {
      slots_[i].level.store(level, std::memory_order_relaxed);
      return;
    }
  }
  if (count == kComponentsMax || component.size() > kNameMaxBytes) {
    return;
  }
  Slot& slot = slots_[count];
  std::copy(component.begin(), component.end(), slot.name.begin());
  slot.bytes = static_cast<std::uint8_t>(component.size());
  slot.level.store(level, std::memory_order_relaxed);
  count_.store(count + 1, std::memory_order_release);
}

}  // namespace tenon::logging
