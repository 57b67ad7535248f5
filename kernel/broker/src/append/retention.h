// When the storage deletes what has expired: hour of the day, age, disk use, or because somebody
// asked (spec: store §10.3, §11). The storage knows which files that are.
#pragma once

#include "append/log.h"

#include "tenon/base/clock.h"
#include "tenon/base/result.h"
#include "tenon/broker/config.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::broker {

/// A set of hours of the day: bit h is hour h.
using HourMask = std::uint32_t;

/// The hours of RetentionConfig::delete_when, each 0..23.
/// @return kInvalid naming the part that is no hour
Result<HourMask> parse_hours(std::string_view text);
/// As RocketMQ writes them: "04;16".
std::string format_hours(HourMask hours);

/// Thread: round() one call at a time, on a worker; the rest any.
class Retention {
 public:
  /// `config` passed validate(); its Live values are read at each round.
  Retention(const RetentionConfig& config, const Clock& clock);

  /// Lets the storage delete what has expired, and tells it how full the disk may be. Blocks on the
  /// disk. A round that comes while one runs does nothing.
  void round(const Log& log);
  /// Expired files go at any hour for the next 20 rounds [DELETE_EXPIRED_COMMITLOG].
  void trigger() noexcept { manual_rounds_.store(kManualRounds, std::memory_order_relaxed); }

  std::string hours() const { return format_hours(hours_.load(std::memory_order_relaxed)); }
  /// [deleteWhen] @return false if the text is no list of hours: nothing was changed
  bool set_hours(std::string_view text);

 private:
  static constexpr int kManualRounds = 20;

  bool is_hour(std::int64_t now_ms) const;
  bool take_manual_round() noexcept;
  void report(tenon_status status, const tenon_retention_result& result);

  const RetentionConfig& config_;
  const Clock& clock_;
  std::atomic<HourMask> hours_;
  std::atomic<int> manual_rounds_{0};
  std::atomic<bool> running_{false};
  bool failed_ = false;  ///< the last round; logged on change
};

}  // namespace tenon::broker
