// Locks of queues for ordered consumption: in memory, per group and queue (spec: broker §10.4).
#pragma once

#include "tenon/proto/bodies.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::broker {

/// Thread: any.
class QueueLocks {
 public:
  explicit QueueLocks(std::int64_t lifetime_ms)
      : lifetime_ms_(lifetime_ms) {}
  /// Takes or renews the locks. @return the queues that the client holds now
  std::vector<proto::MessageQueue> lock(const proto::LockRequest& request, std::int64_t now_ms);
  void unlock(const proto::LockRequest& request);

 private:
  struct Entry {
    std::string client_id{};
    std::int64_t last_update_ms = 0;
  };
  std::int64_t lifetime_ms_;
  std::mutex mutex_;
  std::map<std::string, std::map<proto::MessageQueue, Entry>, std::less<>> groups_{};
};

}  // namespace tenon::broker
