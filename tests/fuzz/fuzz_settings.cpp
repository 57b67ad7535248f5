// Java's properties text, as administrators send it with new settings.
#include "live_config.h"

#include "tenon/base/check.h"

#include <cstdint>
#include <string>

using namespace tenon;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string again;
  const auto parsed = broker::parse_properties(text);
  const auto escape = [&again](std::string_view part) {
    for (const char c : part) {
      if (c == '\n') {
        again += "\\n";
      } else {
        again.push_back('\\');
        again.push_back(c);
      }
    }
  };
  bool plain =
      true;  // a protected blank at an edge or one of the letters t and n reads differently
  for (const auto& [name, value] : parsed) {
    TENON_CHECK(!name.empty(), "a setting without a name");
    plain = plain && (name + value).find_first_of("tn \t\r\f\n") == std::string::npos;
    escape(name);
    again.push_back('=');
    escape(value);
    again.push_back('\n');
  }
  if (plain) {
    TENON_CHECK(broker::parse_properties(again) == parsed, "settings changed");
  }
  return 0;
}
