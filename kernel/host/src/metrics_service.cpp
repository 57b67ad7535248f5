#include "metrics_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tenon::host {
namespace {

bool well_formed_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return !name.empty() && name.size() <= 100 && letter(name.front()) &&
         std::all_of(
             name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

InstanceMetrics::Series* InstanceMetrics::find_or_add(MetricKind kind,
                                                      std::string_view name,
                                                      Labels& labels,
                                                      tenon_status& status,
                                                      std::string& error) {
  if (!well_formed_name(name)) {
    error = fmt::format("metric name \"{}\" must be of a-z, 0-9 and _", name);
    status = TENON_INVALID;
    return nullptr;
  }
  for (Series& s : series_) {
    if (s.name != name) {
      continue;
    }
    if (s.kind != kind) {
      error = fmt::format("metric {} exists with another kind", name);
      status = TENON_CONFLICT;
      return nullptr;
    }
    if (s.labels == labels) {
      return &s;
    }
  }
  if (series_.size() >= kSeriesMax) {
    error = fmt::format(
        "metric {}: the instance has {} series, more are not allowed", name, kSeriesMax);
    status = TENON_LIMIT;
    return nullptr;
  }
  return &series_.emplace_back(Series{std::string(name), kind, std::move(labels), nullptr, 0});
}

tenon_status InstanceMetrics::cell(MetricKind kind,
                                   std::string_view name,
                                   Labels labels,
                                   std::uint64_t** out,
                                   std::string& error) {
  const std::scoped_lock lock(mutex_);
  tenon_status status = TENON_OK;
  Series* s = find_or_add(kind, name, labels, status, error);
  if (s == nullptr) {
    return status;
  }
  if (s->cell == nullptr) {
    s->cell = &cells_.emplace_back();
  }
  *out = &s->cell->word;
  return TENON_OK;
}

tenon_status InstanceMetrics::histogram(std::string_view name,
                                        Labels labels,
                                        std::vector<double> bounds,
                                        std::uint64_t* id,
                                        std::string& error) {
  if (!std::is_sorted(bounds.begin(), bounds.end())) {
    error = fmt::format("metric {}: bounds must ascend", name);
    return TENON_INVALID;
  }
  const std::scoped_lock lock(mutex_);
  tenon_status status = TENON_OK;
  Series* s = find_or_add(MetricKind::kHistogram, name, labels, status, error);
  if (s == nullptr) {
    return status;
  }
  if (s->histogram == 0) {
    if (histograms_.size() >= kHistogramMax) {
      series_.pop_back();
      error = fmt::format("metric {}: at most {} histograms", name, kHistogramMax);
      return TENON_LIMIT;
    }
    Histogram& h = histograms_.emplace_back();
    h.counts = std::make_unique<std::atomic<std::uint64_t>[]>(bounds.size() + 1);
    h.bounds = std::move(bounds);
    s->histogram = histograms_.size();
    by_id_[s->histogram - 1].store(&h, std::memory_order_release);
  }
  *id = s->histogram;
  return TENON_OK;
}

void InstanceMetrics::observe(std::uint64_t id, const double* values, std::size_t n) noexcept {
  Histogram* h =
      id >= 1 && id <= kHistogramMax ? by_id_[id - 1].load(std::memory_order_acquire) : nullptr;
  if (h == nullptr) {
    return;
  }
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto bucket =
        std::lower_bound(h->bounds.begin(), h->bounds.end(), values[i]) - h->bounds.begin();
    h->counts[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
    sum += values[i];
  }
  h->sum.fetch_add(sum, std::memory_order_relaxed);
}

std::vector<MetricSample> InstanceMetrics::snapshot() const {
  const std::scoped_lock lock(mutex_);
  std::vector<MetricSample> out;
  out.reserve(series_.size());
  for (const Series& s : series_) {
    MetricSample sample{s.name, s.kind, s.labels, 0, {}, {}};
    if (s.kind == MetricKind::kHistogram) {
      const Histogram& h = histograms_[s.histogram - 1];
      sample.value = h.sum.load(std::memory_order_relaxed);
      sample.bounds = h.bounds;
      for (std::size_t i = 0; i <= h.bounds.size(); ++i) {
        sample.counts.push_back(h.counts[i].load(std::memory_order_relaxed));
      }
    } else {
      const std::uint64_t word =
          std::atomic_ref<std::uint64_t>(s.cell->word).load(std::memory_order_relaxed);
      sample.value = s.kind == MetricKind::kGauge
                         ? static_cast<double>(std::bit_cast<std::int64_t>(word))
                         : static_cast<double>(word);
    }
    out.push_back(std::move(sample));
  }
  return out;
}

}  // namespace tenon::host
