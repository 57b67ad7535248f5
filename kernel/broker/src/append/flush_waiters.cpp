#include "append/flush_waiters.h"

#include <iterator>
#include <limits>
#include <utility>
#include <vector>

namespace tenon::broker {

void FlushWaiters::add(std::uint64_t end, std::uint64_t deadline_ns, Done done) {
  {
    const std::scoped_lock lock(mutex_);
    if (durable_ < end) {
      waiters_.emplace(end, Waiter{deadline_ns, std::move(done)});
      return;
    }
  }
  done(true);
}

void FlushWaiters::durable_moved(std::uint64_t durable) noexcept {
  std::vector<Done> ready;
  {
    const std::scoped_lock lock(mutex_);
    // Also backwards: after a truncation all watermarks start again at the new end.
    durable_ = durable;
    while (!waiters_.empty() && waiters_.begin()->first <= durable) {
      ready.push_back(std::move(waiters_.begin()->second.done));
      waiters_.erase(waiters_.begin());
    }
  }
  for (Done& done : ready) {
    done(true);
  }
}

void FlushWaiters::expire(std::uint64_t now_ns) {
  std::vector<Done> late;
  {
    const std::scoped_lock lock(mutex_);
    for (auto it = waiters_.begin(); it != waiters_.end();) {
      if (it->second.deadline_ns <= now_ns) {
        late.push_back(std::move(it->second.done));
        it = waiters_.erase(it);
      } else {
        ++it;
      }
    }
  }
  for (Done& done : late) {
    done(false);
  }
}

void FlushWaiters::expire_all() {
  expire(std::numeric_limits<std::uint64_t>::max());
}

std::size_t FlushWaiters::size() const {
  const std::scoped_lock lock(mutex_);
  return waiters_.size();
}

}  // namespace tenon::broker
