#include "stats/stats.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::broker {
namespace {

constexpr std::size_t kSamplesKept = 601;  ///< ten minutes at one per second

std::uint64_t value_of(const Stats::Totals& t, Stats::Rate rate) {
  switch (rate) {
    case Stats::Rate::kPut:
      return t.put_count;
    case Stats::Rate::kFound:
      return t.get_found;
    case Stats::Rate::kMiss:
      return t.get_miss;
    case Stats::Rate::kTotal:
      return t.get_found + t.get_miss;
    case Stats::Rate::kTransferred:
      return t.get_count;
  }
  return 0;
}

}  // namespace

void ThreadStats::put_took(std::uint64_t ms, std::uint64_t messages) noexcept {
  std::size_t i = 0;
  while (i < kTimeClasses.size() && ms > kTimeClasses[i]) {
    ++i;
  }
  add(put_times[i], messages);
  raise(put_max_ms, ms);
}

ThreadStats& Stats::add_thread() {
  const std::scoped_lock lock(mutex_);
  return threads_.emplace_back();
}

Stats::Totals Stats::totals() const {
  Totals t;
  const std::scoped_lock lock(mutex_);
  for (const ThreadStats& s : threads_) {
    t.put_count += s.put_count.load(std::memory_order_relaxed);
    t.put_bytes += s.put_bytes.load(std::memory_order_relaxed);
    t.put_failed += s.put_failed.load(std::memory_order_relaxed);
    t.get_count += s.get_count.load(std::memory_order_relaxed);
    t.get_bytes += s.get_bytes.load(std::memory_order_relaxed);
    t.get_found += s.get_found.load(std::memory_order_relaxed);
    t.get_miss += s.get_miss.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < t.put_times.size(); ++i) {
      t.put_times[i] += s.put_times[i].load(std::memory_order_relaxed);
    }
    t.put_max_ms = std::max(t.put_max_ms, s.put_max_ms.load(std::memory_order_relaxed));
    t.get_max_ms = std::max(t.get_max_ms, s.get_max_ms.load(std::memory_order_relaxed));
  }
  return t;
}

void Stats::sample(std::int64_t now_ms) {
  const Totals now = totals();
  const std::scoped_lock lock(mutex_);
  samples_.push_back({now_ms, now});
  while (samples_.size() > kSamplesKept) {
    samples_.pop_front();
  }
}

std::string Stats::rates(Rate rate) const {
  const std::scoped_lock lock(mutex_);
  std::string out;
  for (const std::size_t window : {std::size_t{10}, std::size_t{60}, std::size_t{600}}) {
    if (!out.empty() || window != 10) {
      out.push_back(' ');
    }
    if (samples_.size() <= window) {
      // A young broker: the whole time since its first sample, so that tools show something.
      if (samples_.size() < 2) {
        out += "0.0";
        continue;
      }
    }
    const Sample& last = samples_.back();
    const Sample& first = samples_[samples_.size() - 1 - std::min(window, samples_.size() - 1)];
    const double seconds = static_cast<double>(last.at_ms - first.at_ms) / 1000.0;
    const auto delta =
        static_cast<double>(value_of(last.totals, rate) - value_of(first.totals, rate));
    out += fmt::format("{:#}", seconds > 0 ? delta / seconds : 0.0);
  }
  return out;
}

TimeCounts Stats::put_times() const {
  TimeCounts counts = totals().put_times;
  const std::scoped_lock lock(mutex_);
  constexpr std::size_t kMinute = 60;
  if (!samples_.empty()) {
    const std::size_t back = std::min(samples_.size(), kMinute);
    const TimeCounts& before = samples_[samples_.size() - back].totals.put_times;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      counts[i] -= std::min(before[i], counts[i]);
    }
  }
  return counts;
}

void Stats::sample_items(std::int64_t now_ms, std::string_view cluster) {
  const Totals t = totals();
  if (t.put_count > 0) {
    items_.item(stat::kBrokerPutNums, cluster).set(t.put_count, t.put_count);
  }
  if (t.get_count > 0) {
    items_.item(stat::kBrokerGetNums, cluster).set(t.get_count, t.get_found);
  }
  items_.sample(now_ms);
}

void Stats::roll_day() {
  const Totals now = totals();
  const std::scoped_lock lock(mutex_);
  daily_ = {daily_.put_today, now.put_count, daily_.get_today, now.get_count};
}

Stats::Daily Stats::daily() const {
  const std::scoped_lock lock(mutex_);
  return daily_;
}

std::string distribution_text(const TimeCounts& counts) {
  constexpr std::array<std::string_view, kTimeClasses.size() + 1> kNames{"<=0ms",
                                                                         "0~10ms",
                                                                         "10~50ms",
                                                                         "50~100ms",
                                                                         "100~200ms",
                                                                         "200~500ms",
                                                                         "500ms~1s",
                                                                         "1~2s",
                                                                         "2~3s",
                                                                         "3~4s",
                                                                         "4~5s",
                                                                         "5~10s",
                                                                         "10s~"};
  std::string out;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    out += fmt::format("[{}]:{} ", kNames[i], counts[i]);
  }
  return out;
}

std::string percentile_text(const TimeCounts& counts, double part) {
  std::uint64_t all = 0;
  for (const std::uint64_t n : counts) {
    all += n;
  }
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kTimeClasses.size(); ++i) {
    seen += counts[i];
    if (static_cast<double>(seen) >= part * static_cast<double>(all)) {
      return fmt::format("{:.2f}", static_cast<double>(kTimeClasses[i]));
    }
  }
  return fmt::format("{:.2f}", 2.0 * kTimeClasses.back());
}

}  // namespace tenon::broker
