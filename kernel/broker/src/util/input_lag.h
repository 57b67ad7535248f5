// How old the input of one I/O thread may be. A loop takes everything that is ready in turn (a lap),
// so what it reads now arrived after the lap before this one began; a timer that only gets its turn
// once a lap marks the laps. This is where sends wait when more comes in than can be done: Java has
// a queue with times instead (BrokerFastFailure, spec: broker §3.3).
//
// Refusing takes a fraction of the time of storing. So the length of the laps settles where the part
// that is refused makes both fit: nothing is refused in short laps, everything in those of half the
// limit (two of them: input of that age), in between a part that grows with the length. It begins
// early in laps with more requests than Java's queue takes. The reads that are refused are drawn, so
// that no connection is always the last of its lap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tenon::broker {

/// Thread: its I/O thread.
class InputLag {
 public:
  /// @param limit_ms   age of input from which all of it is refused
  /// @param queue_max  requests that may wait for this thread
  InputLag(std::int64_t limit_ms, std::size_t queue_max) noexcept
      : limit_ns_(static_cast<std::uint64_t>(limit_ms) * 1'000'000u),
        queue_max_(std::max(queue_max, kManyRequests)) {}

  /// Requests came. @return true if the marks have to be started: call begin() now and mark() in
  /// kMarkMs
  bool input(std::size_t requests) noexcept {
    busy_ = true;
    requests_ += requests;
    return !running_;
  }
  void begin(std::uint64_t now_ns) noexcept {
    running_ = true;
    last_ = before_ = now_ns;
  }
  /// The timer's turn. @return true if it is to come again in kMarkMs, false after an idle while
  bool mark(std::uint64_t now_ns) noexcept {
    before_ = last_;
    last_ = now_ns;
    last_requests_ = requests_;
    requests_ = 0;
    running_ = busy_;
    busy_ = false;
    return running_;
  }
  /// False: nothing is refused. A pause refuses nothing, however long: laps count that had many
  /// requests.
  bool crowded() const noexcept {
    return requests_ >= kManyRequests || last_requests_ >= kManyRequests;
  }
  /// Whether a read that comes now is refused.
  /// @param random  uniform over 32 bits
  /// @return its age in milliseconds at most, 0 if it is to be done
  std::int64_t refused_age_ms(std::uint64_t now_ns, std::uint32_t random) const noexcept {
    const std::uint64_t part = std::max(refused_part(requests_, now_ns - last_),
                                        refused_part(last_requests_, last_ - before_));
    return random % kSteps < part ? static_cast<std::int64_t>((now_ns - before_) / 1'000'000u) : 0;
  }
  /// Requests of the last lap: what Java would have in its queue.
  std::size_t lap_requests() const noexcept { return std::max(requests_, last_requests_); }

  static constexpr std::int64_t kMarkMs = 10;

 private:
  static constexpr std::uint64_t kSteps = 1024;
  static constexpr std::size_t kManyRequests = 1'000;

  /// Of kSteps, after a lap of that length with so many requests.
  std::uint64_t refused_part(std::size_t requests, std::uint64_t lap_ns) const noexcept {
    if (requests < kManyRequests) {
      return 0;
    }
    const bool full = requests >= queue_max_;
    const std::uint64_t none_ns = full ? limit_ns_ / 10 : limit_ns_ * 2 / 5;
    const std::uint64_t all_ns = full ? limit_ns_ / 4 : limit_ns_ / 2;
    if (lap_ns <= none_ns) {
      return 0;
    }
    return (std::min(lap_ns, all_ns) - none_ns) * kSteps /
           std::max<std::uint64_t>(all_ns - none_ns, 1);
  }

  std::uint64_t limit_ns_;
  std::size_t queue_max_;
  std::uint64_t last_ = 0;         ///< begin of this lap
  std::uint64_t before_ = 0;       ///< of the one before
  std::size_t requests_ = 0;       ///< in this lap
  std::size_t last_requests_ = 0;  ///< in the one before
  bool running_ = false;
  bool busy_ = false;
};

}  // namespace tenon::broker
