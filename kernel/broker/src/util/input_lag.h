// How old the input of one I/O thread may be. A loop takes everything that is ready in turn (a lap),
// so what it reads now arrived after the lap before last began; a timer that only gets its turn once
// a lap marks the laps. This is where sends wait when more comes in than can be done: Java has a
// queue with times instead (BrokerFastFailure, spec: broker §3.3).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::broker {

/// Thread: its I/O thread.
class InputLag {
 public:
  /// @param limit_ms  age of input from which it is refused
  explicit InputLag(std::int64_t limit_ms) noexcept
      : limit_ns_(static_cast<std::uint64_t>(limit_ms) * 1'000'000u) {}

  /// Requests came. @return true if the marks have to be started: call mark() in kMarkMs
  bool input(std::uint64_t now_ns, std::size_t requests) noexcept {
    busy_ = true;
    requests_ += requests;
    if (running_) {
      return false;
    }
    running_ = true;
    last_ = before_ = earlier_ = now_ns;
    return true;
  }
  /// The timer's turn. @return true if it is to come again in kMarkMs, false after an idle while
  bool mark(std::uint64_t now_ns) noexcept {
    earlier_ = before_;
    before_ = last_;
    last_ = now_ns;
    last_requests_ = requests_;
    requests_ = 0;
    running_ = busy_;
    busy_ = false;
    return running_;
  }
  /// Age in milliseconds at most of what is read now, 0 unless it is to be refused. Either this lap
  /// is too long, or the last two were long and the age is beyond half the limit: who is behind
  /// catches up early. A pause refuses nothing, however long: laps count that had many requests.
  std::int64_t refused_age_ms(std::uint64_t now_ns) const noexcept {
    const std::uint64_t age = now_ns - before_;
    const std::uint64_t long_lap = limit_ns_ / kLongLapPart;
    const bool behind = age >= limit_ns_ / 2 && last_ - before_ >= long_lap &&
                        before_ - earlier_ >= long_lap && last_requests_ >= kManyRequests;
    const bool endless = now_ns - last_ >= limit_ns_ && requests_ >= kManyRequests;
    return behind || endless ? static_cast<std::int64_t>(age / 1'000'000u) : 0;
  }

  static constexpr std::int64_t kMarkMs = 10;

 private:
  static constexpr std::uint64_t kLongLapPart = 4;
  static constexpr std::size_t kManyRequests = 1'000;

  std::uint64_t limit_ns_;
  std::uint64_t last_ = 0;         ///< begin of this lap
  std::uint64_t before_ = 0;       ///< of the one before
  std::uint64_t earlier_ = 0;      ///< and of the one before that
  std::size_t requests_ = 0;       ///< in this lap
  std::size_t last_requests_ = 0;  ///< in the one before
  bool running_ = false;
  bool busy_ = false;
};

}  // namespace tenon::broker
