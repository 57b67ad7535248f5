// Light queues: offsets for a message that is appended, units for one that is dispatched (spec: store
// §21, broker §19.10).
#include "store.h"

#include "tenon/store/light_queues.h"

namespace tenon::store_file {

/// Names the light queues of a record in `light_targets_`. Append sequence.
tenon_record Store::with_light_offsets(const tenon_record& r) {
  light_targets_.clear();
  const auto changed = store::with_light_offsets(
      r, light_text_, [this](std::string_view name) -> std::optional<std::int64_t> {
        tenon_queue handle = 0;
        ConsumeQueue* queue = light_queue(name, handle);
        if (queue == nullptr) {
          return std::nullopt;
        }
        light_targets_.push_back({queue, handle, queue->next()});
        return queue->next();
      });
  if (!changed.entered) {
    light_targets_.clear();
  }
  return changed.record;
}

/// Trap: each queue has a mapped file; without a bound producers could use up all mappings.
ConsumeQueue* Store::light_queue(std::string_view name, tenon_queue& handle) {
  if (ConsumeQueue* known = queues_.find(name, store::kLightQueueId, handle)) {
    return known;
  }
  if (queues_.light_count() >= options_.light_queues_max) {
    if (!light_full_.exchange(true)) {
      host_.log(LogLevel::kWarn,
                "too many light queues, messages for new ones are stored without them max={}",
                options_.light_queues_max);
    }
    return nullptr;
  }
  return queues_.find_or_create(name, store::kLightQueueId, handle);
}

/// Moves the counters; a name that is there twice counts once. Append sequence.
void Store::advance_light_targets() noexcept {
  for (const LightTarget& target : light_targets_) {
    if (target.queue->next() == target.offset) {
      target.queue->advance(1);
    }
  }
}

/// The units of what was just appended. Append sequence with the dispatch role.
bool Store::dispatch_light_targets(const Unit& unit,
                                   std::int64_t store_ms,
                                   tenon_bytes properties) {
  for (const LightTarget& target : light_targets_) {
    if (!dispatch_one(*target.queue, target.handle, target.offset, unit, store_ms, properties)) {
      return false;
    }
  }
  return true;
}

/// The units of a record in the log, by the offsets it carries. Dispatch role.
Result<> Store::dispatch_light_record(const proto::MessageView& m, const Unit& unit) {
  const store::LightTexts texts = store::light_texts(m.properties);
  if (texts.offsets.empty() || !store::are_light_names(texts.queues)) {
    return ok();
  }
  Result<> done = ok();
  const bool whole = store::for_each_light(texts, [&](std::string_view name, std::int64_t offset) {
    tenon_queue handle = 0;
    ConsumeQueue* queue = done ? light_queue(name, handle) : nullptr;
    if (queue != nullptr && offset >= queue->max_offset()) {
      done = dispatch_entry(*queue, handle, offset, unit, m);
    }
  });
  if (!whole) {
    host_.log(LogLevel::kWarn, "offsets of light queues do not fit their names phys={}", unit.phys);
  }
  return done;
}

}  // namespace tenon::store_file
