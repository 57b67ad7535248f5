// The two files of the timer in <store_root>/config.
//
// timerPending: what was pending at one position of the log, so that a start reads only the log
// behind it. It is an abbreviation: without it the same comes out of the log. Big-endian:
//   0  magic 8 · 8  read offset 8 · 16 log position 8 · 24 read time of timercheck 8
//   32 queue offset of timercheck 8 · 40 count 8 · then count × (time 6 · queue offset 6) · sum 8
//
// timercheck: the file of that name of a RocketMQ 5.x broker, 4 KiB, seven 8-byte numbers (store
// §19): read time, timerlog position, queue offset, the master's queue offset, version (3). Written
// so that such a broker reads the timer queue from the oldest pending entry on, or, where its wheel
// was written too (timer_handover.h), from the end.
#pragma once

#include "tenon/base/result.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::broker {

inline constexpr std::int64_t kSlotMs = 1000;  ///< precision of a 5.x broker

struct TimerCheck {
  std::int64_t read_ms = 0;       ///< every slot before it is done
  std::int64_t queue_offset = 0;  ///< every entry before it is in the wheel or done
  friend bool operator==(const TimerCheck&, const TimerCheck&) = default;
};
/// nullopt: no such file, or too short.
std::optional<TimerCheck> load_timer_check(const std::filesystem::path& file);
/// Replaces the file; durable when it returns.
/// @param timer_log_bytes  length of the timerlog beside it
Result<> save_timer_check(const std::filesystem::path& file,
                          const TimerCheck& check,
                          std::uint64_t timer_log_bytes = 0);

struct TimerEntry {
  std::int64_t look_ms = 0;  ///< time in the wheel
  std::int64_t offset = 0;   ///< in the timer queue
};

struct TimerPending {
  std::int64_t read_offset = 0;    ///< entries of the queue from here on are not included
  std::uint64_t log_position = 0;  ///< records that end entries are included up to here
  TimerCheck check{};              ///< what timercheck was written with
  std::vector<TimerEntry> entries{};

  /// What timercheck is written with once the wheel of a 5.x broker is there as well.
  TimerCheck handed_over() const noexcept { return {check.read_ms, read_offset}; }
  /// Whether nobody else has written timercheck since.
  bool matches(const TimerCheck& now) const noexcept {
    return now == check || now == handed_over();
  }
};
/// @return kCorrupt if the bytes are no whole file
Result<TimerPending> parse_timer_pending(std::span<const std::byte> bytes);
/// @return kNotFound, kIo, kCorrupt
Result<TimerPending> load_timer_pending(const std::filesystem::path& file);

/// Writes a timerPending in pieces, without holding it in memory. Nobody sees it before commit().
/// Thread: one at a time.
class TimerPendingWriter {
 public:
  explicit TimerPendingWriter(std::filesystem::path file);
  ~TimerPendingWriter();
  TimerPendingWriter(const TimerPendingWriter&) = delete;
  TimerPendingWriter& operator=(const TimerPendingWriter&) = delete;

  Result<> open(const TimerPending& head, std::size_t count);  ///< entries of the head are ignored
  void add(const TimerEntry& entry);
  Result<> finish();  ///< everything is with the kernel
  Result<> commit();  ///< syncs and replaces the file

 private:
  void put(std::uint64_t value, std::size_t bytes);
  void drain();

  const std::filesystem::path file_;
  std::string buffer_{};
  int fd_ = -1;
  int failed_ = 0;  ///< errno of the first failed write
  std::uint64_t sum_ = 0;
};

}  // namespace tenon::broker
