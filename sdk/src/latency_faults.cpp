#include "latency_faults.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

namespace tenon::sdk::detail {
namespace {

struct Step {
  std::uint64_t latency_ms;
  std::uint64_t unavailable_ms;
};
constexpr std::array<Step, 7> kClassicSteps{{{50, 0},
                                             {100, 0},
                                             {550, 30'000},
                                             {1'000, 60'000},
                                             {2'000, 120'000},
                                             {3'000, 180'000},
                                             {15'000, 600'000}}};
constexpr std::array<Step, 7> kQuickSteps{{{50, 0},
                                           {100, 0},
                                           {550, 2'000},
                                           {1'800, 5'000},
                                           {3'000, 6'000},
                                           {5'000, 10'000},
                                           {15'000, 30'000}}};
/// What a failure counts as, however quick it was.
constexpr std::uint64_t kClassicIsolationMs = 30'000;
constexpr std::uint64_t kQuickIsolationMs = 10'000;

}  // namespace

std::uint64_t LatencyFaults::unavailable_ms(std::uint64_t latency_ms) const noexcept {
  const auto& steps = table_ == FaultTolerance::kQuick ? kQuickSteps : kClassicSteps;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (latency_ms >= step->latency_ms) {
      return step->unavailable_ms;
    }
  }
  return 0;
}

void LatencyFaults::update(const std::string& broker,
                           std::uint64_t latency_ms,
                           bool failed,
                           std::uint64_t now_ns) {
  const bool quick = table_ == FaultTolerance::kQuick;
  const std::uint64_t counted =
      failed ? (quick ? kQuickIsolationMs : kClassicIsolationMs) : latency_ms;
  const std::uint64_t available_ns = now_ns + unavailable_ms(counted) * 1'000'000;
  const std::scoped_lock lock(mutex_);
  Entry& entry = entries_[broker];
  entry.latency_ms = latency_ms;
  entry.available_ns = quick ? std::max(entry.available_ns, available_ns) : available_ns;
}

bool LatencyFaults::available(std::string_view broker, std::uint64_t now_ns) const {
  const std::scoped_lock lock(mutex_);
  const auto it = entries_.find(broker);
  return it == entries_.end() || now_ns >= it->second.available_ns;
}

std::size_t LatencyFaults::pick(const TopicInfo& info,
                                std::atomic<std::uint32_t>& counter,
                                std::uint64_t now_ns) {
  const std::size_t n = info.publish.size();
  const std::size_t first = counter.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t at = (first + i) % n;
    if (available(info.brokers[info.publish[at].broker].name, now_ns)) {
      return at;
    }
  }
  const std::string broker = better_of_the_bad(now_ns);
  std::vector<std::size_t> of_broker;
  for (std::size_t i = 0; i < n; ++i) {
    if (info.brokers[info.publish[i].broker].name == broker) {
      of_broker.push_back(i);
    }
  }
  if (!of_broker.empty()) {
    return of_broker[first % of_broker.size()];
  }
  const std::scoped_lock lock(mutex_);
  entries_.erase(broker);  // it does not serve this topic any more
  return first % n;
}

std::string LatencyFaults::better_of_the_bad(std::uint64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::tuple<bool, std::uint64_t, std::uint64_t, std::string>> sorted;
  for (const auto& [name, entry] : entries_) {
    sorted.emplace_back(now_ns < entry.available_ns, entry.latency_ms, entry.available_ns, name);
  }
  if (sorted.empty()) {
    return {};
  }
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return std::get<3>(sorted[half == 0 ? 0 : worst_counter_++ % half]);
}

}  // namespace tenon::sdk::detail
