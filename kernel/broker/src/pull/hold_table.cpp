#include "pull/hold_table.h"

#include <algorithm>
#include <utility>

namespace tenon::broker {
namespace {

/// Woken by the arrivals of one call; arrivals are serial per storage and thread.
std::vector<ParkedPtr>& woken_here() {
  thread_local std::vector<ParkedPtr> woken;
  return woken;
}

}  // namespace

void HoldTable::park(const ParkedPtr& pull) {
  // An arrival that still sees a count of zero came before this (both are read-modify-writes of one
  // word), and one that looked into the shard before the insertion came before that: either way its
  // message is visible to whoever looks at the queue after park().
  count_.fetch_add(1, std::memory_order_acq_rel);
  Shard& s = shard(pull->queue);
  const std::scoped_lock lock(s.mutex);
  s.queues[pull->queue].push_back(pull);
}

bool HoldTable::take(const ParkedPtr& pull) {
  if (pull->taken.exchange(true, std::memory_order_acq_rel)) {
    return false;
  }
  {
    Shard& s = shard(pull->queue);
    const std::scoped_lock lock(s.mutex);
    const auto it = s.queues.find(pull->queue);
    if (it != s.queues.end()) {
      std::erase(it->second, pull);
      if (it->second.empty()) {
        s.queues.erase(it);
      }
    }
  }
  count_.fetch_sub(1, std::memory_order_acq_rel);
  return true;
}

void HoldTable::arrived(const tenon_arrival& arrival) noexcept {
  if (count_.fetch_add(0, std::memory_order_acq_rel) == 0) {
    return;
  }
  Shard& s = shard(arrival.queue);
  const std::scoped_lock lock(s.mutex);
  const auto it = s.queues.find(arrival.queue);
  if (it == s.queues.end()) {
    return;
  }
  std::vector<ParkedPtr>& woken = woken_here();
  std::erase_if(it->second, [&](const ParkedPtr& pull) {
    if (arrival.queue_offset < pull->offset) {
      return false;
    }
    if (pull->filter != nullptr && !pull->filter->may_match(arrival)) {
      if (arrival.queue_offset == pull->offset) {
        ++pull->offset;  // judged already: a later look need not start before it
      }
      return false;
    }
    if (!pull->taken.exchange(true, std::memory_order_acq_rel)) {
      woken.push_back(pull);
      count_.fetch_sub(1, std::memory_order_acq_rel);
    }
    return true;
  });
  if (it->second.empty()) {
    s.queues.erase(it);
  }
}

void HoldTable::arrivals_end() noexcept {
  std::vector<ParkedPtr>& woken = woken_here();
  if (!woken.empty()) {
    wake_(woken);
    woken.clear();
  }
}

}  // namespace tenon::broker
