// tenon.selector.random: any queue with the same probability; a retry avoids the broker that failed
// (spec: client §4.10).
#include "tenon/plugin.hpp"

#include <cstdint>
#include <random>

namespace {

/// SplitMix64: one multiplication chain per number, state in one word.
std::uint64_t next_random(std::uint64_t& state) noexcept {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

struct Random {
  static constexpr tenon::plugin::About kAbout{.id = "tenon.selector.random",
                                               .version = "1.0.0",
                                               .name = "random",
                                               .vendor = "Tenon",
                                               .doc = "any queue with the same probability"};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueSelector>;

  explicit Random(tenon::plugin::Host&)
      : seed_(std::uint64_t{std::random_device{}()} << 32 | std::random_device{}()) {}

  std::int32_t select(const tenon_queue_set* set, const tenon_select* how) noexcept {
    if (set->count == 0) {
      return TENON_EMPTY;
    }
    thread_local std::uint64_t state = seed_ ^ reinterpret_cast<std::uintptr_t>(&state);
    const std::uint32_t first = below(state, set->count);
    const std::string_view avoid = tenon::plugin::text(how->last_broker);
    if (avoid.empty()) {
      return static_cast<std::int32_t>(first);
    }
    const tenon::plugin::Strided<const tenon_queue_ref> queues(
        set->queues, set->stride, set->count);
    std::uint32_t others = 0;
    for (const tenon_queue_ref& queue : queues) {
      others += tenon::plugin::text(queue.broker) != avoid ? 1 : 0;
    }
    std::uint32_t left = others == 0 ? 0 : below(state, others);
    for (std::uint32_t k = 0; others != 0; ++k) {
      if (tenon::plugin::text(queues[k].broker) != avoid && left-- == 0) {
        return static_cast<std::int32_t>(k);
      }
    }
    return static_cast<std::int32_t>(first);
  }

 private:
  static std::uint32_t below(std::uint64_t& state, std::uint32_t bound) noexcept {
    return static_cast<std::uint32_t>((next_random(state) >> 32) * bound >> 32);
  }

  std::uint64_t seed_;
};

}  // namespace

TENON_PLUGINS(Random);
