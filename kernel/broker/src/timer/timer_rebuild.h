// Which timer messages are pending, found from the log: the entries of the timer queue without those
// that a later record of the log ends (ends_entry()) and those that a 5.x broker has delivered.
#pragma once

#include "append/log.h"
#include "timer/timer_files.h"
#include "timer/timer_queue.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace tenon::broker {

struct TimerRebuild {
  std::vector<TimerEntry> entries{};  ///< pending, in no order
  std::int64_t read_offset = 0;       ///< of the queue: what follows is not included
  bool foreign = false;               ///< a 5.x broker has run on the folder since we did
};

/// Reads the timer queue from the snapshot's offset and the log from its position; without a
/// snapshot, or when a 5.x broker has written timercheck since, both from the first entry of the
/// queue. May read much: not on an I/O thread.
/// @param cancel  polled; the result is useless then
TimerRebuild rebuild_timers(Log& log,
                            TimerQueue& queue,
                            std::optional<TimerPending> snapshot,
                            const std::optional<TimerCheck>& check,
                            std::int64_t roll_ms,
                            const std::atomic<bool>& cancel);

}  // namespace tenon::broker
