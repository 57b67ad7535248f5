// Units of the extension of consume queues, walked as recovery does.
#include "tenon/base/check.h"
#include "tenon/store_format/unit.h"

#include <cstdint>
#include <span>

using namespace tenon::store_format;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::uint8_t> rest(data, size);
  while (const auto unit = parse_ext_unit(rest)) {
    TENON_CHECK(unit->bytes() >= kExtHeadBytes && unit->bytes() <= kExtUnitMax, "size");
    TENON_CHECK(unit->bytes() <= rest.size(), "beyond the end");
    TENON_CHECK(unit->bitmap.empty() || unit->bitmap.data() == rest.data() + kExtHeadBytes, "map");
    rest = rest.subspan(unit->bytes());
  }
  return 0;
}
