// What the timer reads from outside: its file of pending messages, recall handles, properties.
#include "timer/timer_files.h"
#include "timer/timer_rules.h"

#include "tenon/base/check.h"
#include "tenon/base/endian.h"

#include <cstdint>

using namespace tenon;
using namespace tenon::broker;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> in(reinterpret_cast<const std::byte*>(data), size);
  static_cast<void>(parse_timer_pending(in));
  if (const auto handle = decode_recall_handle(as_text(in)); handle.has_value()) {
    const auto again = decode_recall_handle(encode_recall_handle(handle.value()));
    TENON_CHECK(again.has_value() && again.value().uniq_key == handle.value().uniq_key &&
                    again.value().topic == handle.value().topic &&
                    again.value().timestamp_ms == handle.value().timestamp_ms,
                "handle changed");
  }
  if (const auto record = read_timer_record(as_text(in), 1'700'000'000'000)) {
    TENON_CHECK(record->due_ms > record->out_ms && record->due_ms <= record->out_ms + 1000,
                "due {} out {}",
                record->due_ms,
                record->out_ms);
  }
  return 0;
}
