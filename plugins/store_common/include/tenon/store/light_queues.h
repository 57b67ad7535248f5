// Light queues: one message, stored once, is read from several queues %LMQ%name as well (spec: store
// §21, broker §19.10). INNER_MULTI_DISPATCH names them, "%LMQ%a,%LMQ%b"; the storage notes the queue
// offsets in the stored record, INNER_MULTI_QUEUE_OFFSET "3,9", so that a rebuild finds them.
#pragma once

#include "tenon/store/record.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::store {

inline constexpr std::string_view kLightPrefix = "%LMQ%";
/// A light queue is queue 0 of a topic of its name.
inline constexpr std::uint32_t kLightQueueId = 0;

inline bool is_light(std::string_view topic) noexcept {
  return topic.starts_with(kLightPrefix);
}

struct LightTexts {
  std::string_view queues{};   ///< INNER_MULTI_DISPATCH
  std::string_view offsets{};  ///< INNER_MULTI_QUEUE_OFFSET
};
/// Views into `properties`; cheap for texts without them. Does not allocate.
LightTexts light_texts(std::string_view properties) noexcept;

/// Whether a message that is appended to this topic enters the light queues it names.
/// Trap: 4.9 also enters messages that wait: a delayed one shows up in them at once and when it is
/// delivered, a half before it is committed, a retry once more. Here it is the final message only.
bool enters_light_queues(std::string_view topic) noexcept;

/// Whether every name is a usable light queue.
bool are_light_names(std::string_view queues) noexcept;

/// Steps through a comma list. False at the end; no empty item behind a last comma.
bool next_light_item(std::string_view& rest, std::string_view& item) noexcept;

/// Writes `properties` without an INNER_MULTI_QUEUE_OFFSET to `out`, which is emptied.
void without_light_offsets(std::string_view properties, std::string& out);

/// Begins the new INNER_MULTI_QUEUE_OFFSET at the end of `out`; then one offset after the other.
void begin_light_offsets(std::string& out);
void add_light_offset(std::string& out, std::int64_t offset, bool first);

/// Calls use(name, offset) for each queue that a stored record entered. False: the two texts do not
/// fit each other, nothing or not all was called.
template <class Use>
bool for_each_light(const LightTexts& texts, Use&& use);

/// The offset of a stored record in the light queue `topic`; nullopt if it did not enter that.
std::optional<std::int64_t> light_offset_of(std::string_view properties,
                                            std::string_view topic) noexcept;

/// A decimal number from 0 up; nullopt for anything else.
std::optional<std::int64_t> parse_light_offset(std::string_view text) noexcept;

/// Whether a message of the batch claims offsets. A batch keeps the text of its messages: such a one is
/// to be refused.
bool claims_light_offsets(const tenon_record& batch);

struct LightRecord {
  tenon_record record{};
  bool entered = false;  ///< the light queues it names
};

/// A record as it is appended: with its offsets in the text, or with none. One that enters no light
/// queue keeps no offsets that somebody else wrote, or a rebuild would believe them.
/// @param text   memory of the changed properties
/// @param enter  (name) -> std::optional<std::int64_t>: the offset in that queue, nullopt if it cannot
///               be entered; then the record enters none, and what was entered is to be forgotten
template <class Enter>
LightRecord with_light_offsets(const tenon_record& r, std::string& text, Enter&& enter) {
  const std::string_view given{reinterpret_cast<const char*>(r.properties.ptr), r.properties.len};
  const LightTexts texts = light_texts(given);
  LightRecord out{r, false};
  if (texts.queues.empty() && texts.offsets.empty()) {
    return out;
  }
  without_light_offsets(given, text);
  if (has_queue_entry(r.sys_flag) && enters_light_queues(plugin::text(r.topic)) &&
      are_light_names(texts.queues)) {
    const std::size_t plain = text.size();
    begin_light_offsets(text);
    std::string_view rest = texts.queues;
    std::string_view name;
    bool first = true;
    out.entered = true;
    while (out.entered && next_light_item(rest, name)) {
      const std::optional<std::int64_t> offset = enter(name);
      out.entered = offset.has_value();
      add_light_offset(text, offset.value_or(0), first);
      first = false;
    }
    out.entered = out.entered && text.size() <= proto::kPropertiesMaxBytes;
    if (!out.entered) {
      text.resize(plain);
    }
  }
  out.record.properties = {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
  return out;
}

template <class Use>
bool for_each_light(const LightTexts& texts, Use&& use) {
  std::string_view queues = texts.queues;
  std::string_view offsets = texts.offsets;
  std::string_view queue;
  std::string_view text;
  while (next_light_item(queues, queue)) {
    const bool there = next_light_item(offsets, text);
    const auto offset = there ? parse_light_offset(text) : std::nullopt;
    if (!offset) {
      return false;
    }
    use(queue, *offset);
  }
  return offsets.empty();
}

}  // namespace tenon::store
