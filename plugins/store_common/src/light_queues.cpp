#include "tenon/store/light_queues.h"

#include "tenon/proto/properties.h"
#include "tenon/store/record.h"

#include <charconv>

namespace tenon::store {

namespace {

constexpr std::string_view kCommonPart = "INNER_MULTI_";
static_assert(proto::prop::kInnerMultiDispatch.starts_with(kCommonPart));
static_assert(proto::prop::kInnerMultiQueueOffset.starts_with(kCommonPart));

/// Topics whose messages wait for something, or come a second time.
constexpr std::string_view kWaiting[] = {
    "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer"};
constexpr std::string_view kRepeated[] = {"%RETRY%", "%DLQ%"};

}  // namespace

LightTexts light_texts(std::string_view properties) noexcept {
  LightTexts texts;
  if (properties.find(kCommonPart) == std::string_view::npos) {
    return texts;
  }
  texts.queues = proto::find_property(properties, proto::prop::kInnerMultiDispatch).value_or("");
  texts.offsets =
      proto::find_property(properties, proto::prop::kInnerMultiQueueOffset).value_or("");
  return texts;
}

bool enters_light_queues(std::string_view topic) noexcept {
  for (const std::string_view name : kWaiting) {
    if (topic == name) {
      return false;
    }
  }
  for (const std::string_view prefix : kRepeated) {
    if (topic.starts_with(prefix)) {
      return false;
    }
  }
  return true;
}

bool are_light_names(std::string_view queues) noexcept {
  std::string_view name;
  bool any = false;
  while (next_light_item(queues, name)) {
    any = true;
    if (!is_light(name) || name.size() == kLightPrefix.size() || !is_storable_topic(name)) {
      return false;
    }
  }
  return any;
}

bool next_light_item(std::string_view& rest, std::string_view& item) noexcept {
  if (rest.empty()) {
    return false;
  }
  const std::size_t comma = rest.find(',');
  item = rest.substr(0, comma);
  rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  return true;
}

void without_light_offsets(std::string_view properties, std::string& out) {
  out.clear();
  if (properties.find(proto::prop::kInnerMultiQueueOffset) == std::string_view::npos) {
    out.append(properties);
    return;
  }
  while (!properties.empty()) {
    const std::size_t end = properties.find(proto::kPropertySeparator);
    const std::string_view item = properties.substr(0, end);
    const std::string_view name = item.substr(0, item.find(proto::kNameValueSeparator));
    if (name != proto::prop::kInnerMultiQueueOffset) {
      out.append(item);
      if (end != std::string_view::npos) {
        out.push_back(proto::kPropertySeparator);
      }
    }
    properties.remove_prefix(end == std::string_view::npos ? properties.size() : end + 1);
  }
}

void begin_light_offsets(std::string& out) {
  if (!out.empty() && out.back() != proto::kPropertySeparator) {
    out.push_back(proto::kPropertySeparator);
  }
  out.append(proto::prop::kInnerMultiQueueOffset);
  out.push_back(proto::kNameValueSeparator);
}

void add_light_offset(std::string& out, std::int64_t offset, bool first) {
  char digits[20];
  const auto [end, ec] = std::to_chars(digits, digits + sizeof digits, offset);
  if (!first) {
    out.push_back(',');
  }
  out.append(digits, end);
}

std::optional<std::int64_t> parse_light_offset(std::string_view text) noexcept {
  std::int64_t offset = -1;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), offset);
  if (ec != std::errc{} || end != text.data() + text.size() || offset < 0) {
    return std::nullopt;
  }
  return offset;
}

std::optional<std::int64_t> light_offset_of(std::string_view properties,
                                            std::string_view topic) noexcept {
  std::optional<std::int64_t> found;
  for_each_light(light_texts(properties), [&](std::string_view name, std::int64_t offset) {
    if (name == topic) {
      found = offset;
    }
  });
  return found;
}

bool claims_light_offsets(const tenon_record& batch) {
  std::size_t pos = 0;
  BatchItem item;
  while (next_batch_item(batch.body, pos, item)) {
    if (!light_texts(item.properties).offsets.empty()) {
      return true;
    }
  }
  return false;
}

}  // namespace tenon::store
