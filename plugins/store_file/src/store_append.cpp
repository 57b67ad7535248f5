// The append sequence: records into the log, offsets, and the queue units in line.
#include "store.h"

#include "tenon/base/endian.h"
#include "tenon/store/light_queues.h"

#include <cstring>

namespace tenon::store_file {

namespace {
/// A failure of the whole store ends the batch; anything else concerns one record.
bool is_store_wide(tenon_status s) noexcept {
  return s == TENON_FULL || s == TENON_IO || s == TENON_CLOSED || s == TENON_NOMEM;
}
}  // namespace

/// One call of append.
struct Store::Batch {
  std::int64_t now_ms = 0;
  bool in_line = false;  ///< this call holds the dispatch role
  bool wants_durable = false;
  std::uint64_t dispatched = 0;  ///< up to here, while in_line
  std::uint64_t records = 0;
  tenon_error* err = nullptr;
};

ConsumeQueue* Store::queue_of(const tenon_record& r, tenon_queue& handle, tenon_status& status) {
  ConsumeQueue* queue = nullptr;
  if (r.queue != 0) {
    handle = r.queue;
    queue = queues_.at(handle);
    if (queue == nullptr) {
      status = TENON_NOT_FOUND;
    } else if (queue->is_dropped()) {
      status = TENON_STALE;
    } else if (queue->id() != r.queue_id || queue->topic() != plugin::text(r.topic)) {
      status = TENON_INVALID;  // the log would say something else than the queue
    }
  } else {
    queue = queues_.find_or_create(plugin::text(r.topic), r.queue_id, handle);
    status = queue == nullptr ? TENON_FULL : TENON_OK;
  }
  return status < 0 ? nullptr : queue;
}

tenon_status Store::append_one(const tenon_record& r, Batch& batch, tenon_append_result& out) {
  const char* why = "";
  tenon_status status = store::check_record(r, &why);
  if (status < 0) {
    return plugin::fail(batch.err, status, why);
  }
  tenon_queue handle = 0;
  ConsumeQueue* queue = store::has_queue_entry(r.sys_flag) ? queue_of(r, handle, status) : nullptr;
  if (status < 0) {
    return plugin::fail(batch.err, status, "the queue handle does not fit the record");
  }
  if ((r.flags & TENON_RECORD_BATCH) != 0) {
    if (options_.multi_dispatch && store::claims_light_offsets(r)) [[unlikely]] {
      return plugin::fail(batch.err, TENON_INVALID, "a message of the batch has queue offsets");
    }
    return append_batch(r, *queue, handle, batch, out);
  }
  if (options_.multi_dispatch) [[unlikely]] {
    return append_encoded(with_light_offsets(r), queue, handle, batch, out);
  }
  return append_encoded(r, queue, handle, batch, out);
}

/// A record by itself. @param queue  null: it has no entry
tenon_status Store::append_encoded(const tenon_record& r,
                                   ConsumeQueue* queue,
                                   tenon_queue handle,
                                   Batch& batch,
                                   tenon_append_result& out) {
  const std::size_t bytes = store::encoded_bytes(r);
  auto room = log_.room(bytes);
  if (!room) [[unlikely]] {
    return store::report(batch.err, room.error());
  }
  const store::Stamp stamp{.queue_offset = queue != nullptr ? queue->next() : 0,
                           .phys = log_.end(),
                           .store_ms = r.store_ms != 0 ? r.store_ms : batch.now_ms};
  std::uint8_t* at = room.value();
  store::encode(r, bytes, stamp, at);
  log_.commit(bytes);
  out.bytes = static_cast<std::uint32_t>(bytes);
  out.phys = stamp.phys;
  out.queue_offset = stamp.queue_offset;
  out.store_ms = stamp.store_ms;
  ++batch.records;
  if (queue != nullptr) {
    queue->advance(1);
    const Unit unit{stamp.phys, out.bytes, r.tags_code};
    const tenon_bytes properties{at + bytes - r.properties.len, r.properties.len};
    if (batch.in_line) {
      batch.in_line =
          dispatch_one(*queue, handle, stamp.queue_offset, unit, stamp.store_ms, properties);
    }
    if (options_.multi_dispatch) [[unlikely]] {
      advance_light_targets();
      batch.in_line = batch.in_line && dispatch_light_targets(unit, stamp.store_ms, properties);
    }
  }
  if (batch.in_line) {
    batch.dispatched = stamp.phys + bytes;
  }
  return TENON_OK;
}

/// A batch is one append: all its records in one file (spec: store §4.5).
tenon_status Store::append_batch(const tenon_record& r,
                                 ConsumeQueue& queue,
                                 tenon_queue handle,
                                 Batch& batch,
                                 tenon_append_result& out) {
  auto room = log_.room(r.body.len);
  if (!room) {
    return store::report(batch.err, room.error());
  }
  std::uint8_t* at = room.value();
  store::Stamp stamp{.queue_offset = queue.next(),
                     .phys = log_.end(),
                     .store_ms = r.store_ms != 0 ? r.store_ms : batch.now_ms};
  out.bytes = static_cast<std::uint32_t>(r.body.len);
  out.phys = stamp.phys;
  out.queue_offset = stamp.queue_offset;
  out.store_ms = stamp.store_ms;
  // The first length word comes last: a killed process leaves the whole batch or nothing of it.
  std::memcpy(at + 4, r.body.ptr + 4, r.body.len - 4);
  std::size_t pos = 0;
  store::BatchItem item;
  for (std::uint32_t i = 0; store::next_batch_item(r.body, pos, item); ++i) {
    store::patch(at + item.at,
                 item.store_ms_at,
                 {stamp.queue_offset + i, stamp.phys + item.at, stamp.store_ms});
    if (r.inner_phys != nullptr) {
      r.inner_phys[i] = stamp.phys + item.at;
    }
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(at, r.body.ptr, 4);
  log_.commit(r.body.len);
  queue.advance(r.count);
  batch.records += r.count;
  pos = 0;
  for (std::int64_t i = 0; batch.in_line && store::next_batch_item(r.body, pos, item); ++i) {
    const std::string_view properties = item.properties;
    const auto from = static_cast<std::size_t>(
        reinterpret_cast<const std::uint8_t*>(properties.data()) - r.body.ptr);
    batch.in_line = dispatch_one(queue,
                                 handle,
                                 stamp.queue_offset + i,
                                 {stamp.phys + item.at, item.bytes, item.tags_code},
                                 stamp.store_ms,
                                 {properties.empty() ? at : at + from, properties.size()});
    if (batch.in_line) {
      batch.dispatched = stamp.phys + item.at + item.bytes;
    }
  }
  return TENON_OK;
}

tenon_status Store::append(const tenon_record* recs,
                           std::size_t stride,
                           std::size_t n,
                           tenon_append_result* out,
                           std::size_t out_stride,
                           tenon_error* err) {
  Batch batch;
  batch.err = err;
  batch.now_ms = host_.wall_ms();
  tenon_status whole = is_active() ? failed_.load(std::memory_order_acquire) : TENON_CLOSED;
  if (disk_full_.load(std::memory_order_relaxed)) [[unlikely]] {
    whole = whole == TENON_OK ? TENON_FULL : whole;  // spec: store §10.3
  }
  append_since_ms_.store(batch.now_ms, std::memory_order_relaxed);
  if (whole == TENON_OK && visible_limit_.load(std::memory_order_acquire) == TENON_NO_LIMIT &&
      dispatched_.load(std::memory_order_acquire) == log_.end() &&
      !queue_error_.load(std::memory_order_relaxed) && take_dispatch_role()) {
    batch.dispatched = dispatched_.load(std::memory_order_relaxed);
    batch.in_line = batch.dispatched == log_.end();
    if (!batch.in_line) {
      give_dispatch_role();
    }
  }
  struct Leave {  // also when a new queue finds no memory
    Store& store;
    bool has_role;
    ~Leave() {
      store.append_since_ms_.store(0, std::memory_order_relaxed);
      if (has_role) {
        store.give_dispatch_role();
      }
    }
  } leave{*this, batch.in_line};
  for (std::size_t i = 0; i < n; ++i) {
    const tenon_record& r = *TENON_AT(tenon_record, recs, stride, i);
    tenon_append_result result{};
    result.status = whole != TENON_OK ? whole : append_one(r, batch, result);
    if (whole == TENON_OK && result.status < 0 && is_store_wide(result.status)) {
      whole = result.status;
    }
    if (result.status >= 0) {
      last_append_ms_.store(result.store_ms, std::memory_order_relaxed);
      batch.wants_durable |= (r.flags & TENON_RECORD_WANT_DURABLE) != 0;
    }
    *TENON_AT_MUT(tenon_append_result, out, out_stride, i) = result;
  }
  if (whole == TENON_FULL && !disk_full_.load(std::memory_order_relaxed)) {
    append_full_.store(true, std::memory_order_relaxed);
  } else if (batch.records > 0) {
    append_full_.store(false, std::memory_order_relaxed);
  }
  if (leave.has_role) {
    flush_arrivals(batch.dispatched);
    queues_.relieve();
    give_dispatch_role();
    leave.has_role = false;
  }
  if (batch.records > 0) {
    finish_append(batch);
  }
  return TENON_OK;
}

void Store::finish_append(Batch& batch) {
  appended_records_.fetch_add(batch.records, std::memory_order_relaxed);
  const std::uint64_t end = log_.end();
  if (!batch.in_line) {
    follower_waker_.wake();
  }
  if (options_.sync_flush && batch.wants_durable) {
    request_flush(end);
  }
  const std::uint64_t window = window_.load(std::memory_order_relaxed);
  if (log_.reserved() < end + window / 2 || queues_.has_many_mappings()) {
    helper_waker_.wake();
  }
  std::uint32_t changed = TENON_CHANGED_END;
  if (batch.in_line) {
    changed |= TENON_CHANGED_DISPATCHED;
  }
  publish(changed);
}

}  // namespace tenon::store_file
