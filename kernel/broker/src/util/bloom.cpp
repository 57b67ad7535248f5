#include "util/bloom.h"

#include <cmath>
#include <cstring>
#include <string>

namespace tenon::broker {
namespace {

std::uint64_t rotate(std::uint64_t x, unsigned by) noexcept {
  return x << by | x >> (64 - by);
}

std::uint64_t mix(std::uint64_t k) noexcept {
  k ^= k >> 33;
  k *= 0xff51afd7ed558ccdu;
  k ^= k >> 33;
  k *= 0xc4ceb9fe1a85ec53u;
  k ^= k >> 33;
  return k;
}

constexpr std::uint64_t kC1 = 0x87c37b91114253d5u;
constexpr std::uint64_t kC2 = 0x4cf5ad432745937fu;

std::uint64_t scramble1(std::uint64_t k) noexcept {
  return rotate(k * kC1, 31) * kC2;
}
std::uint64_t scramble2(std::uint64_t k) noexcept {
  return rotate(k * kC2, 33) * kC1;
}

}  // namespace

std::uint64_t murmur3_low(std::string_view bytes) noexcept {
  std::uint64_t h1 = 0;
  std::uint64_t h2 = 0;
  const std::size_t length = bytes.size();
  for (; bytes.size() >= 16; bytes.remove_prefix(16)) {
    std::uint64_t k[2];
    std::memcpy(k, bytes.data(), sizeof k);  // little-endian, as all machines we run on
    h1 = (rotate(h1 ^ scramble1(k[0]), 27) + h2) * 5 + 0x52dce729;
    h2 = (rotate(h2 ^ scramble2(k[1]), 31) + h1) * 5 + 0x38495ab5;
  }
  std::uint64_t tail[2] = {0, 0};
  if (!bytes.empty()) {
    std::memcpy(tail, bytes.data(), bytes.size());
  }
  if (bytes.size() > 8) {
    h2 ^= scramble2(tail[1]);
  }
  if (!bytes.empty()) {
    h1 ^= scramble1(tail[0]);
  }
  h1 ^= length;
  h2 ^= length;
  h1 += h2;
  h2 += h1;
  h1 = mix(h1);
  h2 = mix(h2);
  return h1 + h2;
}

Bloom::Bloom(std::uint32_t error_pct, std::uint32_t expected) {
  const double rate = error_pct / 100.0;
  hash_count_ = static_cast<std::uint32_t>(std::ceil(std::log(rate) / std::log(0.5)));
  const double per_entry = std::log(1 / rate) / std::log(2.0) * (1 / std::log(2.0));
  const auto bits = static_cast<std::uint32_t>(std::ceil(expected * per_entry));
  bit_count_ = (bits + 7) / 8 * 8;
}

std::vector<std::uint32_t> Bloom::positions(std::string_view group, std::string_view topic) const {
  const std::uint64_t h = murmur3_low(std::string(group) + "#" + std::string(topic));
  const auto low = static_cast<std::uint32_t>(h);
  const auto high = static_cast<std::uint32_t>(h >> 32);
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 1; i <= hash_count_; ++i) {
    auto c = static_cast<std::int32_t>(low + i * high);
    if (c < 0) {
      c = ~c;
    }
    out.push_back(static_cast<std::uint32_t>(c) % bit_count_);
  }
  return out;
}

}  // namespace tenon::broker
