// Messages of one queue that were pulled and are not finished (spec: client §5.10).
#pragma once

#include "front_queue.h"

#include "tenon/sdk/message.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace tenon::sdk {

/// Ordered by queue offset. The committed offset is the smallest unfinished one, so one slow message
/// holds it. Thread: any.
class ProcessQueue {
 public:
  /// Adds messages; those already there are ignored. `sizes` counts what flow control counts.
  void put(std::span<const MessageView> messages);

  /// Finishes messages. @return the offset to commit, or -1 if nothing was cached
  std::int64_t remove(std::span<const MessageView> messages);

  /// The listener got these now.
  void mark_started(std::span<const MessageView> messages, std::int64_t now_ms);

  // For consumers that take messages from the front, in order. What is taken stays cached, and holds
  // the offset, until it is committed. Not mixed with remove().

  /// The next messages, at most so many.
  std::vector<MessageView> take(std::size_t count_max);
  /// Finishes everything that was taken. @return the offset to commit, or -1 if nothing was
  std::int64_t commit_taken();
  /// The last `count` taken ones come again.
  void untake(std::size_t count);
  std::size_t taken() const;
  std::size_t waiting() const;  ///< not taken yet

  struct Head {
    MessageView message{};
    std::int64_t started_ms = 0;  ///< 0: not yet given to a listener
  };
  std::optional<Head> head() const;
  bool contains(std::int64_t queue_offset) const;

  void clear();

  std::size_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_acquire); }
  std::int64_t span() const;
  std::int64_t min_offset() const;  ///< of the cached messages, 0 if there are none
  std::int64_t max_offset() const;

 private:
  struct Entry {
    std::int64_t offset = 0;
    std::size_t bytes = 0;
    std::int64_t started_ms = 0;
    MessageView message{};  ///< empty: finished
  };
  Entry* find(std::int64_t offset);
  const Entry* find(std::int64_t offset) const;

  mutable std::mutex mutex_;
  FrontQueue<Entry> entries_;  ///< the front one is never finished
  std::size_t taken_ = 0;      ///< of entries_, from the front
  std::int64_t offset_max_ = 0;
  std::atomic<std::size_t> count_{0};
  std::atomic<std::size_t> bytes_{0};
};

/// Why a queue is not pulled now (spec: client §5.8 steps 5 to 7).
enum class FlowControl : std::uint8_t { kGo, kTooMany, kTooLarge, kTooWide };
struct FlowLimits {
  std::size_t max_messages = 1000;
  std::size_t max_mib = 100;
  std::int64_t max_span = 2000;
};
FlowControl check_flow(const ProcessQueue& queue, const FlowLimits& limits);

}  // namespace tenon::sdk
