// What replication needs: raw bytes in, cuts, a fresh start, counters.
#include "store.h"

#include "tenon/store/light_queues.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <unordered_set>

namespace tenon::store_file {

namespace {
constexpr auto kHoldsDeadline = std::chrono::seconds(30);
}

/// Moves frame_end over the whole frames behind it.
void Store::advance_frame_end() {
  std::uint64_t pos = log_.frame_end();
  const std::uint64_t end = log_.end();
  while (pos < end) {
    const MappedFile* file = log_.files().find(pos);
    if (file == nullptr || end - pos < store::kBlankBytes) {
      break;
    }
    const store::FrameHead head =
        store::peek_frame({file->at(pos), static_cast<std::size_t>(file->end() - pos)});
    const std::uint64_t next =
        head.kind == store::FrameKind::kBlank ? file->end() : pos + head.bytes;
    if (head.kind == store::FrameKind::kNone || next > end) {
      break;
    }
    pos = next;
  }
  log_.set_frame_end(pos);
}

tenon_status Store::append_raw(std::uint64_t phys,
                               const tenon_bytes* pieces,
                               std::size_t n,
                               tenon_error* err) {
  const tenon_status failed = failed_.load(std::memory_order_acquire);
  if (!is_active() || failed != TENON_OK) {
    return plugin::fail(err, failed != TENON_OK ? failed : TENON_CLOSED, "the store is closed");
  }
  if (phys != log_.end()) {
    return plugin::fail(err, TENON_CONFLICT, "the bytes do not continue the log");
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < n; ++i) {
    bytes += pieces[i].len;
  }
  if (const auto reserved = log_.reserve_raw(bytes); !reserved) {
    append_full_.store(reserved.error().code == Errc::kFull);
    return store::report(err, reserved.error());
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (const auto copied = log_.append_raw(pieces[i].ptr, pieces[i].len); !copied) {
      fail(copied.error());  // half of it is there
      return store::report(err, copied.error());
    }
  }
  advance_frame_end();
  last_append_ms_.store(host_.wall_ms(), std::memory_order_relaxed);
  if (!pump()) {
    follower_waker_.wake();
  }
  if (log_.reserved() < log_.end() + window_.load(std::memory_order_relaxed) / 2) {
    helper_waker_.wake();
  }
  publish(TENON_CHANGED_END);
  return TENON_OK;
}

bool Store::is_frame_boundary(std::uint64_t phys) {
  if (phys == log_.end() || phys % log_.file_bytes() == 0) {
    return true;
  }
  const MappedFile* file = log_.files().find(phys);
  std::uint64_t pos = file == nullptr ? phys + 1 : file->base();
  while (pos < phys) {
    const store::FrameHead head =
        store::peek_frame({file->at(pos), static_cast<std::size_t>(file->end() - pos)});
    if (head.kind != store::FrameKind::kRecord) {
      return false;
    }
    pos += head.bytes;
  }
  return pos == phys;
}

Result<> Store::cut_to(std::uint64_t phys, bool durably) {
  // Later files first: nothing behind the cut may survive a crash in between.
  const auto give_up = std::chrono::steady_clock::now() + kHoldsDeadline;
  while (!log_.files().remove_from(std::max(phys, log_.files().first_base() + 1))) {
    if (std::chrono::steady_clock::now() > give_up) {
      return Error{Errc::kBusy, "readers hold files behind the cut"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (MappedFile* file = log_.files().find(phys)) {
    // Zero what was written: stale frames must not come back (spec: store §13.3, replication 5.7.6).
    TENON_TRY(erase_range(file->fd(), file->data(), phys - file->base(), file->bytes()));
    if (durably) {
      if (io().fdatasync(file->fd()) != 0) {
        return os_error("sync " + file->path(), errno);
      }
      log_.sync_folders();
    }
  }
  for (ConsumeQueue* queue : queues_.all()) {
    TENON_TRY(queue->truncate(phys));
    limit_mappings();
  }
  TENON_TRY(cut_index(phys, durably));
  log_.set_durable(std::min(log_.durable(), phys));
  log_.set_end(phys);
  dispatched_.store(std::min(dispatched_.load(), phys), std::memory_order_release);
  indexed_.store(std::min(indexed_.load(), phys), std::memory_order_release);
  wanted_.store(std::min(wanted_.load(), phys), std::memory_order_release);
  rebuild_counters_to(phys);
  return ok();
}

/// After a crash the checkpoint vouches for full files. It takes its word back before one of them is
/// touched: a file that was cut half would be believed otherwise.
Result<> Store::cut_index(std::uint64_t phys, bool durably) {
  if (index_.count() == 0 || index_.last_phys() < phys) {
    return ok();
  }
  {
    const std::scoped_lock lock(checkpoint_mutex_);
    if (checkpoint_.index_done == 0 || checkpoint_.index_done >= phys) {
      checkpoint_.index_done = phys == 0 ? 1 : phys - 1;
    }
  }
  save_marks();
  if (index_.cut(phys) && durably) {
    TENON_TRY(index_.sync());
  }
  return ok();
}

/// From the queues, and from the records of [dispatched, end) that are in none yet. Dispatch role.
void Store::rebuild_counters_to(std::uint64_t end) {
  for (ConsumeQueue* queue : queues_.all()) {
    queue->rebuild_counter();
  }
  std::uint64_t pos = std::max(dispatched_.load(std::memory_order_relaxed), log_.min());
  while (pos < end) {
    MappedFile* file = log_.files().find(pos);
    if (file == nullptr) {
      return;
    }
    const std::span<const std::uint8_t> rest{file->at(pos),
                                             static_cast<std::size_t>(file->end() - pos)};
    const store::FrameHead head = store::peek_frame(rest);
    if (head.kind != store::FrameKind::kRecord) {
      pos = file->end();  // filler, or what dispatch will skip too
      continue;
    }
    const auto m = store::parse_record(rest.first(head.bytes), false);
    pos += head.bytes;
    if (m && store::has_queue_entry(m.value().sys_flag) && m.value().queue_id >= 0 &&
        store::is_readable_topic(m.value().topic)) {
      tenon_queue handle = 0;
      ConsumeQueue* queue = queues_.find_or_create(
          m.value().topic, static_cast<std::uint32_t>(m.value().queue_id), handle);
      if (queue != nullptr) {
        queue->raise_next(m.value().queue_offset + 1);
      }
    }
  }
}

tenon_status Store::truncate(std::uint64_t phys, std::uint32_t flags, tenon_error* err) {
  if (!is_active()) {
    return plugin::fail(err, TENON_CLOSED, "the store is closed");
  }
  const std::uint64_t visible = visible_limit_.load(std::memory_order_acquire);
  if (phys > log_.end() || phys < log_.min() || (visible != TENON_NO_LIMIT && phys < visible)) {
    return plugin::fail(err, TENON_CONFLICT, "the position is outside what may be cut");
  }
  if (!is_frame_boundary(phys)) {
    return plugin::fail(err, TENON_CONFLICT, "the position is no frame boundary");
  }
  Result<> cut = ok();
  {
    wait_dispatch_role();
    const std::scoped_lock lock(index_step_mutex_, sync_mutex_);
    cut = cut_to(phys, (flags & TENON_TRUNCATE_ERASE) != 0);
    give_dispatch_role();
  }
  if (!cut) {
    fail(cut.error());
    return store::report(err, cut.error());
  }
  publish(TENON_CHANGED_END | TENON_CHANGED_DURABLE | TENON_CHANGED_DISPATCHED);
  return TENON_OK;
}

tenon_status Store::reset(std::uint64_t start, tenon_error* err) {
  if (phase_.load() != Phase::kRecovered) {
    return plugin::fail(err, TENON_NOT_READY, "reset needs a recovered store that is not active");
  }
  if (start % log_.file_bytes() != 0) {
    return plugin::fail(err, TENON_INVALID, "the start is not the start of a file");
  }
  for (ConsumeQueue* queue : queues_.all()) {
    if (queue->files().has_pins() ||
        (queue->ext() != nullptr && queue->ext()->files().has_pins())) {
      return plugin::fail(err, TENON_BUSY, "readers hold files of a queue");
    }
  }
  if (!log_.files().remove_from(0)) {
    return plugin::fail(err, TENON_BUSY, "readers hold files of the log");
  }
  for (ConsumeQueue* queue : queues_.all()) {
    static_cast<void>(queue->truncate(0).has_value());
    queue->rebuild_counter();
    limit_mappings();
  }
  index_.clear(true);
  const auto created = log_.files().ensure(start);  // its name keeps the position
  if (!created) {
    return store::report(err, created.error());
  }
  log_.set_positions(start, start, start);
  dispatched_.store(start);
  indexed_.store(start);
  {
    const std::scoped_lock lock(checkpoint_mutex_);
    checkpoint_ = Checkpoint{};
  }
  save_marks();
  return TENON_OK;
}

tenon_status Store::set_visible_limit(std::uint64_t phys) {
  visible_limit_.store(phys, std::memory_order_release);
  if (is_active()) {
    follower_waker_.wake();
  }
  return TENON_OK;
}

tenon_status Store::set_floor(std::uint64_t phys) {
  floor_.store(phys, std::memory_order_release);
  return TENON_OK;
}

tenon_status Store::set_role(std::uint32_t role) {
  if (role != TENON_ROLE_MASTER && role != TENON_ROLE_REPLICA) {
    return TENON_INVALID;
  }
  replica_.store(role == TENON_ROLE_REPLICA, std::memory_order_relaxed);
  return TENON_OK;
}

tenon_status Store::rebuild_counters(tenon_error*) {
  wait_dispatch_role();
  rebuild_counters_to(log_.frame_end());
  give_dispatch_role();
  return TENON_OK;
}

tenon_status Store::drop_topics(const tenon_str* keep,
                                std::size_t n,
                                std::uint32_t* dropped,
                                tenon_error*) {
  std::unordered_set<std::string_view> kept;
  for (std::size_t i = 0; i < n; ++i) {
    kept.insert(plugin::text(keep[i]));
  }
  *dropped = 0;
  wait_dispatch_role();
  for (ConsumeQueue* queue : queues_.all()) {
    // Trap: light queues have no topic that somebody could name (spec: store §11).
    if (kept.contains(queue->topic()) || store::is_light(queue->topic())) {
      continue;
    }
    queues_.drop(*queue);
    ++*dropped;
    // The files go at once; what a reader still maps goes with the store.
    std::error_code ec;
    const std::filesystem::path folder = queue->files().folder();
    std::filesystem::remove_all(folder, ec);
    std::filesystem::remove(folder.parent_path(), ec);  // only if no other queue is in it
    const std::filesystem::path ext = ext_folder(options_.root, queue->topic(), queue->id());
    std::filesystem::remove_all(ext, ec);
    std::filesystem::remove(ext.parent_path(), ec);
  }
  give_dispatch_role();
  return TENON_OK;
}

}  // namespace tenon::store_file
