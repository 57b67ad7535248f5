// What one I/O thread keeps for the hot paths: its views of the tables, its counters, its scratch
// memory.
#pragma once

#include "services.h"
#include "util/arena.h"
#include "util/input_lag.h"
#include "util/published.h"

#include "tenon/abi/plugin.h"
#include "tenon/net/connection.h"
#include "tenon/proto/peek.h"

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace tenon::broker {

/// A send between its checks and its answer.
struct PendingSend {
  std::int32_t opaque = 0;
  proto::HeaderKind kind = proto::HeaderKind::kJson;
  bool oneway = false;
  std::int32_t answer_queue_id = 0;
  bool wait_durable = false;
  const Topic* topic = nullptr;      ///< of the record, which may be the retry, DLQ or delay topic
  std::string_view recall_handle{};  ///< of a timer message; in the arena
};

struct SendBatch {
  std::vector<PendingSend> pending{};
  std::vector<tenon_record> records{};
  std::vector<tenon_append_result> results{};
  Arena arena{};
  std::uint64_t since_ns = 0;  ///< when it was to be appended

  void clear() {
    constexpr std::size_t kKept = 4096;  ///< records whose memory stays with the thread
    pending.clear();
    records.clear();
    if (records.capacity() > kKept) {
      records.shrink_to_fit();
      results.clear();
      results.shrink_to_fit();
    }
    arena.reset();
  }
};

/// Sends that wait for the append lock, with all that their records point to.
struct WaitingSends {
  net::ConnectionPtr connection{};
  net::BufferRef keep{};
  std::shared_ptr<const TopicMap> topics{};
  std::uint64_t since_ns = 0;
  std::size_t bytes = 0;
  SendBatch batch{};
};

/// Thread: its I/O thread.
struct IoState {
  /// @param threads  how many I/O threads share what there is room for
  IoState(const Services& services, std::uint64_t seed, std::size_t threads)
      : topics(services.topics.published()),
        groups(services.groups.published()),
        stats(services.stats.add_thread()),
        items(services.stats.items()),
        lag(services.config.wait_in_send_queue_ms, services.config.send_queue_max / threads),
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
  StatsView items;
  SendBatch batch{};
  std::deque<WaitingSends> waiting{};
  bool retry_armed = false;
  net::IoThread* thread = nullptr;  ///< once requests came
  InputLag lag;
  std::int64_t late_ms = 0;       ///< age of the sends of this read, if they are to be refused
  std::uint64_t late_log_ns = 0;  ///< not logged before
  std::int64_t late_text_ms = 0;  ///< age that the refusals tell
  std::array<proto::AnswerTemplate, 2> refusals{};  ///< JSON, binary
  std::uint64_t random;
};

}  // namespace tenon::broker
