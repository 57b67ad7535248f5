// The flusher and the helper thread: what reaches the disk when, and pages ahead and behind
// (spec: store §9, §7).
#include "store.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include <fcntl.h>

namespace tenon::store_file {

namespace {
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kWindowMin = 1u << 20;
constexpr std::uint64_t kWindowMax = 32u << 20;
constexpr std::uint64_t kReserveStep = 256u * 1024;
/// Pages this far behind the end stay mapped: consumers that keep up read them.
constexpr std::uint64_t kKeepBehind = 16u << 20;
constexpr std::uint64_t kGiveBackStep = 8u << 20;
constexpr auto kHelperPause = std::chrono::seconds(1);
constexpr std::size_t kManyQueues = 64;
constexpr std::size_t kUnmapStep = 128;  ///< queues
/// Helper rounds. A reader that goes on where this took its pages pays a fault for each 64 KiB.
constexpr std::uint64_t kSweepEvery = 60;

/// The one that a folder is in: a disk of its own may be mounted there.
bool sync_file_system(const std::string& folder) {
  const Fd fd(io().open(folder.c_str(), O_RDONLY | O_DIRECTORY, 0));
  return fd.get() >= 0 && io().syncfs(fd.get()) == 0;
}
}  // namespace

void Store::publish(std::uint32_t changed) {
  tenon_progress p{};
  p.size = sizeof p;
  p.changed = changed;
  p.end = log_.end();
  p.durable = log_.durable();
  p.dispatched = dispatched_.load(std::memory_order_acquire);
  p.min_phys = log_.min();
  host_.progress(p);
}

/// A failed sync cannot be repeated: the kernel may have dropped the dirty pages. Nothing is
/// acknowledged any more, and the host knows before any waiter does.
void Store::fail(const Error& error) {
  tenon_status expected = TENON_OK;
  if (failed_.compare_exchange_strong(expected, static_cast<tenon_status>(error.code))) {
    host_.fault(static_cast<tenon_status>(error.code), "the store cannot go on: " + error.detail);
    const std::scoped_lock lock(durable_mutex_);
    fault_told_ = true;
    durable_cv_.notify_all();
  }
}

/// One group: whatever is written by now reaches the disk together.
bool Store::sync_log(std::uint64_t target) {
  {
    const std::scoped_lock lock(sync_mutex_);
    if (failed_.load(std::memory_order_acquire) != TENON_OK) {
      return false;
    }
    target = std::min(target, log_.end());
    if (log_.durable() >= target) {
      return true;
    }
    const std::int64_t newest_ms = last_append_ms_.load(std::memory_order_relaxed);
    if (const auto synced = log_.sync_to(target); !synced) {
      fail(synced.error());
      return false;
    }
    log_.set_durable(target);
    const std::scoped_lock marks(checkpoint_mutex_);
    checkpoint_.physic_ms = std::max(checkpoint_.physic_ms, newest_ms);
  }
  {
    const std::scoped_lock lock(durable_mutex_);
    durable_cv_.notify_all();
  }
  publish(TENON_CHANGED_DURABLE);
  return true;
}

void Store::flush_log_round(std::uint64_t now_ns) {
  const std::uint64_t end = log_.end();
  const std::uint64_t durable = log_.durable();
  if (wanted_.load(std::memory_order_acquire) > durable) {
    sync_log(end);
    return;
  }
  if (now_ns - log_round_ns_ < static_cast<std::uint64_t>(options_.flush_interval_ms) * kMs) {
    return;
  }
  log_round_ns_ = now_ns;
  const bool thorough =
      now_ns - log_thorough_ns_ >= static_cast<std::uint64_t>(options_.flush_thorough_ms) * kMs;
  if (thorough) {
    log_thorough_ns_ = now_ns;
  }
  const bool full_file = end / log_.file_bytes() != durable / log_.file_bytes();
  if (end > durable && (thorough || full_file ||
                        end / kPageBytes - durable / kPageBytes >= options_.flush_least_pages)) {
    sync_log(end);
  }
}

/// One sync of the file system in place of very many of single files, which take milliseconds each.
/// False: nothing is known to be written.
bool Store::flush_many_queues(std::uint32_t least_pages) {
  struct Dirty {
    ConsumeQueue* queue = nullptr;
    Unflushed units{};
    Unflushed ext{};
  };
  std::vector<Dirty> dirty;
  bool with_ext = false;
  queues_.for_each([&](ConsumeQueue& queue) {
    if (const Unflushed units = queue.unflushed(least_pages); units.end != 0) {
      const Unflushed ext = queue.ext() == nullptr ? Unflushed{} : queue.ext()->unflushed();
      with_ext = with_ext || ext.end != 0;
      dirty.push_back({&queue, units, ext});
    }
  });
  if (dirty.size() < kManyQueues) {
    return false;
  }
  if (!sync_file_system(options_.root + "/consumequeue") ||
      (with_ext && !sync_file_system(options_.root + "/consumequeue_ext"))) {
    return false;  // one after another then, and an error there counts
  }
  for (const Dirty& d : dirty) {
    if (d.ext.end != 0) {
      d.queue->ext()->mark_flushed(d.ext);
    }
    d.queue->mark_flushed(d.units);
  }
  return true;
}

/// Queues with that many dirty pages. False: the store has failed.
bool Store::flush_queues(std::uint32_t least_pages) {
  flush_many_queues(least_pages);
  bool failed = false;
  queues_.for_each([&](ConsumeQueue& queue) {
    if (failed) {
      return;
    }
    const auto flushed = queue.flush(least_pages);
    if (!flushed) {
      fail(flushed.error());
      failed = true;
    } else if (flushed.value()) {
      flush_log_round(host_.mono_ns());  // many queues take long: nobody waits for all of them
    }
  });
  return !failed;
}

void Store::flush_queues_round(std::uint64_t now_ns) {
  if (now_ns - queue_round_ns_ <
      static_cast<std::uint64_t>(options_.queue_flush_interval_ms) * kMs) {
    return;
  }
  queue_round_ns_ = now_ns;
  const bool thorough = now_ns - queue_thorough_ns_ >=
                        static_cast<std::uint64_t>(options_.queue_flush_thorough_ms) * kMs;
  // Sampled before the flush: what it says is on the disk then.
  const std::int64_t dispatched_ms = last_dispatch_ms_.load(std::memory_order_relaxed);
  if (!flush_queues(thorough ? 0 : options_.queue_flush_least_pages)) {
    return;
  }
  if (thorough) {
    queue_thorough_ns_ = now_ns;
    {
      const std::scoped_lock lock(checkpoint_mutex_);
      checkpoint_.logics_ms = std::max(checkpoint_.logics_ms, dispatched_ms);
    }
    save_marks();
  }
}

void Store::save_marks() {
  Checkpoint c;
  {
    const std::scoped_lock lock(checkpoint_mutex_);
    c = checkpoint_;
  }
  if (const auto saved = save_checkpoint(options_.root, c); !saved) {
    host_.log(LogLevel::kWarn, "checkpoint cannot be written: {}", saved.error().detail);
  }
}

void Store::run_flusher() {
  store::prepare_thread("store-flush");
  log_round_ns_ = log_thorough_ns_ = queue_round_ns_ = queue_thorough_ns_ = host_.mono_ns();
  const auto pause = std::chrono::milliseconds(
      std::min(options_.flush_interval_ms, options_.queue_flush_interval_ms));
  while (!stop_others_.load(std::memory_order_acquire)) {
    const std::uint64_t now = host_.mono_ns();
    flush_log_round(now);
    flush_queues_round(now);
    if (wanted_.load(std::memory_order_acquire) <= log_.durable() ||
        failed_.load(std::memory_order_acquire) != TENON_OK) {
      flusher_waker_.wait_for(pause);
    }
  }
}

tenon_status Store::request_flush(std::uint64_t upto) {
  if (!is_active()) {
    return TENON_CLOSED;
  }
  upto = std::min(upto, log_.end());
  if (upto <= log_.durable()) {
    return TENON_OK;
  }
  std::uint64_t seen = wanted_.load(std::memory_order_relaxed);
  while (seen < upto && !wanted_.compare_exchange_weak(seen, upto, std::memory_order_acq_rel)) {
  }
  flusher_waker_.wake();
  return TENON_OK;
}

tenon_status Store::flush_now(std::uint64_t upto, std::uint32_t timeout_ms, tenon_error* err) {
  upto = std::min(upto, log_.end());
  if (const tenon_status asked = request_flush(upto); asked < 0) {
    return plugin::fail(err, asked, "the store is not active");
  }
  std::unique_lock lock(durable_mutex_);
  const bool done = durable_cv_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] {
    return log_.durable() >= upto || fault_told_;
  });
  if (log_.durable() >= upto) {
    return TENON_OK;
  }
  if (!done) {
    return plugin::fail(err, TENON_TIMEOUT, "the disk did not take the log in time");
  }
  return plugin::fail(err, TENON_IO, "an earlier sync of the log failed");
}

/// Everything to the disk, at a stop. Errors end in failed_.
void Store::flush_everything() {
  const std::int64_t dispatched_ms = last_dispatch_ms_.load(std::memory_order_relaxed);
  sync_log(log_.end());
  if (!flush_queues(0)) {
    return;
  }
  if (const auto synced = index_.sync(); !synced) {
    fail(synced.error());
    return;
  }
  // The index takes the checkpoint's lock under its own, so never the other way round.
  const std::uint64_t index_last = index_.last_phys();
  const std::scoped_lock lock(checkpoint_mutex_);
  checkpoint_.physic_ms =
      std::max(checkpoint_.physic_ms, last_append_ms_.load(std::memory_order_relaxed));
  checkpoint_.logics_ms = std::max(checkpoint_.logics_ms, dispatched_ms);
  checkpoint_.indexed = options_.key_index ? indexed_.load(std::memory_order_acquire) : 0;
  checkpoint_.index_last = index_last;
  checkpoint_.queue_units = queues_.units();
}

/// Mapped pages behind the end go back to the page cache, so that the resident size stays bounded.
void Store::give_back_pages() {
  const std::uint64_t end = log_.end();
  if (given_back_ > end) {
    given_back_ = 0;  // truncated
  }
  const std::uint64_t upto = end > kKeepBehind ? end - kKeepBehind : 0;
  std::uint64_t from = std::max(given_back_, log_.min());
  if (upto < from + kGiveBackStep) {
    return;
  }
  while (from < upto) {
    const FilePin pin = log_.files().pin(from);
    if (!pin) {
      break;
    }
    const std::uint64_t stop = std::min(upto, pin->end());
    pin->forget(from, stop);
    if (stop == pin->end()) {
      pin->expect_reads();
    }
    from = stop;
  }
  given_back_ = upto;
}

/// A few queues at a time: the appender leaves its units to the follower meanwhile.
void Store::unmap_queues() {
  while (queues_.has_many_mappings() && !stop_others_.load(std::memory_order_acquire)) {
    if (!take_dispatch_role()) {
      // Not wait_dispatch_role(): a follower that catches up keeps the role for long.
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      continue;
    }
    queues_.unmap_some(kUnmapStep);
    give_dispatch_role();
  }
}

void Store::run_helper() {
  store::prepare_thread("store-ahead");
  std::uint64_t round = 0;
  std::uint64_t last_wake_ns = 0;
  bool reported = false;
  while (!stop_others_.load(std::memory_order_acquire)) {
    // The window follows the speed: what was eaten up in 20 ms was too little.
    const std::uint64_t now = host_.mono_ns();
    std::uint64_t window = window_.load(std::memory_order_relaxed);
    if (log_.reserved() < log_.end() + window / 2) {
      if (now - last_wake_ns < 20 * kMs) {
        window = std::min(window * 2, kWindowMax);
      } else if (now - last_wake_ns > 1000 * kMs) {
        window = std::max(window / 2, kWindowMin);
      }
      last_wake_ns = now;
      window_.store(window, std::memory_order_relaxed);
    }
    while (!stop_others_.load(std::memory_order_acquire)) {
      const std::uint64_t ahead = std::min(window, log_.file_bytes() / 2);
      const auto moved = log_.reserve_ahead(log_.end() + ahead, kReserveStep);
      if (!moved && !reported) {
        host_.log(LogLevel::kError, "no space ahead of the log: {}", moved.error().detail);
      }
      reported = !moved;
      if (!moved || !moved.value()) {
        break;
      }
      give_back_pages();
    }
    if (queues_.take_nearly_full()) {
      queues_.for_each([](ConsumeQueue& queue) {
        if (queue.nearly_full()) {
          queue.prepare_next_file();
        }
      });
    }
    unmap_queues();
    if (++round % kSweepEvery == 0) {
      log_.files().for_each_mapped([end = log_.end()](MappedFile& f) {
        f.forget(f.base(), std::max(end, kKeepBehind) - kKeepBehind);
      });
      index_.forget_pages();
    }
    helper_waker_.wait_for(kHelperPause);
  }
}

}  // namespace tenon::store_file
