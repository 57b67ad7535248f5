// Reading, searching, dropping.
#include "store.h"

#include "tenon/store/light_queues.h"
#include "tenon/store/time_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

namespace tenon::store_memory {

namespace {

using Pinned = std::vector<std::shared_ptr<Segment>>;

void release_pinned(void* owner, std::uint64_t) noexcept {
  delete static_cast<Pinned*>(owner);
}

tenon_hold hold_of(Pinned pinned) {
  if (pinned.empty()) {
    return {};
  }
  return {new Pinned(std::move(pinned)), &release_pinned, 0};
}

}  // namespace

tenon_status Store::open_queue(tenon_str topic,
                               std::uint32_t queue_id,
                               std::uint32_t flags,
                               tenon_queue* out,
                               tenon_error* err) {
  const std::string_view name = plugin::text(topic);
  const bool create = (flags & TENON_OPEN_CREATE) != 0;
  if (create && (!store::is_storable_topic(name) || queue_id > 0x7fff'ffffu)) {
    return plugin::fail(err, TENON_INVALID, "the topic is empty, too long or no file name");
  }
  const std::scoped_lock lock(mutex_);
  const Queue* queue = find(name, queue_id, create);
  if (queue == nullptr) {
    return plugin::fail(err, TENON_NOT_FOUND, "no such queue");
  }
  *out = queue->handle;
  return TENON_OK;
}

tenon_status Store::queue_bounds(tenon_queue q, tenon_queue_bounds* out) {
  const std::scoped_lock lock(mutex_);
  tenon_status status = TENON_OK;
  if (const Queue* queue = at(q, status)) {
    out->min_offset = queue->min;
    out->max_offset = queue->max();
    out->min_phys = queue->entries.empty() ? 0 : queue->entries.front().phys;
    out->last_store_ms = queue->entries.empty() ? 0 : queue->entries.back().store_ms;
  }
  return status;
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
  const std::scoped_lock lock(mutex_);
  tenon_status status = TENON_OK;
  const Queue* queue = at(q, status);
  if (queue == nullptr) {
    return status;
  }
  if (queue->max() == 0) {
    return TENON_EMPTY;
  }
  if (from < queue->min) {
    *next = queue->min;
    return TENON_RANGE_LOW;
  }
  if (from >= queue->max()) {
    *next = queue->max();
    return from == queue->max() ? TENON_RANGE_END : TENON_RANGE_HIGH;
  }
  const auto first = static_cast<std::size_t>(from - queue->min);
  *n = std::min(cap, queue->entries.size() - first);
  for (std::size_t i = 0; i < *n; ++i) {
    const Entry& entry = queue->entries[first + i];
    auto& e = *TENON_AT_MUT(tenon_index_entry, out, stride, i);
    e = {};
    e.phys = entry.phys;
    e.bytes = entry.bytes;
    e.tags_code = entry.tags_code;
  }
  *next = from + static_cast<std::int64_t>(*n);
  return TENON_OK;
}

tenon_status Store::fetch(const tenon_extent* ext,
                          std::size_t n,
                          std::uint32_t,
                          tenon_view* out,
                          std::size_t stride,
                          std::uint64_t* next_file,
                          tenon_hold* hold,
                          tenon_error*) {
  Pinned pinned;
  const std::scoped_lock lock(mutex_);
  if (next_file != nullptr) {
    *next_file = 0;
  }
  for (std::size_t i = 0; i < n; ++i) {
    auto& view = *TENON_AT_MUT(tenon_view, out, stride, i);
    view = {};
    view.phys = ext[i].phys;
    view.fd = -1;
    std::shared_ptr<Segment> segment = log_.find(ext[i].phys, ext[i].bytes);
    const std::uint8_t* at =
        segment == nullptr ? nullptr : segment->data + (ext[i].phys - segment->base);
    const auto m = at == nullptr ? Result<proto::MessageView>(Error{Errc::kNotFound, {}})
                                 : store::parse_record({at, ext[i].bytes}, false);
    if (!m || m.value().total_bytes != static_cast<std::int32_t>(ext[i].bytes) ||
        m.value().phys_offset != static_cast<std::int64_t>(ext[i].phys)) {
      if (next_file != nullptr && *next_file == 0) {
        *next_file = log_.next_base(ext[i].phys);
      }
      continue;
    }
    view.ptr = at;
    view.len = ext[i].bytes;
    if (pinned.empty() || pinned.back() != segment) {
      pinned.push_back(std::move(segment));
    }
  }
  *hold = hold_of(std::move(pinned));
  return TENON_OK;
}

void Store::hold_segment(std::shared_ptr<Segment> segment,
                         std::uint64_t phys,
                         std::size_t bytes,
                         tenon_view& view,
                         tenon_hold* hold) {
  view.ptr = segment->data + (phys - segment->base);
  view.len = static_cast<std::uint32_t>(bytes);
  view.phys = phys;
  Pinned pinned;
  pinned.push_back(std::move(segment));
  *hold = hold_of(std::move(pinned));
}

tenon_status Store::message_at(std::uint64_t phys,
                               tenon_view* out,
                               tenon_hold* hold,
                               tenon_error* err) {
  *out = {};
  *hold = {};
  out->fd = -1;
  const std::scoped_lock lock(mutex_);
  const auto segment = log_.find(phys, store::kBlankBytes);
  if (segment == nullptr) {
    return plugin::fail(err, TENON_NOT_FOUND, "the offset is outside the log");
  }
  const std::uint64_t stop = std::min(log_.end(), segment->end());
  const auto m = store::parse_record(
      {segment->data + (phys - segment->base), static_cast<std::size_t>(stop - phys)}, false);
  if (!m || m.value().phys_offset != static_cast<std::int64_t>(phys)) {
    return plugin::fail(err, TENON_CORRUPT, "no record begins at the offset");
  }
  hold_segment(segment, phys, static_cast<std::size_t>(m.value().total_bytes), *out, hold);
  return TENON_OK;
}

tenon_status Store::read_log(std::uint64_t phys,
                             std::uint32_t max_bytes,
                             std::uint32_t,
                             tenon_view* out,
                             tenon_hold* hold,
                             tenon_error* err) {
  *out = {};
  *hold = {};
  out->fd = -1;
  const std::scoped_lock lock(mutex_);
  if (phys < log_.min()) {
    return plugin::fail(err, TENON_RANGE_LOW, "the position is below the log");
  }
  const auto segment = log_.find(phys, 1);
  if (segment == nullptr) {
    return plugin::fail(err,
                        phys == log_.end() ? TENON_RANGE_END : TENON_RANGE_HIGH,
                        "the position is not written yet");
  }
  const std::uint64_t stop = std::min({log_.end(), segment->end(), phys + max_bytes});
  hold_segment(segment, phys, static_cast<std::size_t>(stop - phys), *out, hold);
  return TENON_OK;
}

tenon_status Store::log_bounds(tenon_log_bounds* out) {
  const std::scoped_lock lock(mutex_);
  out->min_phys = log_.min();
  out->frame_end = out->end = out->durable = out->dispatched = log_.end();
  out->visible_limit = TENON_NO_LIMIT;
  out->health = 0;
  if (!active_) {
    out->health = TENON_HEALTH_NOT_READABLE | TENON_HEALTH_NOT_WRITABLE;
  }
  return TENON_OK;
}

tenon_status Store::offset_by_time(
    tenon_queue q, std::int64_t ms, std::uint32_t boundary, std::int64_t* out, tenon_error* err) {
  const std::scoped_lock lock(mutex_);
  tenon_status status = TENON_OK;
  *out = 0;
  const Queue* queue = at(q, status);
  if (queue == nullptr) {
    return status;
  }
  if (boundary > TENON_BOUNDARY_UPPER) {
    return plugin::fail(err, TENON_INVALID, "unknown boundary");
  }
  if (queue->entries.empty()) {
    *out = boundary == TENON_BOUNDARY_NEAREST ? 0 : queue->max();
    return TENON_OK;
  }
  const auto time = [&](std::int64_t offset) {
    return std::optional<std::int64_t>(
        queue->entries[static_cast<std::size_t>(offset - queue->min)].store_ms);
  };
  *out = boundary == TENON_BOUNDARY_NEAREST
             ? store::nearest_offset(queue->min, queue->max(), ms, time)
             : store::bound_offset(
                   queue->min, queue->max(), ms, boundary == TENON_BOUNDARY_UPPER, time);
  return TENON_OK;
}

tenon_status Store::time_of(tenon_queue q,
                            std::int64_t offset,
                            std::int64_t* ms,
                            tenon_error* err) {
  const std::scoped_lock lock(mutex_);
  tenon_status status = TENON_OK;
  const Queue* queue = at(q, status);
  if (queue == nullptr) {
    return status;
  }
  if (offset < queue->min || offset >= queue->max()) {
    return plugin::fail(err, TENON_NOT_FOUND, "no such offset");
  }
  *ms = queue->entries[static_cast<std::size_t>(offset - queue->min)].store_ms;
  return TENON_OK;
}

tenon_status Store::request_flush(std::uint64_t) {
  return TENON_OK;
}

tenon_status Store::flush_now(std::uint64_t, std::uint32_t, tenon_error*) {
  return TENON_OK;
}

tenon_status Store::query_keys(const tenon_key_query* q,
                               tenon_extent* out,
                               std::size_t stride,
                               tenon_key_result* r,
                               tenon_error*) {
  const std::scoped_lock lock(mutex_);
  r->count = 0;
  r->last_update_ms = last_ms_;
  r->last_update_phys = last_key_phys_;
  const auto it =
      keys_.find(store::key_hash(plugin::text(q->topic), plugin::text(q->key), scratch_));
  if (it == keys_.end()) {
    return TENON_OK;
  }
  const auto& hits = it->second;
  for (auto hit = hits.rbegin(); hit != hits.rend() && r->count < q->max; ++hit) {
    if (hit->store_ms >= q->begin_ms && hit->store_ms <= q->end_ms) {
      *TENON_AT_MUT(tenon_extent, out, stride, r->count++) = {hit->phys, hit->bytes, 0};
    }
  }
  return TENON_OK;
}

tenon_status Store::retention(const tenon_retention* p, tenon_retention_result* r, tenon_error*) {
  const std::scoped_lock lock(mutex_);
  tenon_retention_result result{};
  const bool round = (p->flags & (TENON_RETENTION_DELETE_HOUR | TENON_RETENTION_MANUAL)) != 0;
  while (round && result.files < p->max_files && log_.count() > 1 &&
         p->now_ms >= log_.first()->newest_ms + p->keep_ms) {
    drop_oldest();
    ++result.files;
    result.bytes += segment_bytes_;
  }
  result.min_phys = log_.min();
  result.disk_pct_x100 =
      static_cast<std::uint32_t>(log_.count() * segment_bytes_ * 10'000 / limit_bytes_);
  result.size = std::min<std::uint32_t>(r->size, sizeof result);
  std::memcpy(r, &result, result.size);
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
  const std::scoped_lock lock(mutex_);
  for (Queue& queue : queues_) {
    if (!queue.dropped && !kept.contains(queue.topic) && !store::is_light(queue.topic)) {
      names_.erase({queue.topic, queue.id});
      queue.dropped = true;
      queue.entries.clear();
      ++*dropped;
    }
  }
  return TENON_OK;
}

void Store::stats(const tenon_sink* out) {
  std::pair<const char*, std::string> rows[4];
  {
    const std::scoped_lock lock(mutex_);
    rows[0] = {"commitLogMinOffset", fmt::format("{}", log_.min())};
    rows[1] = {"commitLogMaxOffset", fmt::format("{}", log_.end())};
    rows[2] = {"dispatchBehindBytes", "0"};
    rows[3] = {"storeMemoryBytes", fmt::format("{}", log_.count() * segment_bytes_)};
  }
  for (const auto& [key, value] : rows) {
    const tenon_kv kv{plugin::str(key), plugin::str(value)};
    out->put(out->ctx, &kv, 1);
  }
}

}  // namespace tenon::store_memory
