// Reading the queue of the timer topic: index entries and the records behind them.
#pragma once

#include "append/log.h"

#include "tenon/proto/message.h"

#include <array>
#include <cstdint>
#include <functional>
#include <span>

namespace tenon::broker {

/// Thread: one at a time.
class TimerQueue {
 public:
  static constexpr std::size_t kBatch = 64;

  explicit TimerQueue(Log& log)
      : log_(log) {}

  tenon_queue_bounds bounds() { return log_.bounds(handle()); }
  tenon_queue handle();

  /// A record of the queue while the visitor is called; null = the log no longer has it, or cannot
  /// read it.
  struct Item {
    std::int64_t offset = 0;
    std::uint64_t phys = 0;
    const proto::MessageView* message = nullptr;
  };
  using Visitor = std::function<void(std::span<const Item>)>;

  /// Up to kBatch records from `from` on, in one call of the visitor.
  /// @return where to go on; `from` if nothing is there now
  std::int64_t read(std::int64_t from, const Visitor& visitor);
  /// The records at these offsets, at most kBatch, in one call of the visitor; their pages are in
  /// memory.
  void look_up(std::span<const std::int64_t> offsets, const Visitor& visitor);

 private:
  void visit(std::span<const tenon_index_entry> entries,
             std::span<const std::int64_t> offsets,
             const Visitor& visitor);

  Log& log_;
  tenon_queue queue_ = 0;
};

}  // namespace tenon::broker
