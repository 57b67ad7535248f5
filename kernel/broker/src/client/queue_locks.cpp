#include "client/queue_locks.h"

namespace tenon::broker {

std::vector<proto::MessageQueue> QueueLocks::lock(const proto::LockRequest& request,
                                                  std::int64_t now_ms) {
  std::vector<proto::MessageQueue> held;
  const std::scoped_lock guard(mutex_);
  auto& queues = groups_[request.group];
  for (const proto::MessageQueue& queue : request.queues) {
    Entry& entry = queues[queue];
    const bool free = entry.client_id.empty() || entry.client_id == request.client_id ||
                      now_ms - entry.last_update_ms > lifetime_ms_;
    if (free) {
      entry.client_id = request.client_id;
      entry.last_update_ms = now_ms;
      held.push_back(queue);
    }
  }
  return held;
}

void QueueLocks::unlock(const proto::LockRequest& request) {
  const std::scoped_lock guard(mutex_);
  const auto group = groups_.find(request.group);
  if (group == groups_.end()) {
    return;
  }
  for (const proto::MessageQueue& queue : request.queues) {
    const auto it = group->second.find(queue);
    if (it != group->second.end() && it->second.client_id == request.client_id) {
      group->second.erase(it);
    }
  }
  if (group->second.empty()) {
    groups_.erase(group);
  }
}

}  // namespace tenon::broker
