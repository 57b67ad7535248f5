// Brokers that were slow or failed are avoided for a while (spec: client §4.9).
#pragma once

#include "topic_info.h"

#include "tenon/sdk/producer.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace tenon::sdk::detail {

/// Thread: any.
class LatencyFaults {
 public:
  explicit LatencyFaults(FaultTolerance table)
      : table_(table) {}

  /// How long a broker is avoided after an attempt that took so long.
  std::uint64_t unavailable_ms(std::uint64_t latency_ms) const noexcept;

  /// After each attempt. @param failed  isolates the broker, however quick the failure was
  void update(const std::string& broker,
              std::uint64_t latency_ms,
              bool failed,
              std::uint64_t now_ns);
  bool available(std::string_view broker, std::uint64_t now_ns) const;

  /// Index into info.publish, which is not empty: the next queue of an available broker; if there is
  /// none, a queue of one of the better half of the others.
  std::size_t pick(const TopicInfo& info,
                   std::atomic<std::uint32_t>& counter,
                   std::uint64_t now_ns);

 private:
  struct Entry {
    std::uint64_t latency_ms = 0;
    std::uint64_t available_ns = 0;
  };
  std::string better_of_the_bad(std::uint64_t now_ns);

  const FaultTolerance table_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::uint32_t worst_counter_ = 0;
};

}  // namespace tenon::sdk::detail
