// Locks of queues for ordered consumption: in memory, per group and queue (spec: broker §10.4).
#pragma once

#include "tenon/proto/bodies.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker {

/// Thread: any.
class QueueLocks {
 public:
  /// Whether a client is a member of the group at this moment.
  using Online = std::function<bool(std::string_view group, std::string_view client_id)>;

  /// @param lifetime_ms  a lock lapses so long after its last renewal
  /// @param orphaned_ms  the same for a lock whose owner has no connection any more
  QueueLocks(std::int64_t lifetime_ms, std::int64_t orphaned_ms)
      : lifetime_ms_(lifetime_ms),
        orphaned_ms_(orphaned_ms) {}
  explicit QueueLocks(std::int64_t lifetime_ms)
      : QueueLocks(lifetime_ms, lifetime_ms) {}
  /// Takes or renews the locks. @param online  asked about owners, empty: all count as online
  /// @return the queues that the client holds now
  std::vector<proto::MessageQueue> lock(const proto::LockRequest& request,
                                        std::int64_t now_ms,
                                        const Online& online = {});
  /// Trap: only the owner's locks (broker §10.4).
  void unlock(const proto::LockRequest& request);
  /// Forgets lapsed locks.
  void sweep(std::int64_t now_ms);
  std::size_t size() const;  ///< locks that are remembered

 private:
  struct Entry {
    std::string client_id{};
    std::int64_t last_update_ms = 0;
  };
  bool is_free(const proto::LockRequest& request,
               const Entry& entry,
               std::int64_t now_ms,
               const Online& online) const;

  std::int64_t lifetime_ms_;
  std::int64_t orphaned_ms_;
  mutable std::mutex mutex_;
  std::map<std::string, std::map<proto::MessageQueue, Entry>, std::less<>> groups_{};
};

}  // namespace tenon::broker
