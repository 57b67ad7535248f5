// Reading: queues, the log, searches by time and by key.
#include "store.h"

#include "tenon/base/endian.h"
#include "tenon/store/time_search.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <sys/mman.h>

namespace tenon::store_file {

namespace {

constexpr std::uint64_t kHotBytes = 16u << 20;

/// Pinned files travel in a hold as (first, last): files in between cannot go before either.
void release_views(void* first, std::uint64_t last) noexcept {
  static_cast<MappedFile*>(first)->unpin();
  if (last != 0) {
    reinterpret_cast<MappedFile*>(last)->unpin();
  }
}

void fill_hold(tenon_hold* hold, FilePin first, FilePin last) noexcept {
  *hold = {};
  if (first) {
    const auto id = reinterpret_cast<std::uint64_t>(last.release());
    *hold = {first.release(), &release_views, id};
  }
}

/// Entries of queues with an extension: tags code, store time and bit map come from there. Keeps
/// the files that bit maps lie in.
class ExtReader {
 public:
  explicit ExtReader(ConsumeQueueExt* ext)
      : ext_(ext) {}
  /// Trap: an address that leads nowhere stays: filters take it as "unknown, may match" (spec:
  /// broker §9.1).
  /// @return false: bit maps lie in two files already, so that this entry waits for the next read
  bool fill(tenon_index_entry& entry, bool with_bitmap) {
    if (ext_ == nullptr) {
      return true;
    }
    if (pin_ && !ConsumeQueueExt::is_in(*pin_.get(), entry.tags_code)) {
      if (first_) {
        return false;  // one hold keeps two files
      }
      if (bitmaps_) {
        first_ = std::move(pin_);
      }
      pin_ = FilePin{};
    }
    const auto unit = ext_->read(entry.tags_code, pin_);
    if (!unit) {
      return true;
    }
    entry.flags |= TENON_EXTENDED;
    entry.tags_code = unit->tags_code;
    entry.store_ms = unit->store_ms;
    if (with_bitmap && !unit->bitmap.empty()) {
      entry.bitmap = {unit->bitmap.data(), unit->bitmap.size()};
      bitmaps_ = true;
    }
    return true;
  }
  void keep(tenon_hold* hold) {
    if (!bitmaps_) {
      return;
    }
    if (first_) {
      fill_hold(hold, std::move(first_), std::move(pin_));
    } else {
      fill_hold(hold, std::move(pin_), FilePin{});
    }
  }

 private:
  ConsumeQueueExt* ext_;
  FilePin first_;
  FilePin pin_;
  bool bitmaps_ = false;
};

}  // namespace

ConsumeQueue* Store::live_queue(tenon_queue handle, tenon_status& status) const {
  ConsumeQueue* queue = queues_.at(handle);
  status = queue == nullptr ? TENON_NOT_FOUND : queue->is_dropped() ? TENON_STALE : TENON_OK;
  return status < 0 ? nullptr : queue;
}

tenon_status Store::open_queue(tenon_str topic,
                               std::uint32_t queue_id,
                               std::uint32_t flags,
                               tenon_queue* out,
                               tenon_error* err) {
  const std::string_view name = plugin::text(topic);
  if (queues_.find(name, queue_id, *out) != nullptr) {
    return TENON_OK;
  }
  if ((flags & TENON_OPEN_CREATE) == 0) {
    return plugin::fail(err, TENON_NOT_FOUND, "no such queue");
  }
  if (!store::is_storable_topic(name) || queue_id > 0x7fff'ffffu) {
    return plugin::fail(err, TENON_INVALID, "the topic is empty, too long or no file name");
  }
  if (queues_.find_or_create(name, queue_id, *out) == nullptr) {
    return plugin::fail(err, TENON_LIMIT, "too many queues");
  }
  return TENON_OK;
}

tenon_status Store::queue_bounds(tenon_queue q, tenon_queue_bounds* out) {
  tenon_status status = TENON_OK;
  ConsumeQueue* queue = live_queue(q, status);
  if (queue == nullptr) {
    return status;
  }
  // The minimum first: it never passes a maximum that is read later.
  const std::int64_t min = queue->min_offset();
  const std::int64_t max = queue->max_offset();
  out->min_offset = std::min(min, max);
  out->max_offset = max;
  out->min_phys = queue->min_phys();
  out->last_store_ms = queue->last_store_ms();
  return TENON_OK;
}

tenon_status Store::index_read(tenon_queue q,
                               std::int64_t from,
                               tenon_index_entry* out,
                               std::size_t stride,
                               std::size_t cap,
                               std::size_t* n,
                               std::int64_t* next,
                               tenon_hold* hold) {
  *n = 0;
  *next = from;
  if (hold != nullptr) {
    *hold = {};
  }
  tenon_status status = TENON_OK;
  ConsumeQueue* queue = live_queue(q, status);
  if (queue == nullptr) {
    return status;
  }
  const std::int64_t min = queue->min_offset();
  const std::int64_t max = queue->max_offset();
  if (max == 0) {
    return TENON_EMPTY;
  }
  if (from < min) {
    *next = min;
    return TENON_RANGE_LOW;
  }
  if (from >= max) {
    *next = max;
    return from == max ? TENON_RANGE_END : TENON_RANGE_HIGH;
  }
  const std::uint64_t end = log_.end();
  ExtReader ext(queue->ext());
  Unit units[64];
  while (*n < cap) {
    const std::int64_t at = from + static_cast<std::int64_t>(*n);
    const std::size_t got = queue->read(at, units, std::min(cap - *n, std::size(units)));
    std::size_t i = 0;
    for (; i < got && !units[i].is_filler() && !units[i].is_end(); ++i) {
      auto& entry = *TENON_AT_MUT(tenon_index_entry, out, stride, *n + i);
      entry = {};
      entry.phys = units[i].phys;
      entry.bytes = units[i].bytes;
      entry.tags_code = units[i].tags_code;
      if (units[i].phys < end && end - units[i].phys > memory_bytes_) {
        entry.flags = TENON_COLD;
      }
      if (is_ext_address(entry.tags_code) && !ext.fill(entry, hold != nullptr)) [[unlikely]] {
        break;
      }
    }
    *n += i;
    // Short: filler, or the end of the queue or of this file; a pull never crosses one.
    const std::uint64_t pos = static_cast<std::uint64_t>(at) * kUnitBytes;
    const bool file_ends = (pos + got * kUnitBytes) % queue->files().file_bytes() == 0;
    if (i < got || got < std::size(units) || file_ends) {
      break;
    }
  }
  *next = from + static_cast<std::int64_t>(*n);
  if (*n > 0) {
    if (hold != nullptr) {
      ext.keep(hold);
    }
    return TENON_OK;
  }
  // Filler at `from`, or the file is gone: the first offset behind it that has an entry.
  Unit unit;
  std::int64_t skip = from;
  while (skip < max && (queue->read(skip, &unit, 1) == 0 || unit.is_filler())) {
    ++skip;
  }
  *next = skip;
  return TENON_GAP;
}

tenon_view Store::view_of(MappedFile& file, std::uint64_t phys, std::uint32_t bytes) const {
  tenon_view view{};
  view.ptr = file.at(phys);
  view.len = bytes;
  view.phys = phys;
  view.fd = file.fd();
  view.file_offset = phys - file.base();
  return view;
}

bool Store::is_resident(const std::uint8_t* at, std::uint64_t phys, std::uint64_t bytes) const {
  if (phys + kHotBytes >= log_.end()) {
    return true;
  }
  auto page = reinterpret_cast<std::uintptr_t>(at) & ~(kPageBytes - 1);
  const std::uintptr_t stop = reinterpret_cast<std::uintptr_t>(at) + bytes;
  unsigned char present[64];
  while (page < stop) {
    const std::size_t pages =
        std::min<std::size_t>((stop - page + kPageBytes - 1) / kPageBytes, sizeof present);
    if (io().mincore(reinterpret_cast<void*>(page), pages * kPageBytes, present) != 0) {
      return true;
    }
    if (std::any_of(present, present + pages, [](unsigned char p) { return (p & 1) == 0; })) {
      return false;
    }
    page += pages * kPageBytes;
  }
  return true;
}

tenon_status Store::fetch(const tenon_extent* ext,
                          std::size_t n,
                          std::uint32_t flags,
                          tenon_view* out,
                          std::size_t stride,
                          std::uint64_t* next_file,
                          tenon_hold* hold,
                          tenon_error*) {
  if (next_file != nullptr) {
    *next_file = 0;
  }
  FilePin first;
  FilePin last;
  for (std::size_t i = 0; i < n; ++i) {
    const tenon_extent& e = ext[i];
    auto& view = *TENON_AT_MUT(tenon_view, out, stride, i);
    view = {};
    view.phys = e.phys;
    view.fd = -1;
    const std::uint8_t* at = nullptr;
    FilePin pin = log_.pin_range(e.phys, e.bytes, at);
    if (!pin) {
      if (next_file != nullptr && *next_file == 0) {
        *next_file = log_.files().next_base(e.phys);
      }
      continue;
    }
    if ((flags & TENON_FETCH_NO_FAULT) != 0 && !is_resident(at, e.phys, e.bytes)) {
      view.flags = TENON_COLD;
      continue;
    }
    // A damaged queue must not send somebody arbitrary bytes of the log.
    const store::FrameHead head = store::peek_frame({at, e.bytes});
    if (head.kind != store::FrameKind::kRecord || head.bytes != e.bytes ||
        load_be<std::uint64_t>(at + proto::kRecordPhysOffsetAt) != e.phys) {
      if (next_file != nullptr && *next_file == 0) {
        *next_file = log_.files().next_base(e.phys);
      }
      continue;
    }
    view = view_of(*pin.get(), e.phys, e.bytes);
    if (!first) {
      first = std::move(pin);
    } else if (pin->base() < first->base()) {
      if (!last) {
        last = std::move(first);
      }
      first = std::move(pin);
    } else if (pin.get() != first.get() && (!last || pin->base() > last->base())) {
      last = std::move(pin);
    }
  }
  fill_hold(hold, std::move(first), std::move(last));
  return TENON_OK;
}

tenon_status Store::message_at(std::uint64_t phys,
                               tenon_view* out,
                               tenon_hold* hold,
                               tenon_error* err) {
  *out = {};
  *hold = {};
  out->fd = -1;
  const std::uint64_t limit =
      std::min(log_.frame_end(), visible_limit_.load(std::memory_order_acquire));
  const std::uint8_t* at = nullptr;
  FilePin pin = phys < limit ? log_.pin_range(phys, store::kBlankBytes, at) : FilePin{};
  if (!pin) {
    return plugin::fail(err, TENON_NOT_FOUND, "the offset is outside the log");
  }
  const std::uint64_t stop = std::min(limit, pin->end());
  const std::span<const std::uint8_t> rest{at, static_cast<std::size_t>(stop - phys)};
  const auto m = store::parse_record(rest, false);
  if (!m || m.value().phys_offset != static_cast<std::int64_t>(phys)) {
    return plugin::fail(err, TENON_CORRUPT, "no record begins at the offset");
  }
  *out = view_of(*pin.get(), phys, static_cast<std::uint32_t>(m.value().total_bytes));
  fill_hold(hold, std::move(pin), FilePin{});
  return TENON_OK;
}

tenon_status Store::read_log(std::uint64_t phys,
                             std::uint32_t max_bytes,
                             std::uint32_t flags,
                             tenon_view* out,
                             tenon_hold* hold,
                             tenon_error* err) {
  *out = {};
  *hold = {};
  out->fd = -1;
  const std::uint64_t limit = (flags & TENON_READ_TO_END) != 0 ? log_.end() : log_.frame_end();
  if (phys < log_.min()) {
    return plugin::fail(err, TENON_RANGE_LOW, "the position is below the log");
  }
  if (phys >= limit) {
    return plugin::fail(
        err, phys == limit ? TENON_RANGE_END : TENON_RANGE_HIGH, "the position is not written yet");
  }
  FilePin pin = log_.files().pin(phys);
  if (!pin) {
    return plugin::fail(err, TENON_GAP, "the file of the position is gone");
  }
  const std::uint64_t stop = std::min({limit, pin->end(), phys + max_bytes});
  *out = view_of(*pin.get(), phys, static_cast<std::uint32_t>(stop - phys));
  fill_hold(hold, std::move(pin), FilePin{});
  return TENON_OK;
}

Result<std::int64_t> Store::store_time_of(const Unit& unit) {
  const std::uint8_t* at = nullptr;
  const FilePin pin = log_.pin_range(unit.phys, unit.bytes, at);
  if (!pin || unit.is_filler()) {
    return Error{Errc::kNotFound, "the message is not in the log any more"};
  }
  TENON_TRY(const auto m, store::parse_record({at, unit.bytes}, false));
  return m.store_ms;
}

tenon_status Store::time_of(tenon_queue q,
                            std::int64_t offset,
                            std::int64_t* ms,
                            tenon_error* err) {
  tenon_status status = TENON_OK;
  ConsumeQueue* queue = live_queue(q, status);
  Unit unit;
  if (queue == nullptr) {
    return status;
  }
  if (offset < queue->min_offset() || queue->read(offset, &unit, 1) == 0) {
    return plugin::fail(err, TENON_NOT_FOUND, "no such offset");
  }
  const auto time = store_time_of(unit);
  if (!time) {
    return plugin::fail(err, TENON_NOT_FOUND, time.error().detail);
  }
  *ms = time.value();
  return TENON_OK;
}

/// Where the file of an entry ends, and where the search of 4.9.8 begins: that one looks into one
/// file only. It takes the first whose modification time is not below ms; we take the time of its
/// last entry, which differs only when a copied or reopened store has lost those times.
std::pair<std::int64_t, std::int64_t> Store::file_of_time(ConsumeQueue& queue, std::int64_t ms) {
  const std::int64_t max = queue.max_offset();
  const auto per_file = static_cast<std::int64_t>(queue.files().file_bytes() / kUnitBytes);
  std::int64_t begin = queue.min_offset();
  while (begin / per_file < (max - 1) / per_file) {
    const std::int64_t last = begin / per_file * per_file + per_file - 1;
    const auto time = time_at(queue, last);
    if (time && *time >= ms) {
      break;
    }
    begin = last + 1;
  }
  return {begin, std::min(max, begin / per_file * per_file + per_file)};
}

std::optional<std::int64_t> Store::time_at(ConsumeQueue& queue, std::int64_t offset) {
  Unit unit;
  if (queue.read(offset, &unit, 1) == 0) {
    return std::nullopt;
  }
  const auto time = store_time_of(unit);
  return time ? std::optional<std::int64_t>(time.value()) : std::nullopt;
}

tenon_status Store::offset_by_time(
    tenon_queue q, std::int64_t ms, std::uint32_t boundary, std::int64_t* out, tenon_error* err) {
  tenon_status status = TENON_OK;
  ConsumeQueue* queue = live_queue(q, status);
  *out = 0;
  if (queue == nullptr) {
    return status;
  }
  if (boundary > TENON_BOUNDARY_UPPER) {
    return plugin::fail(err, TENON_INVALID, "unknown boundary");
  }
  if (queue->min_offset() >= queue->max_offset()) {
    *out = boundary == TENON_BOUNDARY_NEAREST ? 0 : queue->max_offset();
    return TENON_OK;
  }
  const auto time = [&](std::int64_t offset) { return time_at(*queue, offset); };
  if (boundary == TENON_BOUNDARY_NEAREST) {
    const auto [low, high] = file_of_time(*queue, ms);
    *out = store::nearest_offset(low, high, ms, time);
  } else {
    *out = store::bound_offset(
        queue->min_offset(), queue->max_offset(), ms, boundary == TENON_BOUNDARY_UPPER, time);
  }
  return TENON_OK;
}

tenon_status Store::query_keys(const tenon_key_query* q,
                               tenon_extent* out,
                               std::size_t stride,
                               tenon_key_result* r,
                               tenon_error* err) {
  r->count = 0;
  if (!options_.key_index) {
    return plugin::fail(err, TENON_UNSUPPORTED, "the key index is switched off");
  }
  // The index follows the log at its own pace: what was dispatched before the question counts.
  const std::uint64_t target = dispatched_.load(std::memory_order_acquire);
  if (indexed_.load(std::memory_order_acquire) < target && is_active()) {
    follower_waker_.wake();
    std::unique_lock lock(indexed_mutex_);
    indexed_cv_.wait_for(lock, std::chrono::seconds(1), [&] {
      return indexed_.load(std::memory_order_acquire) >= target || index_error_ || !is_active();
    });
  }
  const std::vector<std::uint64_t> hits =
      index_.query(plugin::text(q->topic), plugin::text(q->key), q->begin_ms, q->end_ms, q->max);
  std::uint32_t count = 0;
  for (const std::uint64_t phys : hits) {
    const std::uint8_t* at = nullptr;
    const FilePin pin = log_.pin_range(phys, store::kBlankBytes, at);
    const auto head =
        pin ? store::peek_frame(
                  {at, static_cast<std::size_t>(std::min(log_.end(), pin->end()) - phys)})
            : store::FrameHead{};
    if (head.kind == store::FrameKind::kRecord) {
      auto& extent = *TENON_AT_MUT(tenon_extent, out, stride, count++);
      extent = {phys, head.bytes, 0};
    }
  }
  const KeyIndex::LastUpdate last = index_.last_update();
  r->count = count;
  r->last_update_ms = last.ms;
  r->last_update_phys = last.phys;
  return TENON_OK;
}

std::uint32_t Store::health() const noexcept {
  std::uint32_t bits = 0;
  const std::int64_t since = append_since_ms_.load(std::memory_order_relaxed);
  const std::int64_t held = since == 0 ? 0 : host_.wall_ms() - since;
  if (held > 1000 && held < 10'000'000) {
    bits |= TENON_HEALTH_PAGE_CACHE_BUSY;
  }
  if (failed_.load(std::memory_order_acquire) != TENON_OK ||
      queue_error_.load(std::memory_order_relaxed)) {
    bits |= TENON_HEALTH_NOT_WRITABLE;
  }
  if (disk_full_.load(std::memory_order_relaxed) || append_full_.load(std::memory_order_relaxed)) {
    bits |= TENON_HEALTH_DISK_FULL;
  }
  if (index_error_.load(std::memory_order_relaxed) ||
      queue_error_.load(std::memory_order_relaxed)) {
    bits |= TENON_HEALTH_INDEX_ERROR;
  }
  if (!is_active()) {
    bits |= TENON_HEALTH_NOT_READABLE | TENON_HEALTH_NOT_WRITABLE;
  }
  return bits;
}

tenon_status Store::log_bounds(tenon_log_bounds* out) {
  // Ascending: each is read before one that is never smaller, so the order holds in the snapshot.
  out->min_phys = log_.min();
  out->dispatched = dispatched_.load(std::memory_order_acquire);
  out->durable = log_.durable();
  out->visible_limit = visible_limit_.load(std::memory_order_acquire);
  out->frame_end = log_.frame_end();
  out->end = log_.end();
  out->health = health();
  return TENON_OK;
}

}  // namespace tenon::store_file
