// Topics that RocketMQ itself uses: the same names in each broker, and outside of all namespaces.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace tenon::proto {

/// Without those that are named after a cluster or a broker (spec: broker §4.1).
inline constexpr std::array<std::string_view, 9> kSystemTopics{"TBW102",
                                                               "SCHEDULE_TOPIC_XXXX",
                                                               "BenchmarkTest",
                                                               "RMQ_SYS_TRANS_HALF_TOPIC",
                                                               "RMQ_SYS_TRACE_TOPIC",
                                                               "RMQ_SYS_TRANS_OP_HALF_TOPIC",
                                                               "TRANS_CHECK_MAX_TIME_TOPIC",
                                                               "SELF_TEST_TOPIC",
                                                               "OFFSET_MOVED_EVENT"};

/// One of those, or of the names that 5.x keeps for itself. Thread: any.
inline bool is_system_topic(std::string_view name) noexcept {
  return name.starts_with("rmq_sys_") ||
         std::find(kSystemTopics.begin(), kSystemTopics.end(), name) != kSystemTopics.end();
}

}  // namespace tenon::proto
