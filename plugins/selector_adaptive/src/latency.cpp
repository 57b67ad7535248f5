// tenon.selector.latency: of the next two brokers in turn, the one that has answered faster of late.
// Failures count as slow. One send in kLookAgain goes where it is its turn, so that a broker that
// has recovered is noticed.
#include "broker_table.h"

#include <algorithm>
#include <limits>

namespace {

using tenon::selector_adaptive::BrokerState;
using tenon::selector_adaptive::BrokerTable;
using tenon::selector_adaptive::TopicState;

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
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueSelector>;

  explicit Latency(tenon::plugin::Host&) {}

  tenon_status set_queues(tenon_queue_set* set) {
    table_.set_queues(set);
    return TENON_OK;
  }
  void drop_queues(tenon_queue_set* set) { BrokerTable::drop_queues(set); }

  std::int32_t select(const tenon_queue_set* set, const tenon_select* how) noexcept {
    auto* topic = static_cast<TopicState*>(set->slot);
    if (topic == nullptr || set->count == 0) {
      return TENON_EMPTY;
    }
    const tenon::plugin::Strided<const tenon_queue_ref> queues(
        set->queues, set->stride, set->count);
    const std::string_view avoid = tenon::plugin::text(how->last_broker);
    const std::uint32_t turn = topic->turn.fetch_add(1, std::memory_order_relaxed);
    std::uint32_t first = set->count;
    for (std::uint32_t i = 0; i < set->count; ++i) {
      const std::uint32_t k = (turn + i) % set->count;
      if (!avoid.empty() && tenon::plugin::text(queues[k].broker) == avoid) {
        continue;
      }
      if (first == set->count) {
        first = k;
        if (turn % kLookAgain == 0) {
          break;
        }
      } else if (topic->by_queue[k] != topic->by_queue[first]) {
        return static_cast<std::int32_t>(cost(*topic, k) < cost(*topic, first) ? k : first);
      }
    }
    // All of one broker, or only the failed one has queues.
    return static_cast<std::int32_t>(first == set->count ? turn % set->count : first);
  }

  void report(const tenon_send_report* reports, std::size_t stride, std::size_t n) {
    tenon::selector_adaptive::for_each_report(
        reports, stride, n, [this](const tenon_send_report& r) {
          BrokerState& broker = table_.of(tenon::plugin::text(r.broker));
          std::uint32_t us = std::min(r.latency_ms, kLatencyMaxMs) * 1'000 + 1;
          if (r.outcome != TENON_SEND_OK && r.outcome != TENON_SEND_REACHABLE) {
            us = std::max(us, kFailureUs);
          }
          const std::uint32_t old = broker.latency_us.load(std::memory_order_relaxed);
          // Two reports at the same time: one of them may be lost, which does not matter.
          broker.latency_us.store(old == 0 ? us : old - old / kWeight + us / kWeight,
                                  std::memory_order_relaxed);
        });
  }

 private:
  static std::uint32_t cost(const TopicState& topic, std::uint32_t queue) noexcept {
    return topic.by_queue[queue]->latency_us.load(std::memory_order_relaxed);
  }

  BrokerTable table_;
};

}  // namespace

TENON_PLUGINS(Latency);
