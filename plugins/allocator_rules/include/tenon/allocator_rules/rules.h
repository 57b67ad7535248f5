// Which of n queues belong to member i of c, as RocketMQ's strategies have it (spec: client §5.7).
// All functions are pure. Thread: any.
#pragma once

#include "tenon/abi/entry.h"
#include "tenon/abi/queue_allocator.h"
#include "tenon/plugin/views.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon::allocator {

/// Takes the indexes that an allocation yields; counts those that found no room.
class Indexes {
 public:
  Indexes(std::uint32_t* out, std::size_t cap) noexcept
      : out_(out),
        cap_(cap) {}
  void add(std::uint32_t index) noexcept {
    if (count_ < cap_) {
      out_[count_] = index;
    }
    ++count_;
  }
  std::size_t count() const noexcept { return count_; }
  bool overflow() const noexcept { return count_ > cap_; }

 private:
  std::uint32_t* out_;
  std::size_t cap_;
  std::size_t count_ = 0;
};

/// AVG: consecutive shares, the first n mod c members get one more. Gives positions to `take`.
template <class Take>
void averagely(std::int64_t n, std::int64_t c, std::int64_t i, Take&& take) {
  const std::int64_t mod = n % c;
  const std::int64_t size = n <= c ? 1 : n / c + (i < mod ? 1 : 0);
  const std::int64_t start = mod > 0 && i < mod ? i * size : i * size + mod;
  // Trap: with fewer queues than members the range ends before it begins for the later ones.
  for (std::int64_t k = start; k < start + size && k < n; ++k) {
    take(static_cast<std::uint32_t>(k));
  }
}

/// AVG_BY_CIRCLE: dealt out one by one.
template <class Take>
void circle(std::int64_t n, std::int64_t c, std::int64_t i, Take&& take) {
  for (std::int64_t k = i; k < n; k += c) {
    take(static_cast<std::uint32_t>(k));
  }
}

/// What every strategy checks and reports in the same way. `rule(Indexes&)` runs if there is
/// something to share and this member is one of the group.
template <class Rule>
tenon_status allocate(const tenon_allocate* in,
                      std::uint32_t* out,
                      std::size_t cap,
                      std::size_t* n,
                      tenon_error* err,
                      Rule&& rule) {
  *n = 0;
  if (in->client_count == 0) {
    return tenon_fail_str(
        err, TENON_INVALID, plugin::str("allocation for a group without members"));
  }
  if (in->self_index >= in->client_count || in->queue_count == 0) {
    return TENON_OK;  // not a member (yet): owns nothing
  }
  Indexes indexes(out, cap);
  rule(indexes);
  *n = indexes.count();
  return indexes.overflow()
             ? tenon_fail_str(
                   err, TENON_SMALL_BUFFER, plugin::str("room for fewer queues than given"))
             : TENON_OK;
}

inline plugin::Strided<const tenon_queue_ref> queues(const tenon_allocate* in) noexcept {
  return {in->queues, in->stride, in->queue_count};
}
inline std::span<const tenon_str> clients(const tenon_allocate* in) noexcept {
  return {in->clients, in->client_count};
}

}  // namespace tenon::allocator
