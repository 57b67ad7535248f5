// Life cycle and appending.
#include "store.h"

#include "tenon/store/light_queues.h"

#include <algorithm>
#include <cstring>

namespace tenon::store_memory {

Store::Store(plugin::Host& host)
    : host_(host) {
  const plugin::Config c = host.config();
  segment_bytes_ = c.get("segment", plugin::ByteSize{8u << 20}).value;
  limit_bytes_ = c.get("memory_limit", plugin::ByteSize{256u << 20}).value;
  multi_dispatch_ = c.get("multi_dispatch", false);
  light_queues_max_ = c.get("light_queues_max", std::uint32_t{20'000});
  if (segment_bytes_ < 1024 || segment_bytes_ > (1u << 30)) {
    c.reject("segment", "must be from 1KiB to 1GiB");
  }
  if (limit_bytes_ < 2 * segment_bytes_) {
    c.reject("memory_limit", "must be at least two segments");
  }
  log_.configure(segment_bytes_);
  arrivals_.reserve(256);
}

void Store::activate() {
  const std::scoped_lock lock(mutex_);
  active_ = true;
}

void Store::deactivate() {
  const std::scoped_lock lock(mutex_);
  active_ = false;
}

tenon_status Store::recover(const tenon_recover_opts*, tenon_recover_result* r, tenon_error* err) {
  const std::scoped_lock lock(mutex_);
  if (active_) {
    return plugin::fail(err, TENON_INVALID, "the store is active");
  }
  log_.clear();
  names_.clear();
  queues_.clear();
  keys_.clear();
  last_ms_ = 0;
  last_key_phys_ = 0;
  lights_ = 0;
  if (r != nullptr) {
    tenon_recover_result empty{};
    empty.size = std::min<std::uint32_t>(r->size, sizeof empty);
    std::memcpy(r, &empty, empty.size);
  }
  return TENON_OK;
}

Store::Queue* Store::find(std::string_view topic, std::uint32_t id, bool create) {
  const auto it = names_.find(std::pair{std::string(topic), id});
  if (it != names_.end()) {
    return it->second;
  }
  if (!create) {
    return nullptr;
  }
  Queue& queue = queues_.emplace_back();
  queue.topic = topic;
  queue.id = id;
  queue.handle = queues_.size();
  names_[{queue.topic, id}] = &queue;
  lights_ += store::is_light(queue.topic) ? 1 : 0;
  return &queue;
}

Store::Queue* Store::at(tenon_queue handle, tenon_status& status) {
  if (handle == 0 || handle > queues_.size()) {
    status = TENON_NOT_FOUND;
    return nullptr;
  }
  Queue& queue = queues_[handle - 1];
  status = queue.dropped ? TENON_STALE : TENON_OK;
  return queue.dropped ? nullptr : &queue;
}

/// Messages below the new start of the log go from queues and key index too.
void Store::drop_oldest() {
  dropped_.push_back(log_.take_first());  // arrivals of this call may still point into it
  const std::vector<std::int32_t> hashes = std::move(dropped_.back()->key_hashes);
  const std::uint64_t min = log_.min();
  for (Queue& queue : queues_) {
    while (!queue.entries.empty() && queue.entries.front().phys < min) {
      queue.entries.pop_front();
      ++queue.min;
    }
  }
  for (const std::int32_t hash : hashes) {
    const auto it = keys_.find(hash);
    if (it == keys_.end()) {
      continue;
    }
    while (!it->second.empty() && it->second.front().phys < min) {
      it->second.pop_front();
    }
    if (it->second.empty()) {
      keys_.erase(it);
    }
  }
}

void Store::make_segment() {
  while (log_.count() > 1 && (log_.count() + 1) * segment_bytes_ > limit_bytes_) {
    drop_oldest();
  }
  log_.roll();
}

void Store::add_keys(std::uint64_t phys, std::uint32_t bytes) {
  const auto segment = log_.find(phys, bytes);
  const auto m = store::parse_record({segment->data + (phys - segment->base), bytes}, false);
  if (!m) {
    return;
  }
  store::for_each_key(m.value(), [&](std::string_view key) {
    const std::int32_t hash = store::key_hash(m.value().topic, key, scratch_);
    keys_[hash].push_back({phys, bytes, m.value().store_ms});
    segment->key_hashes.push_back(hash);
    last_key_phys_ = phys;
  });
}

void Store::add_entry(const tenon_record&,
                      Queue& queue,
                      const Entry& entry,
                      tenon_bytes properties) {
  const std::int64_t offset = queue.max();
  queue.entries.push_back(entry);
  if (host_.wants_arrivals()) {
    arrivals_.push_back({queue.handle,
                         plugin::str(queue.topic),
                         queue.id,
                         0,
                         offset,
                         entry.tags_code,
                         entry.store_ms,
                         entry.phys,
                         {},
                         properties});
  }
}

/// Writes a record or a batch at the end of the log, which has room for it.
tenon_status Store::add_frames(const tenon_record& r, Queue* queue, tenon_append_result& out) {
  std::uint8_t* at = log_.room();
  const store::Stamp stamp{.queue_offset = queue == nullptr ? 0 : queue->max(),
                           .phys = log_.end(),
                           .store_ms = out.store_ms};
  if ((r.flags & TENON_RECORD_BATCH) == 0) {
    store::encode(r, out.bytes, stamp, at);
    log_.commit(out.bytes, stamp.store_ms);
    const Entry entry{stamp.phys, out.bytes, r.tags_code, stamp.store_ms};
    const tenon_bytes properties{at + out.bytes - r.properties.len, r.properties.len};
    if (queue != nullptr) {
      add_entry(r, *queue, entry, properties);
    }
    for (const auto& [light, offset] : light_targets_) {
      if (light->max() == offset) {  // a name that is there twice counts once
        add_entry(r, *light, entry, properties);
      }
    }
    add_keys(stamp.phys, out.bytes);
  } else {
    std::memcpy(at, r.body.ptr, r.body.len);
    log_.commit(out.bytes, stamp.store_ms);
    std::size_t pos = 0;
    store::BatchItem item;
    for (std::uint32_t i = 0; store::next_batch_item(r.body, pos, item); ++i) {
      const std::uint64_t phys = stamp.phys + item.at;
      store::patch(at + item.at, item.store_ms_at, {stamp.queue_offset + i, phys, stamp.store_ms});
      if (r.inner_phys != nullptr) {
        r.inner_phys[i] = phys;
      }
      const auto from = static_cast<std::size_t>(
          reinterpret_cast<const std::uint8_t*>(item.properties.data()) - r.body.ptr);
      add_entry(r,
                *queue,
                {phys, item.bytes, item.tags_code, stamp.store_ms},
                {item.properties.empty() ? at : at + from, item.properties.size()});
      add_keys(phys, item.bytes);
    }
  }
  out.phys = stamp.phys;
  out.queue_offset = stamp.queue_offset;
  last_ms_ = stamp.store_ms;
  return TENON_OK;
}

tenon_status Store::append_one(const tenon_record& r, tenon_append_result& out, tenon_error* err) {
  const char* why = "";
  tenon_status status = store::check_record(r, &why);
  if (status < 0) {
    return plugin::fail(err, status, why);
  }
  Queue* queue = nullptr;
  if (store::has_queue_entry(r.sys_flag)) {
    queue = r.queue != 0 ? at(r.queue, status) : find(plugin::text(r.topic), r.queue_id, true);
    if (queue == nullptr) {
      return status;
    }
    if (queue->id != r.queue_id || queue->topic != plugin::text(r.topic)) {
      return plugin::fail(err, TENON_INVALID, "the queue handle does not fit the record");
    }
  }
  light_targets_.clear();
  if (!multi_dispatch_) {
    return append_checked(r, queue, out, err);
  }
  if ((r.flags & TENON_RECORD_BATCH) != 0) {
    return store::claims_light_offsets(r)
               ? plugin::fail(err, TENON_INVALID, "a message of the batch has queue offsets")
               : append_checked(r, queue, out, err);
  }
  return append_checked(with_light_offsets(r), queue, out, err);
}

tenon_record Store::with_light_offsets(const tenon_record& r) {
  const auto changed = store::with_light_offsets(
      r, light_text_, [this](std::string_view name) -> std::optional<std::int64_t> {
        Queue* queue = find(name, store::kLightQueueId, lights_ < light_queues_max_);
        if (queue == nullptr) {
          return std::nullopt;
        }
        light_targets_.emplace_back(queue, queue->max());
        return queue->max();
      });
  if (!changed.entered) {
    light_targets_.clear();
  }
  return changed.record;
}

tenon_status Store::append_checked(const tenon_record& r,
                                   Queue* queue,
                                   tenon_append_result& out,
                                   tenon_error* err) {
  const std::size_t bytes =
      (r.flags & TENON_RECORD_BATCH) != 0 ? r.body.len : store::encoded_bytes(r);
  if (bytes + store::kBlankBytes > segment_bytes_) {
    return plugin::fail(err, TENON_INVALID, "the record is longer than a segment");
  }
  if (log_.needs_segment(bytes)) {
    make_segment();
  }
  out.bytes = static_cast<std::uint32_t>(bytes);
  return add_frames(r, queue, out);
}

tenon_status Store::append(const tenon_record* recs,
                           std::size_t stride,
                           std::size_t n,
                           tenon_append_result* out,
                           std::size_t out_stride,
                           tenon_error* err) {
  const std::int64_t now = host_.wall_ms();
  tenon_progress p{};
  {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < n; ++i) {
      const tenon_record& r = *TENON_AT(tenon_record, recs, stride, i);
      tenon_append_result result{};
      result.store_ms = r.store_ms != 0 ? r.store_ms : now;
      result.status = active_ ? append_one(r, result, err) : TENON_CLOSED;
      if (result.status < 0) {
        result = {result.status, 0, 0, 0, 0};
      }
      *TENON_AT_MUT(tenon_append_result, out, out_stride, i) = result;
    }
    p.end = p.durable = p.dispatched = log_.end();
    p.min_phys = log_.min();
  }
  // Appends are serial, so nobody else touches the arrivals.
  for (std::size_t i = 0; i < arrivals_.size(); i += 256) {
    host_.arrivals(arrivals_.data() + i, std::min<std::size_t>(256, arrivals_.size() - i));
  }
  arrivals_.clear();
  {
    const std::scoped_lock lock(mutex_);
    dropped_.clear();
  }
  p.size = sizeof p;
  p.changed =
      TENON_CHANGED_END | TENON_CHANGED_DURABLE | TENON_CHANGED_DISPATCHED | TENON_CHANGED_MIN_PHYS;
  host_.progress(p);
  return TENON_OK;
}

}  // namespace tenon::store_memory
