// Level of each component, read without a lock by every log statement.
#pragma once

#include "tenon/base/log.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string_view>

namespace tenon::logging {

/// A few components, appended and never removed: a reader sees a slot only after it is complete.
/// Thread: any.
class Levels {
 public:
  explicit Levels(LogLevel fallback)
      : fallback_(fallback) {}

  bool enabled(LogLevel level, std::string_view component) const noexcept {
    return level >= find(component).load(std::memory_order_relaxed);
  }
  LogLevel get(std::string_view component) const noexcept {
    return find(component).load(std::memory_order_relaxed);
  }
  void set(std::string_view component, LogLevel level);

 private:
  static constexpr std::size_t kComponentsMax = 64;
  static constexpr std::size_t kNameMaxBytes = 79;  ///< "plugin:" and an id of 64 bytes

  struct Slot {
    std::array<char, kNameMaxBytes> name{};
    std::uint8_t bytes = 0;
    std::atomic<LogLevel> level{LogLevel::kInfo};
    std::string_view text() const { return {name.data(), bytes}; }
  };

  const std::atomic<LogLevel>& find(std::string_view component) const noexcept;

  std::atomic<LogLevel> fallback_;
  std::mutex grow_;
  std::atomic<std::size_t> count_{0};
  std::array<Slot, kComponentsMax> slots_{};
};

}  // namespace tenon::logging
