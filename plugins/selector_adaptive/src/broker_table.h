// What selectors that look at brokers know of them, shared by all topics of a client.
#pragma once

#include "tenon/plugin.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::selector_adaptive {

/// Own cache line: several threads send and get answers at the same time.
struct alignas(64) BrokerState {
  std::atomic<std::uint32_t> latency_us{0};  ///< smoothed; 0: nothing known yet
  std::atomic<std::int32_t> in_flight{0};
};

/// Queues of one topic with the brokers behind them, so that select() looks nothing up.
struct TopicState {
  std::vector<BrokerState*> by_queue{};
  alignas(64) std::atomic<std::uint32_t> turn{0};
};

/// Thread: any. Brokers are kept as long as the table: a client knows few.
class BrokerTable {
 public:
  BrokerState& of(std::string_view broker) {
    const std::scoped_lock lock(mutex_);
    const auto it = brokers_.find(broker);
    return it != brokers_.end()
               ? *it->second
               : *brokers_.emplace(std::string(broker), std::make_unique<BrokerState>())
                      .first->second;
  }

  void set_queues(tenon_queue_set* set) {
    auto* topic = new TopicState;
    const plugin::Strided<const tenon_queue_ref> queues(set->queues, set->stride, set->count);
    for (std::uint32_t i = 0; i < set->count; ++i) {
      topic->by_queue.push_back(&of(plugin::text(queues[i].broker)));
    }
    topic->turn = std::random_device{}();
    set->slot = topic;
  }
  static void drop_queues(tenon_queue_set* set) {
    delete static_cast<TopicState*>(set->slot);
    set->slot = nullptr;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<BrokerState>, std::less<>> brokers_;
};

}  // namespace tenon::selector_adaptive
