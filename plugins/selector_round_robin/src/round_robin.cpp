// tenon.selector.round-robin: each topic's queues in turn, from a random start; a retry avoids the
// broker that failed (spec: client §4.8, plug-in ABI §14).
#include "tenon/plugin.hpp"

#include <atomic>
#include <cstdint>
#include <random>

namespace {

/// Position of one topic. Own cache line: several threads send at the same time.
struct alignas(64) Turn {
  std::atomic<std::uint32_t> next{0};
};

struct RoundRobin {
  static constexpr tenon::plugin::About kAbout{.id = "tenon.selector.round-robin",
                                               .version = "1.0.0",
                                               .name = "round robin",
                                               .vendor = "Tenon",
                                               .doc = "the queues of a topic in turn"};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueSelector>;

  explicit RoundRobin(tenon::plugin::Host&) {}

  tenon_status set_queues(tenon_queue_set* set) {
    auto* turn = new Turn;
    turn->next = std::random_device{}();
    set->slot = turn;
    return TENON_OK;
  }
  void drop_queues(tenon_queue_set* set) {
    delete static_cast<Turn*>(set->slot);
    set->slot = nullptr;
  }

  std::int32_t select(const tenon_queue_set* set, const tenon_select* how) noexcept {
    if (set->count == 0) {
      return TENON_EMPTY;
    }
    auto& turn = set->slot != nullptr ? *static_cast<Turn*>(set->slot) : shared_;
    const tenon::plugin::Strided<const tenon_queue_ref> queues(
        set->queues, set->stride, set->count);
    const std::string_view avoid = tenon::plugin::text(how->last_broker);
    for (std::uint32_t tries = avoid.empty() ? 0 : set->count; tries > 0; --tries) {
      const std::uint32_t k = turn.next.fetch_add(1, std::memory_order_relaxed) % set->count;
      if (tenon::plugin::text(queues[k].broker) != avoid) {
        return static_cast<std::int32_t>(k);
      }
    }
    // The first attempt, or only the failed broker has queues: simply the next one.
    return static_cast<std::int32_t>(turn.next.fetch_add(1, std::memory_order_relaxed) %
                                     set->count);
  }

 private:
  Turn shared_;  ///< for a host that announces no queue sets
};

}  // namespace

TENON_PLUGINS(RoundRobin);
