// Life cycle of the store.
#include "store.h"

#include <algorithm>

#include <unistd.h>

namespace tenon::store_file {

Store::Store(plugin::Host& host)
    : StoreState(host) {
  const auto pages = static_cast<std::uint64_t>(std::max(0l, ::sysconf(_SC_PHYS_PAGES)));
  // Trap: an unknown memory size counts as 24 GiB (spec: store §15).
  const std::uint64_t memory = pages == 0 ? 24ull << 30 : pages * kPageBytes;
  memory_bytes_ = memory / 100 * options_.memory_percent;
  index_.on_complete = [this](const IndexHeader& full) {
    {
      const std::scoped_lock lock(checkpoint_mutex_);
      checkpoint_.index_ms = full.end_ms;
      checkpoint_.index_done = full.end_phys;
    }
    save_marks();
  };
}

Store::~Store() {
  if (is_active()) {
    deactivate();
  }
}

void Store::activate() {
  if (is_active()) {
    return;
  }
  if (phase_.load() != Phase::kRecovered) {
    throw plugin::Failure(TENON_NOT_READY, "the store has to be recovered before it is activated");
  }
  // From here on a death is a crash. Created before the first change, unlike Java's.
  if (const auto created = create_abort(options_.root); !created) {
    store::raise(created.error());
  }
  stop_follower_.store(false);
  stop_others_.store(false);
  phase_.store(Phase::kActive, std::memory_order_release);
  try {
    follower_ = std::thread([this] { run_follower(); });
    flusher_ = std::thread([this] { run_flusher(); });
    helper_ = std::thread([this] { run_helper(); });
  } catch (...) {
    deactivate();
    throw plugin::Failure(TENON_NOMEM, "the store's threads cannot be started");
  }
}

void Store::deactivate() {
  if (!is_active()) {
    return;
  }
  phase_.store(Phase::kClosing, std::memory_order_release);
  const auto join = [](std::thread& t, Waker& waker) {
    if (t.joinable()) {
      waker.wake();
      t.join();
    }
  };
  stop_follower_.store(true, std::memory_order_release);
  join(follower_, follower_waker_);
  stop_others_.store(true, std::memory_order_release);
  join(flusher_, flusher_waker_);
  join(helper_, helper_waker_);
  {
    const std::scoped_lock lock(durable_mutex_, indexed_mutex_);
    durable_cv_.notify_all();
    indexed_cv_.notify_all();
  }
  flush_everything();
  const bool clean = failed_.load() == TENON_OK && is_drained();
  // Files made ahead do not survive a clean stop (spec: store §2.5); the first one does when its
  // name carries the start of the log.
  const std::uint64_t first = log_.files().first_base();
  log_.files().remove_from(first == 0 ? log_.end() : std::max(log_.end(), first + 1));
  if (clean) {
    save_marks();
    remove_abort(options_.root);
  } else {
    host_.log(LogLevel::kWarn, "store stops with the abort marker: the next start recovers");
  }
  lock_.unlock();
  phase_.store(Phase::kIdle, std::memory_order_release);
}

}  // namespace tenon::store_file
