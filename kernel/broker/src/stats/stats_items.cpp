#include "stats/stats_items.h"

#include <charconv>

namespace tenon::broker {
namespace {

struct Rule {
  std::int64_t period_ms = 0;
  std::size_t kept = 0;
};
constexpr std::array<Rule, 3> kRules{Rule{10'000, 7}, Rule{600'000, 7}, Rule{3'600'000, 25}};

constexpr std::string_view kSchedule = "SCHEDULE_TOPIC_XXXX";
constexpr std::string_view kScheduleGroup = "SCHEDULE_CONSUMER";

std::string joined(std::string_view name, std::string_view key) {
  std::string out(name);
  out.push_back(' ');
  out += key;
  return out;
}

void append_number(std::string& out, std::int32_t n) {
  std::array<char, 12> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), n).ptr;
  out.append(digits.data(), end);
}

}  // namespace

StatsItem& StatsItems::item(std::string_view name, std::string_view key) {
  std::string full = joined(name, key);
  const std::scoped_lock lock(mutex_);
  auto& slot = items_[std::move(full)];
  if (slot == nullptr) {
    slot = std::make_unique<StatsItem>();
  }
  return *slot;
}

std::optional<StatsItems::Data> StatsItems::data(std::string_view name,
                                                 std::string_view key) const {
  const std::string full = joined(name, key);
  const std::scoped_lock lock(mutex_);
  const auto it = items_.find(full);
  if (it == items_.end()) {
    return std::nullopt;
  }
  const auto& samples = it->second->samples_;
  return Data{window_of(samples[kMinute]), window_of(samples[kHour]), window_of(samples[kDay])};
}

void StatsItems::take(StatsItem& item, std::size_t window, std::int64_t now_ms) {
  auto& samples = item.samples_[window];
  if (samples.empty()) {
    // What was counted before the first sample counts too.
    samples.push_back({now_ms - kRules[window].period_ms, 0, 0});
  }
  samples.push_back({now_ms,
                     item.value_.load(std::memory_order_relaxed),
                     item.times_.load(std::memory_order_relaxed)});
  while (samples.size() > kRules[window].kept) {
    samples.pop_front();
  }
}

void StatsItems::sample(std::int64_t now_ms) {
  const std::scoped_lock lock(mutex_);
  const bool hour = now_ms - hour_at_ms_ >= kRules[kHour].period_ms;
  const bool day = now_ms - day_at_ms_ >= kRules[kDay].period_ms;
  for (auto& [name, item] : items_) {
    take(*item, kMinute, now_ms);
    if (hour) {
      take(*item, kHour, now_ms);
    }
    if (day) {
      take(*item, kDay, now_ms);
    }
  }
  hour_at_ms_ = hour ? now_ms : hour_at_ms_;
  day_at_ms_ = day ? now_ms : day_at_ms_;
}

StatsItems::Window StatsItems::window_of(const std::deque<StatsItem::Sample>& samples) {
  Window w;
  if (samples.empty()) {
    return w;
  }
  const auto& first = samples.front();
  const auto& last = samples.back();
  w.sum = last.value - first.value;
  const std::uint64_t times = last.times - first.times;
  if (last.at_ms > first.at_ms) {
    w.tps = static_cast<double>(w.sum) * 1000.0 / static_cast<double>(last.at_ms - first.at_ms);
  }
  if (times > 0) {
    w.average = static_cast<double>(w.sum) / static_cast<double>(times);
  }
  return w;
}

void StatsView::put(std::string_view topic, std::uint64_t messages, std::uint64_t bytes) {
  auto it = puts_.find(topic);
  if (it == puts_.end()) {
    it = puts_.emplace(std::string(topic), Put{}).first;
    it->second.nums = &items_.item(stat::kTopicPutNums, topic);
    it->second.size = &items_.item(stat::kTopicPutSize, topic);
  }
  it->second.nums->add(messages, 1);
  it->second.size->add(bytes, 1);
}

void StatsView::got(const Got& g) {
  key_.clear();
  append_number(key_, g.queue_id);
  key_.push_back('@');
  key_.append(g.topic).push_back('@');
  key_.append(g.group);
  auto it = gets_.find(key_);
  if (it == gets_.end()) {
    it = gets_.emplace(key_, Get{}).first;
    const std::string_view of_group = std::string_view(key_).substr(key_.find('@') + 1);
    it->second.nums = &items_.item(stat::kGroupGetNums, of_group);
    it->second.size = &items_.item(stat::kGroupGetSize, of_group);
    it->second.latency = &items_.item(stat::kGroupGetLatency, key_);
  }
  it->second.nums->add(g.messages, 1);
  it->second.size->add(g.bytes, 1);
  it->second.latency->add(g.took_ms, 1);
  if (g.from_disk) {
    const std::string_view of_group = std::string_view(key_).substr(key_.find('@') + 1);
    items_.item(stat::kGroupDiskNums, of_group).add(g.messages, 1);
    items_.item(stat::kGroupDiskSize, of_group).add(g.bytes, 1);
  }
}

void StatsView::delayed(std::int32_t queue_id, std::uint64_t bytes) {
  const auto [it, made] = delayed_.try_emplace(queue_id);
  if (made) {
    key_.assign(kSchedule).push_back('@');
    append_number(key_, queue_id);
    it->second = {&items_.item(stat::kQueuePutNums, key_), &items_.item(stat::kQueuePutSize, key_)};
  }
  it->second.nums->add(1);
  it->second.size->add(bytes);
}

void StatsView::delivered(std::int32_t queue_id, std::uint64_t bytes) {
  const auto [it, made] = delivered_.try_emplace(queue_id);
  if (made) {
    key_.assign(kSchedule).push_back('@');
    append_number(key_, queue_id);
    key_.append("@").append(kScheduleGroup);
    it->second = {&items_.item(stat::kQueueGetNums, key_), &items_.item(stat::kQueueGetSize, key_)};
    key_.assign(kSchedule).append("@").append(kScheduleGroup);
    delivered_all_ = {&items_.item(stat::kGroupGetNums, key_),
                      &items_.item(stat::kGroupGetSize, key_)};
  }
  it->second.nums->add(1);
  it->second.size->add(bytes);
  delivered_all_.nums->add(1);
  delivered_all_.size->add(bytes);
}

}  // namespace tenon::broker
