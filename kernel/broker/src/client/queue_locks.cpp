#include "client/queue_locks.h"

namespace tenon::broker {

bool QueueLocks::is_free(const proto::LockRequest& request,
                         const Entry& entry,
                         std::int64_t now_ms,
                         const Online& online) const {
  if (entry.client_id.empty() || entry.client_id == request.client_id) {
    return true;
  }
  const std::int64_t age_ms = now_ms - entry.last_update_ms;
  return age_ms > lifetime_ms_ ||
         (age_ms > orphaned_ms_ && online && !online(request.group, entry.client_id));
}

std::vector<proto::MessageQueue> QueueLocks::lock(const proto::LockRequest& request,
                                                  std::int64_t now_ms,
                                                  const Online& online) {
  std::vector<proto::MessageQueue> held;
  const std::scoped_lock guard(mutex_);
  auto& queues = groups_[request.group];
  for (const proto::MessageQueue& queue : request.queues) {
    Entry& entry = queues[queue];
    if (is_free(request, entry, now_ms, online)) {
      entry.client_id = request.client_id;
      entry.last_update_ms = now_ms;
      held.push_back(queue);
    }
  }
  return held;
}

void QueueLocks::sweep(std::int64_t now_ms) {
  const std::scoped_lock guard(mutex_);
  for (auto group = groups_.begin(); group != groups_.end();) {
    std::erase_if(group->second, [&](const auto& queue) {
      return now_ms - queue.second.last_update_ms > lifetime_ms_;
    });
    group = group->second.empty() ? groups_.erase(group) : std::next(group);
  }
}

std::size_t QueueLocks::size() const {
  const std::scoped_lock guard(mutex_);
  std::size_t n = 0;
  for (const auto& [name, queues] : groups_) {
    n += queues.size();
  }
  return n;
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
