// Message records, batch bodies, message ids, addresses and compressed bodies.
#include "tenon/base/check.h"
#include "tenon/base/endian.h"
#include "tenon/proto/message.h"

#include <cstdint>
#include <string>

using namespace tenon;
using namespace tenon::proto;

namespace {

void check_record(const MessageView& m) {
  MessageRecord r;
  r.topic = m.topic;
  r.queue_id = m.queue_id;
  r.flag = m.flag;
  r.queue_offset = m.queue_offset;
  r.phys_offset = m.phys_offset;
  r.sys_flag = m.sys_flag;
  r.born_ms = m.born_ms;
  r.born_host = m.born_host;
  r.store_ms = m.store_ms;
  r.store_host = m.store_host;
  r.reconsume_times = m.reconsume_times;
  r.prepared_offset = m.prepared_offset;
  r.body = m.body;
  r.properties = m.properties;
  std::string bytes(encoded_message_bytes(r), '\0');
  TENON_CHECK(encode_message(r, reinterpret_cast<std::byte*>(bytes.data())) == bytes.size(),
              "size");
  const auto again = decode_message(as_bytes(bytes));
  TENON_CHECK(again.has_value(), "our own record: {}", again.error().detail);
  const MessageView& n = again.value();
  TENON_CHECK(n.topic == m.topic && n.properties == m.properties &&
                  as_text(n.body) == as_text(m.body) && n.born_host == m.born_host &&
                  n.store_host == m.store_host && n.sys_flag == m.sys_flag &&
                  n.store_ms == m.store_ms && n.prepared_offset == m.prepared_offset,
              "record changed");
  const std::string id = offset_message_id(m.store_host, m.phys_offset);
  const auto parsed = parse_offset_message_id(id);
  TENON_CHECK(parsed.has_value() && parsed.value().store_host == m.store_host &&
                  parsed.value().phys_offset == m.phys_offset,
              "id {}",
              id);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> in(reinterpret_cast<const std::byte*>(data), size);
  if (const auto record = decode_message(in); record.has_value()) {
    check_record(record.value());
  }
  BatchReader reader(in);
  std::string again;
  for (BatchEntry entry; reader.next(entry);) {
    append_batch_entry(again, entry.flag, as_text(entry.body), entry.properties);
  }
  // Magic and CRC of an entry are not kept, so only the sizes are equal.
  TENON_CHECK(!reader.ok() || again.size() == size, "batch changed");
  static_cast<void>(parse_offset_message_id(as_text(in)));
  if (const auto addr = parse_host_addr(as_text(in)); addr.has_value()) {
    const auto same = parse_host_addr(to_string(addr.value()));
    TENON_CHECK(same.has_value() && same.value() == addr.value(), "address changed");
  }
  static_cast<void>(check_topic_name(as_text(in)));
  for (const std::int32_t flag : {0x1, 0x101, 0x201}) {
    const auto body = decompress(in, flag, 1u << 20);
    TENON_CHECK(!body.has_value() || body.value().size() <= (1u << 20), "limit");
  }
  return 0;
}
