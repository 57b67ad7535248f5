// The names and offsets of light queues in the properties of a record (spec: store §21): what was
// cut out is gone, what was written is read back.
#include "tenon/base/check.h"
#include "tenon/store/light_queues.h"

#include <cstdint>
#include <string>
#include <string_view>

using namespace tenon::store;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view properties{reinterpret_cast<const char*>(data), size};
  const LightTexts texts = light_texts(properties);
  std::size_t queues = 0;
  for_each_light(texts, [&](std::string_view, std::int64_t offset) {
    ++queues;
    TENON_CHECK(offset >= 0, "offset");
  });
  TENON_CHECK(queues <= size, "number");
  std::string text;
  without_light_offsets(properties, text);
  TENON_CHECK(light_texts(text).offsets.empty(), "cut out");
  if (!are_light_names(texts.queues)) {
    return 0;
  }
  begin_light_offsets(text);
  std::string_view rest = texts.queues;
  std::string_view name;
  std::int64_t next = 0;
  while (next_light_item(rest, name)) {
    add_light_offset(text, next, next == 0);
    ++next;
  }
  std::int64_t seen = 0;
  const bool whole = for_each_light(light_texts(text), [&](std::string_view, std::int64_t offset) {
    TENON_CHECK(offset == seen++, "read back");
  });
  TENON_CHECK(whole && seen == next, "all");
  return 0;
}
