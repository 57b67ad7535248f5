// The Bloom filter by which a bit map in the extended consume queue says which groups want a message
// (spec: broker §9.7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon::broker {

/// Numbers of bits and hash functions as RocketMQ computes them. Thread: any, immutable.
class Bloom {
 public:
  /// @param error_pct  1..99 [maxErrorRateOfBloomFilter]
  /// @param expected   1..65536 groups of a topic [expectConsumerNumUseFilter]
  Bloom(std::uint32_t error_pct, std::uint32_t expected);

  std::uint32_t hash_count() const noexcept { return hash_count_; }
  std::uint32_t bit_count() const noexcept { return bit_count_; }  ///< a multiple of 8
  std::size_t bytes() const noexcept { return bit_count_ / 8; }

  /// Bits of a group and a topic, in the order of the hash functions.
  std::vector<std::uint32_t> positions(std::string_view group, std::string_view topic) const;

 private:
  std::uint32_t hash_count_;
  std::uint32_t bit_count_;
};

/// Low half of MurmurHash3 x64 128 with seed 0.
std::uint64_t murmur3_low(std::string_view bytes) noexcept;

}  // namespace tenon::broker
