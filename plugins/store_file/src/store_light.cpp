// Light queues: offsets for a message that is appended, units for one that is dispatched (spec: store
// §21, broker §19.10).
#include "store.h"

#include "tenon/store/light_queues.h"

namespace tenon::store_file {

/// Names the light queues of a record in `light_targets_` and returns the record with its offsets in
/// the text. A record that enters none keeps no offsets that somebody else wrote, or a rebuild would
/// believe them. Append sequence.
tenon_record Store::with_light_offsets(const tenon_record& r) {
  light_targets_.clear();
  const std::string_view given{reinterpret_cast<const char*>(r.properties.ptr), r.properties.len};
  const store::LightTexts texts = store::light_texts(given);
  if (texts.queues.empty() && texts.offsets.empty()) {
    return r;
  }
  store::without_light_offsets(given, light_text_);
  const std::size_t plain = light_text_.size();
  if (store::has_queue_entry(r.sys_flag) && store::enters_light_queues(plugin::text(r.topic)) &&
      store::are_light_names(texts.queues) && !add_light_targets(texts.queues)) {
    light_targets_.clear();
    light_text_.resize(plain);
  }
  tenon_record changed = r;
  changed.properties = {reinterpret_cast<const std::uint8_t*>(light_text_.data()),
                        light_text_.size()};
  return changed;
}

/// False: the message can enter none of them.
bool Store::add_light_targets(std::string_view queues) {
  store::begin_light_offsets(light_text_);
  std::string_view name;
  while (store::next_light_item(queues, name)) {
    tenon_queue handle = 0;
    ConsumeQueue* queue = light_queue(name, handle);
    if (queue == nullptr) {
      return false;
    }
    store::add_light_offset(light_text_, queue->next(), light_targets_.empty());
    light_targets_.push_back({queue, handle, queue->next()});
  }
  return light_text_.size() <= proto::kPropertiesMaxBytes;
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

/// A batch keeps the text of its messages: one that claims offsets is refused.
bool Store::claims_light_offsets(const tenon_record& batch) {
  std::size_t pos = 0;
  store::BatchItem item;
  while (store::next_batch_item(batch.body, pos, item)) {
    if (!store::light_texts(item.properties).offsets.empty()) {
      return true;
    }
  }
  return false;
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
