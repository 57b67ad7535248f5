// What one I/O thread keeps for the hot paths: its views of the tables, its counters, its scratch
// memory.
#pragma once

#include "services.h"
#include "util/arena.h"
#include "util/published.h"

#include "tenon/abi/plugin.h"

#include <cstdint>
#include <vector>

namespace tenon::broker {

/// A send between its checks and its answer.
struct PendingSend {
  const proto::CommandView* command = nullptr;
  std::int32_t answer_queue_id = 0;
  bool wait_durable = false;
  const Topic* topic = nullptr;  ///< of the record, which may be the retry, DLQ or delay topic
};

struct SendBatch {
  std::vector<PendingSend> pending{};
  std::vector<tenon_record> records{};
  std::vector<tenon_append_result> results{};
  Arena arena{};
};

/// Thread: its I/O thread.
struct IoState {
  IoState(const Services& services, std::uint64_t seed)
      : topics(services.topics.published()),
        groups(services.groups.published()),
        stats(services.stats.add_thread()),
        random(seed | 1) {}

  /// At the start of a batch, with nothing pending.
  void refresh() {
    topics.refresh();
    groups.refresh();
  }
  const Topic* find_topic(std::string_view name) const {
    const auto it = topics.current().find(name);
    return it == topics.current().end() ? nullptr : it->second.get();
  }

  /// xorshift64, for queues that a producer leaves to the broker.
  std::uint32_t next_random() noexcept {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return static_cast<std::uint32_t>(random >> 16);
  }

  Cached<TopicMap> topics;
  Cached<GroupMap> groups;
  ThreadStats& stats;
  SendBatch batch{};
  std::uint64_t random;
};

}  // namespace tenon::broker
