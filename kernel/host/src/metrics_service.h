// tenon.host.metrics/1 of one instance: cells that the plug-in updates without a call.
#pragma once

#include "tenon/abi/host.h"
#include "tenon/host/metrics.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::host {

/// Thread: any.
class InstanceMetrics {
 public:
  static constexpr std::size_t kSeriesMax = 4096;
  static constexpr std::size_t kHistogramMax = 256;

  using Labels = std::vector<std::pair<std::string, std::string>>;

  /// A counter or gauge: the same name and labels give the same cell. *error says why not.
  tenon_status cell(MetricKind kind,
                    std::string_view name,
                    Labels labels,
                    std::uint64_t** out,
                    std::string& error);
  tenon_status histogram(std::string_view name,
                         Labels labels,
                         std::vector<double> bounds,
                         std::uint64_t* id,
                         std::string& error);
  void observe(std::uint64_t id, const double* values, std::size_t n) noexcept;

  std::vector<MetricSample> snapshot() const;

 private:
  struct alignas(64) Cell {
    std::uint64_t word = 0;
  };
  struct Histogram {
    std::vector<double> bounds{};
    std::unique_ptr<std::atomic<std::uint64_t>[]> counts {};
    std::atomic<double> sum{0};
  };
  struct Series {
    std::string name{};
    MetricKind kind = MetricKind::kCounter;
    Labels labels{};
    Cell* cell = nullptr;
    std::uint64_t histogram = 0;
  };
  /// Existing series or a new one; null with a status if it cannot be had. With mutex_ held.
  Series* find_or_add(MetricKind kind,
                      std::string_view name,
                      Labels& labels,
                      tenon_status& status,
                      std::string& error);

  mutable std::mutex mutex_;
  std::deque<Series> series_;
  std::deque<Cell> cells_;
  std::deque<Histogram> histograms_;
  std::array<std::atomic<Histogram*>, kHistogramMax>
      by_id_{};  // id is index + 1; read without the lock
};

}  // namespace tenon::host
