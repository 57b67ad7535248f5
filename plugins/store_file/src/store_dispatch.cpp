// Dispatch: from the log to the queues, to the host's arrivals and to the key index.
#include "store.h"

#include <algorithm>
#include <chrono>

namespace tenon::store_file {

namespace {
constexpr std::uint32_t kIndexStep = 64;
constexpr auto kPollMin = std::chrono::milliseconds(5);
constexpr auto kPollMax = std::chrono::milliseconds(200);
constexpr auto kRetryPause = std::chrono::seconds(1);
}  // namespace

void Store::wait_dispatch_role() noexcept {
  while (!take_dispatch_role()) {
    std::this_thread::yield();
  }
}

bool Store::dispatch_one(ConsumeQueue& queue,
                         tenon_queue handle,
                         std::int64_t offset,
                         const Unit& unit,
                         std::int64_t store_ms,
                         tenon_bytes properties) {
  Unit stored = unit;
  if (options_.queue_ext) [[unlikely]] {
    const tenon_arrival entry{handle,
                              plugin::str(queue.topic()),
                              queue.id(),
                              0,
                              offset,
                              unit.tags_code,
                              store_ms,
                              unit.phys,
                              {},
                              properties};
    stored.tags_code = extend_unit(queue, entry, unit.bytes);
  }
  const auto put = queue.put(offset, stored, store_ms);
  if (!put) [[unlikely]] {
    index_failed(put.error());
    return false;
  }
  last_dispatch_ms_.store(store_ms, std::memory_order_relaxed);
  if (host_.wants_arrivals()) {
    arrivals_[arrival_count_++] = {handle,
                                   plugin::str(queue.topic()),
                                   queue.id(),
                                   0,
                                   offset,
                                   unit.tags_code,
                                   store_ms,
                                   unit.phys,
                                   {},
                                   properties};
    if (arrival_count_ == arrivals_.size()) {
      flush_arrivals(unit.phys + unit.bytes);
    }
  }
  return true;
}

std::int64_t Store::extend_unit(ConsumeQueue& queue,
                                const tenon_arrival& entry,
                                std::uint32_t bytes) {
  if (queue.ext() == nullptr || entry.phys + bytes <= queue.max_phys() ||
      entry.queue_offset < queue.max_offset()) {
    return entry.tags_code;  // the queue has this one: put() will ignore it
  }
  bitmap_.resize(options_.bitmap_bytes);
  host_.index_bits(entry, bitmap_.data(), bitmap_.size());
  ExtUnit unit{entry.tags_code, entry.store_ms, bitmap_};
  if (std::all_of(bitmap_.begin(), bitmap_.end(), [](std::uint8_t b) { return b == 0xff; })) {
    unit.bitmap = {};  // says nothing; RocketMQ keeps none then
  }
  const auto address = queue.ext()->put(unit);
  if (!address) {
    if (!ext_error_.exchange(true)) {
      host_.log(LogLevel::kError,
                "queue extension cannot be written, going on without: {}",
                address.error().detail);
    }
    return entry.tags_code;
  }
  ext_error_.store(false, std::memory_order_relaxed);
  return address.value();
}

void Store::flush_arrivals(std::uint64_t dispatched) {
  dispatched_.store(dispatched, std::memory_order_release);
  const std::size_t n = arrival_count_;
  arrival_count_ = 0;
  host_.arrivals(arrivals_.data(), n);
}

void Store::index_failed(const Error& error) {
  if (!queue_error_.exchange(true)) {
    host_.log(LogLevel::kError, "consume queue cannot be written, trying again: {}", error.detail);
  }
}

/// A record that is not of the appender's own hand: recovery, replica, visible limit.
Result<> Store::dispatch_record(const proto::MessageView& m, std::uint64_t phys) {
  if (!store::has_queue_entry(m.sys_flag)) {
    return ok();
  }
  if (!store::is_readable_topic(m.topic) || m.queue_id < 0 || m.queue_offset < 0) {
    host_.log(LogLevel::kWarn, "record of an impossible queue is not dispatched phys={}", phys);
    return ok();
  }
  tenon_queue handle = 0;
  ConsumeQueue* queue =
      queues_.find_or_create(m.topic, static_cast<std::uint32_t>(m.queue_id), handle);
  if (queue == nullptr) {
    return Error{Errc::kLimit, "too many queues"};
  }
  const Unit unit{
      phys, static_cast<std::uint32_t>(m.total_bytes), store::stored_tags_code(m, host_)};
  TENON_TRY(dispatch_entry(*queue, handle, m.queue_offset, unit, m));
  return options_.multi_dispatch ? dispatch_light_record(m, unit) : ok();
}

/// A queue offset has no checksum: a damaged one may name the place of a record that is sound. The order
/// of the log tells whose place it is, then who was there first.
bool Store::is_place_of_another(ConsumeQueue& queue, std::int64_t offset, std::uint64_t phys) {
  Unit before;
  const bool has_before = queue.read(offset - 1, &before, 1) == 1 && !before.is_filler();
  Unit found;
  bool taken = has_before && before.phys >= phys && is_record_of(queue, offset - 1, before);
  if (!taken && queue.read(offset, &found, 1) == 1 && !found.is_filler() && found.phys < phys) {
    taken = (!has_before || before.phys < found.phys) && is_record_of(queue, offset, found);
  }
  if (taken) {
    host_.log(LogLevel::kError,
              "record names a place in its queue that another record has; it is in no queue "
              "phys={} queue={}/{} queue_offset={}",
              phys,
              queue.topic(),
              queue.id(),
              offset);
  }
  return taken;
}

/// One of the queue units of such a record.
Result<> Store::dispatch_entry(ConsumeQueue& queue,
                               tenon_queue handle,
                               std::int64_t offset,
                               Unit unit,
                               const proto::MessageView& m) {
  const tenon_bytes properties{reinterpret_cast<const std::uint8_t*>(m.properties.data()),
                               m.properties.size()};
  if (is_active() || phase_.load(std::memory_order_relaxed) == Phase::kClosing) {
    queues_.relieve();
    if (!dispatch_one(queue, handle, offset, unit, m.store_ms, properties)) {
      return Error{Errc::kIo, "write a consume queue"};
    }
    return ok();
  }
  if (after_crash_ && offset < queue.max_offset()) {
    last_dispatch_ms_.store(m.store_ms, std::memory_order_relaxed);
    return is_place_of_another(queue, offset, unit.phys) ? ok() : queue.repair(offset, unit);
  }
  if (options_.queue_ext) {
    const tenon_arrival entry{handle,
                              plugin::str(queue.topic()),
                              queue.id(),
                              0,
                              offset,
                              unit.tags_code,
                              m.store_ms,
                              unit.phys,
                              {},
                              properties};
    unit.tags_code = extend_unit(queue, entry, unit.bytes);
  }
  auto put = queue.put(offset, unit, m.store_ms);
  if (!put && put.error().code == Errc::kCorrupt) {
    host_.log(LogLevel::kError, "record is not dispatched: {}", put.error().detail);
    return ok();
  }
  last_dispatch_ms_.store(m.store_ms, std::memory_order_relaxed);
  return put;
}

/// Dispatches frames of one file; returns how far it came.
std::uint64_t Store::pump_file(MappedFile& file, std::uint64_t pos, std::uint64_t limit) {
  while (pos < limit && pos < file.end()) {
    const std::span<const std::uint8_t> rest{file.at(pos),
                                             static_cast<std::size_t>(file.end() - pos)};
    const store::FrameHead head = store::peek_frame(rest);
    if (head.kind == store::FrameKind::kBlank) {
      return file.end();
    }
    if (head.kind == store::FrameKind::kRecord && pos + head.bytes > limit) {
      return pos;
    }
    const auto m = head.kind == store::FrameKind::kRecord
                       ? store::parse_record(rest.first(head.bytes), false)
                       : Result<proto::MessageView>(Error{Errc::kCorrupt, "unknown magic"});
    if (!m) {
      if (replica_.load(std::memory_order_relaxed)) {
        return pos;  // a replica waits for better bytes (spec: store §12)
      }
      const std::uint64_t stop = std::min(limit, file.end());
      host_.log(LogLevel::kError,
                "unreadable record, skipping to the end of the file phys={} skipped_bytes={}: {}",
                pos,
                stop - pos,
                m.error().detail);
      return stop;
    }
    if (!dispatch_record(m.value(), pos)) {
      return pos;
    }
    pos += head.bytes;
  }
  return pos;
}

/// One round of dispatch. True if something moved.
bool Store::pump() {
  const auto limit = [this] {
    return std::min(log_.frame_end(), visible_limit_.load(std::memory_order_acquire));
  };
  if (dispatched_.load(std::memory_order_acquire) >= limit() || !take_dispatch_role()) {
    return false;
  }
  queue_error_.store(false, std::memory_order_relaxed);
  const std::uint64_t begin = std::max(dispatched_.load(std::memory_order_relaxed), log_.min());
  std::uint64_t pos = begin;
  while (pos < limit()) {
    const FilePin pin = log_.files().pin(pos);
    if (!pin) {
      break;
    }
    const std::uint64_t next = pump_file(*pin.get(), pos, limit());
    flush_arrivals(next);
    if (next == pos) {
      break;
    }
    pos = next;
  }
  give_dispatch_role();
  if (pos != begin) {
    publish(TENON_CHANGED_DISPATCHED);
  }
  return pos != begin;
}

/// Feeds the key index with a few records. True if something moved.
bool Store::index_some() {
  const std::scoped_lock lock(index_step_mutex_);
  std::uint64_t pos = indexed_.load(std::memory_order_relaxed);
  const std::uint64_t limit = dispatched_.load(std::memory_order_acquire);
  if (pos >= limit) {
    return false;
  }
  const std::uint64_t begin = pos;
  FilePin pin = log_.files().pin(pos);
  // Trap: a file below the minimum counts until its name is gone: a crash before that brings it back.
  if (!pin && pos < log_.min()) {
    pos = log_.min();
    pin = log_.files().pin(pos);
  }
  for (std::uint32_t i = 0; pin && i < kIndexStep && pos < limit && pos < pin->end(); ++i) {
    const std::span<const std::uint8_t> rest{pin->at(pos),
                                             static_cast<std::size_t>(pin->end() - pos)};
    const store::FrameHead head = store::peek_frame(rest);
    if (head.kind != store::FrameKind::kRecord) {
      pos = pin->end();  // filler, or what dispatch skipped too
      break;
    }
    const auto m = store::parse_record(rest.first(head.bytes), false);
    if (m && options_.key_index) {
      if (const auto added = index_.insert(m.value()); !added) {
        if (!index_error_.exchange(true)) {
          host_.log(LogLevel::kError, "key index cannot be written: {}", added.error().detail);
        }
        break;
      }
      index_error_.store(false, std::memory_order_relaxed);
    }
    pos += head.bytes;
  }
  pos = std::min(pos, limit);
  if (pos != begin) {
    const std::scoped_lock notify(indexed_mutex_);
    indexed_.store(pos, std::memory_order_release);
    indexed_cv_.notify_all();
  }
  return pos != begin;
}

bool Store::is_drained() const noexcept {
  return dispatched_.load(std::memory_order_acquire) >=
             std::min(log_.frame_end(), visible_limit_.load(std::memory_order_acquire)) &&
         indexed_.load(std::memory_order_acquire) >= dispatched_.load(std::memory_order_acquire);
}

void Store::run_follower() {
  store::prepare_thread("store-follow");
  auto pause = kPollMin;
  std::chrono::steady_clock::time_point give_up{};
  while (true) {
    bool moved = pump();
    for (int i = 0; i < 16 && index_some(); ++i) {
      moved = true;
    }
    if (stop_follower_.load(std::memory_order_acquire)) {
      // What is not dispatched at a stop costs a recovery: try, but not for ever.
      const auto now = std::chrono::steady_clock::now();
      if (give_up == std::chrono::steady_clock::time_point{}) {
        give_up = now + std::chrono::seconds(30);
      }
      if (is_drained() || (!moved && (queue_error_ || index_error_)) || now > give_up) {
        return;
      }
    }
    if (moved) {
      pause = kPollMin;
      continue;
    }
    if (queue_error_.load(std::memory_order_relaxed) ||
        index_error_.load(std::memory_order_relaxed)) {
      follower_waker_.wait_for(kRetryPause);
    } else {
      follower_waker_.wait_for(pause);
      pause = std::min(pause * 2, kPollMax);
    }
  }
}

}  // namespace tenon::store_file
