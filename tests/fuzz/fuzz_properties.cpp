// Properties texts, tag expressions and hashes.
#include "tenon/base/check.h"
#include "tenon/proto/bodies.h"
#include "tenon/proto/properties.h"

#include <cstdint>
#include <string>

using namespace tenon;
using namespace tenon::proto;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const PropertyList list = decode_properties(text);
  const std::string encoded = encode_properties(list);
  TENON_CHECK(decode_properties(encoded) == list, "properties changed");
  TENON_CHECK(encoded.size() <= text.size(), "properties grew");
  std::size_t checked = 0;
  for (const auto& [name, value] : list) {
    TENON_CHECK(find_property(text, name) == value, "property {}", name);
    if (++checked == 8) {
      break;
    }
  }
  if (!list.empty()) {
    const std::string less = without_property(text, list.front().first);
    TENON_CHECK(!find_property(less, list.front().first).has_value(), "property not removed");
    TENON_CHECK(decode_properties(less).size() + 1 == list.size(), "other property removed");
  }
  static_cast<void>(tags_code_of(text));
  static_cast<void>(java_hash(text));
  if (const auto s = build_subscription("T", text, "TAG"); s.has_value()) {
    TENON_CHECK(s.value().codes.size() <= s.value().tags.size(), "codes without tags");
  }
  return 0;
}
