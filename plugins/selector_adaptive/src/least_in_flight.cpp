// tenon.selector.least-in-flight: the broker with the fewest sends that are not answered yet; among
// equals, the next queue in turn. One-way sends are never answered and do not count.
#include "adaptive.h"

#include <limits>

namespace {

using tenon::selector_adaptive::BrokerState;
using tenon::selector_adaptive::Choice;

struct LeastInFlight {
  static constexpr tenon::plugin::About kAbout{.id = "tenon.selector.least-in-flight",
                                               .version = "1.0.0",
                                               .name = "least in flight",
                                               .vendor = "Tenon",
                                               .doc = "the broker with the fewest open sends"};

  static std::optional<std::uint32_t> select(const Choice& choice) noexcept {
    std::optional<std::uint32_t> best;
    std::int32_t least = std::numeric_limits<std::int32_t>::max();
    for (std::uint32_t i = 0; i < choice.count(); ++i) {
      const std::uint32_t k = choice.at(i);
      const std::int32_t open = choice.broker(k).in_flight.load(std::memory_order_relaxed);
      if (open < least && choice.allowed(k)) {
        least = open;
        best = k;
      }
    }
    return best;
  }

  static void chosen(BrokerState& broker, std::uint32_t flags) noexcept {
    if ((flags & TENON_SELECT_ONE_WAY) == 0) {
      broker.in_flight.fetch_add(1, std::memory_order_relaxed);
    }
  }

  static void report(BrokerState& broker, const tenon_send_report& r) noexcept {
    if (r.outcome > TENON_SEND_REFUSED) {
      return;  // of a probe, which chosen() has not counted
    }
    // Sends to a queue that the program chose are reported too: never below zero.
    std::int32_t now = broker.in_flight.load(std::memory_order_relaxed);
    while (now > 0 &&
           !broker.in_flight.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) {
    }
  }
};

}  // namespace

TENON_PLUGINS(tenon::selector_adaptive::Adaptive<LeastInFlight>);
