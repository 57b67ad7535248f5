// Op records and properties of halves, as a store of another broker may hold them.
#include "txn/half.h"

#include "tenon/base/check.h"
#include "tenon/proto/properties.h"

#include <cstdint>
#include <string>
#include <vector>

using namespace tenon;
using namespace tenon::broker;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::int64_t> offsets;
  static_cast<void>(parse_op_body(text, offsets));
  std::vector<std::int64_t> again;
  TENON_CHECK(parse_op_body(op_body(offsets, true), again), "own op body not read");
  TENON_CHECK(again == offsets, "offsets changed");

  proto::MessageView record;
  record.topic = kHalfTopic;
  record.queue_offset = 1000;
  record.properties = text;
  const auto half = read_half(record);
  if (!half) {
    return 0;
  }
  TENON_CHECK(half->root >= 0 && half->root <= record.queue_offset, "root {}", half->root);
  record.queue_offset = 2000;
  const std::string copied = copy_properties(*half, half->checks);
  record.properties = copied;
  const auto copy = read_half(record);
  TENON_CHECK(copy && copy->root == half->root && copy->checks == half->checks, "copy differs");
  TENON_CHECK(copy->group == half->group && copy->real_topic == half->real_topic, "copy differs");
  static_cast<void>(commit_properties(*half));
  static_cast<void>(fresh_properties(text));
  return 0;
}
