// Values of the metrics service (tenon.host.metrics/1) at one moment.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tenon::host {

enum class MetricKind : std::uint32_t { kCounter = 1, kGauge = 2, kHistogram = 3 };

/// One series.
struct MetricSample {
  std::string name{};
  MetricKind kind = MetricKind::kCounter;
  std::vector<std::pair<std::string, std::string>> labels{};
  double value = 0;                     ///< of a histogram: the sum
  std::vector<double> bounds{};         ///< upper bounds of a histogram
  std::vector<std::uint64_t> counts{};  ///< per bucket, one more than bounds
};

}  // namespace tenon::host
