// Hierarchical timer wheel with injected time: 7 levels of 64 slots, so adding and cancelling cost
// O(1) and the next tick with something to do is found by looking at 7 bit maps.
//
// A timer lies on the level of the highest bit group in which its due tick differs from the current
// tick; slots in front of the current one are therefore always empty and nothing wraps around.
#pragma once

#include "tenon/net/io_pool.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace tenon::net {

/// Not thread-safe; the owner locks. One tick is whatever the owner counts (milliseconds).
class TimerWheel {
 public:
  using Task = std::function<void()>;

  /// A timer whose time has come. A repeated one stays in the wheel, its task is shared.
  struct Due {
    Task once{};
    std::shared_ptr<Task> repeated{};
    void run() const { once ? once() : (*repeated)(); }
  };

  explicit TimerWheel(std::uint64_t now_tick = 0) noexcept
      : now_(now_tick) {}

  /// Adds a timer for `due_tick`; what is not in the future is due at the next tick.
  /// @param period_ticks  0: once; otherwise again every so many ticks, missed ones are left out
  TimerId add(std::uint64_t due_tick, Task task, std::uint64_t period_ticks = 0);

  /// Removes a timer, also one that is due but was not popped. The task is handed back so that the
  /// caller destroys it outside of its lock.
  std::optional<Due> cancel(TimerId id);

  /// Moves time forward; what became due is then returned by pop_due() in order of due tick, equal
  /// ones in the order in which they were added.
  void advance(std::uint64_t now_tick);
  std::optional<Due> pop_due();

  /// Earliest tick at which advance() has work to do (never later than the next due tick); nullopt
  /// if there is no timer. Equal to now() if something waits to be popped.
  std::optional<std::uint64_t> next_tick() const noexcept;

  std::uint64_t now() const noexcept { return now_; }
  std::size_t size() const noexcept { return size_; }

  /// Empties the wheel; the tasks are handed back.
  std::vector<Due> clear();

 private:
  static constexpr unsigned kLevelBits = 6;
  static constexpr unsigned kLevels = 7;
  static constexpr std::uint32_t kNil = 0xffff'ffff;
  static constexpr std::uint16_t kDueList = kLevels << kLevelBits;
  static constexpr std::uint16_t kFreeList = kDueList + 1;

  struct Node {
    Due due{};
    std::uint64_t tick = 0;
    std::uint64_t period = 0;
    std::uint32_t prev = kNil;
    std::uint32_t next = kNil;
    std::uint32_t generation = 1;
    std::uint16_t list = kFreeList;
  };
  struct List {
    std::uint32_t head = kNil;
    std::uint32_t tail = kNil;
  };

  std::uint32_t take_node();
  void free_node(std::uint32_t index);
  void place(std::uint32_t index);
  void append(std::uint16_t list, std::uint32_t index);
  void unlink(std::uint32_t index);

  std::vector<Node> nodes_{};
  std::uint32_t free_ = kNil;
  std::array<List, kDueList + 1> lists_{};
  std::array<std::uint64_t, kLevels> occupied_{};
  std::uint64_t now_;
  std::size_t size_ = 0;
};

}  // namespace tenon::net
