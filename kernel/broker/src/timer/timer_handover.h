// The wheel of a RocketMQ 5.x broker, written at a stop (spec: store §19).
//
// Without it such a broker reads the timer queue from the oldest pending entry on, and delivers at
// once what is overdue there: everything that we have delivered meanwhile would come again.
//
// timerlog/: files of units of 52 bytes, each linked to the one before it in its second.
// timerwheel: a slot of 32 bytes for each second of two weeks: the first and the last of its units.
// The last unit of all tells such a broker how far the queue was read.
#pragma once

#include "tenon/base/result.h"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace tenon::broker {

/// One entry of the timer queue.
struct TimerUnit {
  std::int64_t offset = 0;
  std::int64_t due_ms = 0;  ///< TIMER_OUT_MS
  std::uint64_t phys = 0;   ///< of its record in the log
  std::int32_t bytes = 0;
  std::int32_t topic_hash = 0;  ///< Java's hash of the real topic
  bool recall = false;          ///< not a message but the recall of one
};

struct TimerHandover {
  std::int64_t read_ms = 0;  ///< a whole second: the wheel is read from there on
  std::vector<TimerUnit> pending{};
  TimerUnit last{};  ///< the last entry of the queue, pending or not
};

inline constexpr std::uint64_t kTimerLogFileBytes = 100u << 20;  ///< a 5.x broker's default

/// Writes <root>/timerlog and <root>/timerwheel, which must not be there; durable when it returns.
/// @param log_file_bytes  size of the files in timerlog/, which such a broker wants exact
/// @return length of the timerlog, for timercheck; kIo, kFull: what was written is to be removed
Result<std::uint64_t> write_timer_handover(const std::filesystem::path& root,
                                           std::uint64_t log_file_bytes,
                                           TimerHandover handover);

/// Size of the files that a 5.x broker has left in `folder`; the default if there are none.
std::uint64_t timer_log_file_bytes(const std::filesystem::path& folder);

}  // namespace tenon::broker
