// tenon.selector.latency: of the next two brokers in turn, the one that has answered faster of late.
// Failures count as slow. One send in kLookAgain goes where it is its turn, so that a broker that
// has recovered is noticed.
#include "adaptive.h"

#include <algorithm>

namespace {

using tenon::selector_adaptive::BrokerState;
using tenon::selector_adaptive::Choice;

constexpr std::uint32_t kLookAgain = 32;
constexpr std::uint32_t kWeight = 8;  ///< a new value counts one part in so many
constexpr std::uint32_t kFailureUs = 1'000'000;
constexpr std::uint32_t kLatencyMaxMs = 60'000;

struct Latency {
  static constexpr tenon::plugin::About kAbout{.id = "tenon.selector.latency",
                                               .version = "1.0.0",
                                               .name = "latency",
                                               .vendor = "Tenon",
                                               .doc = "the faster of the next two brokers"};

  static std::optional<std::uint32_t> select(const Choice& choice) noexcept {
    std::optional<std::uint32_t> first;
    for (std::uint32_t i = 0; i < choice.count(); ++i) {
      const std::uint32_t k = choice.at(i);
      if (!choice.allowed(k)) {
        continue;
      }
      if (!first) {
        first = k;
        if (choice.turn() % kLookAgain == 0) {
          break;
        }
      } else if (&choice.broker(k) != &choice.broker(*first)) {
        return cost(choice.broker(k)) < cost(choice.broker(*first)) ? k : *first;
      }
    }
    return first;
  }

  static void chosen(BrokerState&, std::uint32_t) noexcept {}

  static void report(BrokerState& broker, const tenon_send_report& r) noexcept {
    std::uint32_t us = std::min(r.latency_ms, kLatencyMaxMs) * 1'000 + 1;
    if (r.outcome != TENON_SEND_OK && r.outcome != TENON_SEND_REACHABLE) {
      us = std::max(us, kFailureUs);
    }
    const std::uint32_t old = cost(broker);
    // Two reports at the same time: one of them may be lost, which does not matter.
    broker.latency_us.store(old == 0 ? us : old - old / kWeight + us / kWeight,
                            std::memory_order_relaxed);
  }

 private:
  static std::uint32_t cost(const BrokerState& broker) noexcept {
    return broker.latency_us.load(std::memory_order_relaxed);
  }
};

}  // namespace

TENON_PLUGINS(tenon::selector_adaptive::Adaptive<Latency>);
