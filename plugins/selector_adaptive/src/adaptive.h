// What selectors that look at brokers have in common: the plug-in around a rule.
#pragma once

#include "broker_table.h"

#include "tenon/plugin.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon::selector_adaptive {

/// Queues of a topic as one select() sees them: from the one whose turn it is on, without those of
/// the broker that has just failed.
class Choice {
 public:
  Choice(const tenon_queue_set& set, const tenon_select& how, TopicState& topic) noexcept
      : queues_(set.queues, set.stride, set.count),
        count_(set.count),
        avoid_(plugin::text(how.last_broker)),
        turn_(topic.turn.fetch_add(1, std::memory_order_relaxed)),
        topic_(topic) {}

  std::uint32_t count() const noexcept { return count_; }
  std::uint32_t turn() const noexcept { return turn_; }
  /// Index of the queue that is `i` behind the one whose turn it is.
  std::uint32_t at(std::uint32_t i) const noexcept { return (turn_ + i) % count_; }
  bool allowed(std::uint32_t queue) const noexcept {
    return avoid_.empty() || plugin::text(queues_[queue].broker) != avoid_;
  }
  BrokerState& broker(std::uint32_t queue) const noexcept { return *topic_.by_queue[queue]; }

 private:
  plugin::Strided<const tenon_queue_ref> queues_;
  std::uint32_t count_;
  std::string_view avoid_;
  std::uint32_t turn_;
  TopicState& topic_;
};

/// A Rule has kAbout; `select(choice)` gives the index of a queue, or nothing when only the failed
/// broker has queues: then it is the one whose turn it is; `chosen(broker, flags)` and
/// `report(broker, report)` keep what it knows of brokers. Thread: any.
template <class Rule>
struct Adaptive {
  static constexpr plugin::About kAbout = Rule::kAbout;
  using Interfaces = plugin::Offers<plugin::QueueSelector>;

  explicit Adaptive(plugin::Host&) {}

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
    const Choice choice(*set, *how, *topic);
    const std::optional<std::uint32_t> best = Rule::select(choice);
    const std::uint32_t queue = best.value_or(choice.at(0));
    Rule::chosen(choice.broker(queue), how->flags);
    return static_cast<std::int32_t>(queue);
  }

  void report(const tenon_send_report* reports, std::size_t stride, std::size_t n) {
    const plugin::Strided<const tenon_send_report> all(reports, stride, n);
    for (std::size_t i = 0; i < n; ++i) {
      Rule::report(table_.of(plugin::text(all[i].broker)), all[i]);
    }
  }

 private:
  BrokerTable table_;
};

}  // namespace tenon::selector_adaptive
