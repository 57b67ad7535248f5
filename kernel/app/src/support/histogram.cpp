#include "support/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tenon::app {

std::size_t Histogram::index(std::uint64_t value) noexcept {
  value = std::min(value, (std::uint64_t{1} << kValueBits) - 1);
  // The first 128 values have a bucket each; from there on each doubling has 128.
  const auto width = static_cast<unsigned>(std::bit_width(value));
  const unsigned shift = width > kPrecisionBits ? width - kPrecisionBits - 1 : 0;
  return (std::size_t{shift} << kPrecisionBits) + static_cast<std::size_t>(value >> shift);
}

std::uint64_t Histogram::bucket_end(std::size_t index) noexcept {
  if (index < std::size_t{2} << kPrecisionBits) {
    return index;
  }
  const std::size_t shift = (index >> kPrecisionBits) - 1;
  const std::uint64_t step = index - (shift << kPrecisionBits);
  return ((step + 1) << shift) - 1;
}

void Histogram::add(const Histogram& other) noexcept {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    counts_[i] += other.counts_[i];
  }
  sum_ += other.sum_;
  max_ = std::max(max(), other.max());
}

std::uint64_t Histogram::count() const noexcept {
  std::uint64_t all = 0;
  for (const auto& n : counts_) {
    all += n.load(std::memory_order_relaxed);
  }
  return all;
}

double Histogram::mean() const noexcept {
  const std::uint64_t n = count();
  return n == 0 ? 0.0 : static_cast<double>(sum_) / static_cast<double>(n);
}

std::uint64_t Histogram::percentile(double percent) const noexcept {
  const auto wanted = static_cast<std::uint64_t>(
      std::ceil(std::clamp(percent, 0.0, 100.0) / 100.0 * static_cast<double>(count())));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= wanted && seen != 0) {
      return std::min(bucket_end(i), max());
    }
  }
  return max();
}

}  // namespace tenon::app
