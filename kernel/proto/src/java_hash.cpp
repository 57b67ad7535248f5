#include "json_escape.h"

#include "tenon/base/endian.h"
#include "tenon/proto/properties.h"

namespace tenon::proto {

std::int32_t java_hash(std::string_view utf8) noexcept {
  std::uint32_t h = 0;
  const char* p = utf8.data();
  const char* const end = p + utf8.size();
  // Eight ASCII characters at once: h * 31^8 + c0 * 31^7 + … + c7, which has no chain of eight
  // multiplications.
  while (end - p >= 8) {
    std::uint64_t chunk;
    std::memcpy(&chunk, p, sizeof chunk);
    if ((chunk & 0x8080'8080'8080'8080ull) != 0) {
      break;
    }
    const auto c = [p](int i) {
      return static_cast<std::uint32_t>(static_cast<unsigned char>(p[i]));
    };
    h = h * 2487512833u + c(0) * 1742810335u + c(1) * 887503681u + c(2) * 28629151u +
        c(3) * 923521u + c(4) * 29791u + c(5) * 961u + c(6) * 31u + c(7);
    p += 8;
  }
  while (p != end) {
    const auto lead = static_cast<unsigned char>(*p);
    if (lead < 0x80) {
      h = h * 31 + lead;
      ++p;
      continue;
    }
    const std::uint32_t cp = detail::next_code_point(p, end);
    if (cp >= 0x10000) {
      // Trap: Java hashes UTF-16 units, a character outside the BMP counts twice (spec store §5.1).
      h = h * 31 + (0xD800 + ((cp - 0x10000) >> 10));
      h = h * 31 + (0xDC00 + ((cp - 0x10000) & 0x3FF));
    } else {
      h = h * 31 + cp;
    }
  }
  return static_cast<std::int32_t>(h);
}

}  // namespace tenon::proto
