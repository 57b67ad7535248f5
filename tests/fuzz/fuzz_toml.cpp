// Configuration files: parser, reader and what the reader complains about.
#include "tenon/base/check.h"
#include "tenon/config/printer.h"
#include "tenon/config/reader.h"
#include "tenon/config/toml.h"

#include <cstdint>
#include <string>
#include <vector>

using namespace tenon;

namespace {

struct Sample {
  std::string name = "n";
  std::uint16_t port = 1;
  std::int64_t wait_ms = 5;
  std::uint64_t room_bytes = 6;
  double share = 0.5;
  bool quick = false;
  std::vector<std::string> hosts{"h"};
  config::Slot storage{.plugin = "s"};
  std::vector<config::Slot> filters{};
};

void describe(config::Visitor& v, Sample& c) {
  v.table("a", "", [&] {
    v.key("name", &c.name, {});
    v.key("port", &c.port, {.min = 1});
    v.key("wait_ms", &c.wait_ms, {.min = 0});
    v.key("room_bytes", &c.room_bytes, {});
    v.key("share", &c.share, {});
    v.key("quick", &c.quick, {});
    v.key("hosts", &c.hosts, {});
  });
  v.slot("storage", c.storage, {});
  v.slots("filter", c.filters, {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto root = config::parse_toml(text, "f.toml");
  if (!root.has_value()) {
    TENON_CHECK(root.error().detail.starts_with("f.toml:"), "no position: {}", root.error().detail);
    return 0;
  }
  auto sample = config::read_described<Sample>(root.value());
  if (!sample.has_value()) {
    TENON_CHECK(!sample.error().detail.empty(), "no text");
    return 0;
  }
  // What was accepted is printed such that it reads back to the same.
  Sample first = std::move(sample).value();
  first.storage.options = {};
  for (config::Slot& slot : first.filters) {
    slot.options = {};
    if (slot.plugin.empty()) {  // only the id is printed
      return 0;
    }
  }
  if (first.storage.plugin.empty()) {
    return 0;
  }
  config::Printer printed;
  describe(printed, first);
  const auto again = config::parse_toml(printed.text(), "again.toml");
  TENON_CHECK(again.has_value(), "{}", again.error().detail);
  auto second = config::read_described<Sample>(again.value());
  TENON_CHECK(second.has_value(), "{}", second.error().detail);
  TENON_CHECK(second.value().name == first.name && second.value().hosts == first.hosts &&
                  second.value().wait_ms == first.wait_ms &&
                  second.value().room_bytes == first.room_bytes,
              "values changed");
  return 0;
}
