// JSON bodies. The first byte of the input chooses the decoder. What decodes must encode to a text
// that decodes again and encodes to the same text.
#include "tenon/base/check.h"
#include "tenon/base/endian.h"
#include "tenon/proto/bodies_admin.h"
#include "tenon/proto/json.h"

#include <cstdint>
#include <string>

using namespace tenon;
using namespace tenon::proto;

namespace {

template <class D, class E>
void stable(std::string_view text, D decode, E encoder) {
  const auto first = decode(text);
  if (!first.has_value()) {
    return;
  }
  const std::string once = encoder(first.value());
  const auto second = decode(once);
  TENON_CHECK(second.has_value(), "our own body: {} in {}", second.error().detail, once);
  const std::string twice = encoder(second.value());
  TENON_CHECK(once == twice, "body changed from {} to {}", once, twice);
}

template <class D>
void stable(std::string_view text, D decode) {
  stable(text, decode, [](const auto& v) { return encode(v); });
}

template <class D>
void stable_pretty(std::string_view text, D decode) {
  stable(text, decode, [](const auto& v) { return encode(v, true); });
}

void check_client_body(std::uint8_t which, std::string_view text) {
  switch (which) {
    case 0:
      return stable(text, decode_heartbeat);
    case 1:
      return stable(text, decode_lock_request);
    case 2:
      return stable(text, decode_lock_answer, encode_lock_answer);
    case 3:
      return stable(text, decode_consumer_ids, encode_consumer_ids);
    case 4:
      return stable(
          text, decode_reset_offset, [](const auto& t) { return encode_reset_offset(t, false); });
    case 5:
      return stable(
          text, decode_local_offsets, [](const auto& t) { return encode_local_offsets(t, true); });
    default:
      return stable(text, decode_check_client);
  }
}

void check_meta_body(std::uint8_t which, std::string_view text) {
  switch (which) {
    case 0:
      return stable_pretty(text, decode_topic_table);
    case 1:
      return stable_pretty(text, decode_subscription_group_table);
    case 2:
      return stable_pretty(text, decode_consumer_offset_table);
    case 3:
      return stable_pretty(text, decode_delay_offset_table);
    case 4:
      return stable(text, decode_topic_route, [](const auto& r) { return encode(r, true); });
    case 5:
      return stable(text, decode_topic_route, [](const auto& r) { return encode(r, false); });
    case 6:
      return stable(text, decode_cluster_info);
    case 7:
      return stable(text, decode_topic_list);
    case 8:
      return stable(text, decode_kv_table, encode_kv_table);
    case 9:
      static_cast<void>(decode_register_broker_body(text, true, 479));
      return;
    default:
      return stable(text, [](std::string_view t) {
        return decode_register_broker_body(t.empty() ? "{}" : t, false, 409);
      });
  }
}

void check_admin_body(std::uint8_t which, std::string_view text) {
  switch (which) {
    case 0:
      return stable(text, decode_topic_stats);
    case 1:
      return stable(text, decode_consume_stats);
    case 2:
      return stable(text, decode_consumer_connection);
    case 3:
      return stable(text, decode_producer_table, encode_producer_table);
    case 4:
      return stable(text, decode_consumer_running_info);
    case 5:
      return stable(text, decode_consumer_status);
    case 6:
      return stable(text, decode_broker_stats_data);
    case 7:
      return stable(text, decode_consume_directly_result);
    default:
      return stable(text, decode_time_spans, encode_time_spans);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::uint8_t which = data[0] & 0x0F;
  switch (data[0] >> 4) {
    case 0:
      check_client_body(which, text);
      break;
    case 1:
      check_meta_body(which, text);
      break;
    case 2:
      check_admin_body(which, text);
      break;
    default:
      stable(
          text,
          [](std::string_view t) { return JsonDocument::parse(t); },
          [](const JsonDocument& d) { return d.root().dump(); });
      break;
  }
  return 0;
}
