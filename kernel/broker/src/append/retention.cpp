#include "append/retention.h"

#include "tenon/base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>

namespace tenon::broker {

namespace {

constexpr std::int64_t kHourMs = 3'600'000;

std::string_view trim(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

}  // namespace

Result<HourMask> parse_hours(std::string_view text) {
  HourMask hours = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    const std::string_view part = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    unsigned hour = 0;
    const auto [stop, ec] = std::from_chars(part.data(), part.data() + part.size(), hour);
    if (ec != std::errc{} || stop != part.data() + part.size() || hour > 23) {
      return Error{Errc::kInvalid, fmt::format("\"{}\" is no hour from 0 to 23", part)};
    }
    hours |= HourMask{1} << hour;
  }
  return hours;
}

std::string format_hours(HourMask hours) {
  std::string out;
  for (unsigned hour = 0; hour < 24; ++hour) {
    if ((hours >> hour & 1u) != 0) {
      out += fmt::format("{}{:02}", out.empty() ? "" : ";", hour);
    }
  }
  return out;
}

Retention::Retention(const RetentionConfig& config, const Clock& clock)
    : config_(config),
      clock_(clock),
      hours_(parse_hours(config.delete_when).value()) {}

bool Retention::set_hours(std::string_view text) {
  const auto hours = parse_hours(text);
  if (hours.has_error()) {
    return false;
  }
  hours_.store(hours.value(), std::memory_order_relaxed);
  return true;
}

/// Local time, true for the whole hour (spec: store §11.1).
bool Retention::is_hour(std::int64_t now_ms) const {
  const auto seconds = static_cast<std::time_t>(now_ms / 1000);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  return (hours_.load(std::memory_order_relaxed) >> static_cast<unsigned>(local.tm_hour) & 1u) != 0;
}

bool Retention::take_manual_round() noexcept {
  int left = manual_rounds_.load(std::memory_order_relaxed);
  while (left > 0 &&
         !manual_rounds_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
  }
  return left > 0;
}

void Retention::round(const Log& log) {
  const auto& storage = log.storage();
  if (storage->retention == nullptr || running_.exchange(true, std::memory_order_acquire)) {
    return;
  }
  tenon_retention policy{};
  policy.size = sizeof policy;
  policy.now_ms = clock_.wall_ms();
  policy.keep_ms = config_.file_reserved_hours * kHourMs;
  policy.max_files = config_.delete_files_max;
  policy.disk_clean_pct = config_.disk_clean_pct;
  policy.disk_force_pct = config_.clean_forcibly ? config_.disk_force_pct : 0;
  policy.disk_full_pct = config_.disk_full_pct;
  if (is_hour(policy.now_ms)) {
    policy.flags |= TENON_RETENTION_DELETE_HOUR;
  }
  if (take_manual_round()) {
    policy.flags |= TENON_RETENTION_MANUAL;
  }
  tenon_retention_result result{};
  result.size = sizeof result;
  report(storage->retention(storage.self, &policy, &result, nullptr), result);
  running_.store(false, std::memory_order_release);
}

void Retention::report(tenon_status status, const tenon_retention_result& result) {
  const bool failed = status < 0;
  if (failed && !failed_) {
    log_warn("broker", "the storage cannot delete what has expired status={}", status);
  } else if (!failed && result.files > 0) {
    log_info("broker",
             "expired files deleted files={} bytes={} min_offset={} disk_used_pct={:.2f}",
             result.files,
             result.bytes,
             result.min_phys,
             result.disk_pct_x100 / 100.0);
  }
  failed_ = failed;
}

}  // namespace tenon::broker
