// tenon.selector.least-in-flight: the broker with the fewest sends that are not answered yet; among
// equals, the next queue in turn. One-way sends are never answered and do not count.
#include "broker_table.h"

#include <limits>

namespace {

using tenon::selector_adaptive::BrokerTable;
using tenon::selector_adaptive::TopicState;

struct LeastInFlight {
  static constexpr tenon::plugin::About kAbout{.id = "tenon.selector.least-in-flight",
                                               .version = "1.0.0",
                                               .name = "least in flight",
                                               .vendor = "Tenon",
                                               .doc = "the broker with the fewest open sends"};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueSelector>;

  explicit LeastInFlight(tenon::plugin::Host&) {}

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
    std::uint32_t best = turn % set->count;  // stays if only the failed broker has queues
    std::int32_t least = std::numeric_limits<std::int32_t>::max();
    for (std::uint32_t i = 0; i < set->count; ++i) {
      const std::uint32_t k = (turn + i) % set->count;
      const std::int32_t open = topic->by_queue[k]->in_flight.load(std::memory_order_relaxed);
      if (open < least && (avoid.empty() || tenon::plugin::text(queues[k].broker) != avoid)) {
        least = open;
        best = k;
      }
    }
    if ((how->flags & TENON_SELECT_ONE_WAY) == 0) {
      topic->by_queue[best]->in_flight.fetch_add(1, std::memory_order_relaxed);
    }
    return static_cast<std::int32_t>(best);
  }

  void report(const tenon_send_report* reports, std::size_t stride, std::size_t n) {
    tenon::selector_adaptive::for_each_report(
        reports, stride, n, [this](const tenon_send_report& r) {
          if (r.outcome > TENON_SEND_REFUSED) {
            return;  // of a probe, which select() has not counted
          }
          // Sends to a queue that the program chose are reported too: never below zero.
          auto& open = table_.of(tenon::plugin::text(r.broker)).in_flight;
          std::int32_t now = open.load(std::memory_order_relaxed);
          while (now > 0 && !open.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) {
          }
        });
  }

 private:
  BrokerTable table_;
};

}  // namespace

TENON_PLUGINS(LeastInFlight);
