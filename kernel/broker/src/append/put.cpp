#include "append/put.h"

#include "tenon/proto/properties.h"

#include <cstring>

namespace tenon::broker {
namespace {

tenon_addr to_abi(const proto::HostAddr& host) noexcept {
  tenon_addr a{};
  std::memcpy(a.ip, host.ip.data(), host.v6 ? 16 : 4);
  a.port = host.port;
  a.family = host.v6 ? 6 : 4;
  return a;
}

tenon_bytes to_abi(std::string_view text) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

tenon_append_result put(Log& log,
                        std::string_view topic,
                        tenon_queue queue,
                        const proto::MessageRecord& m) {
  tenon_record r = to_record(topic, queue, m);
  tenon_append_result result{};
  log.append({&r, 1}, {&result, 1});
  return result;
}

}  // namespace

tenon_record to_record(std::string_view topic, tenon_queue queue, const proto::MessageRecord& m) {
  tenon_record r{};
  r.topic = host::abi_str(topic);
  r.queue_id = static_cast<std::uint32_t>(m.queue_id);
  r.queue = queue;
  r.flag = m.flag;
  r.sys_flag = m.sys_flag & ~(proto::sys_flag::kBornHostV6 | proto::sys_flag::kStoreHostV6);
  r.born_ms = m.born_ms;
  r.born_host = to_abi(m.born_host);
  r.store_host = to_abi(m.store_host);
  r.reconsume_times = m.reconsume_times;
  r.count = 1;
  r.prepared_offset = m.prepared_offset;
  r.body = {reinterpret_cast<const std::uint8_t*>(m.body.data()), m.body.size()};
  r.properties = to_abi(m.properties);
  r.tags_code = proto::tags_code_of(m.properties);
  r.keys = host::abi_str(proto::find_property(m.properties, proto::prop::kKeys).value_or(""));
  r.uniq_key =
      host::abi_str(proto::find_property(m.properties, proto::prop::kUniqKey).value_or(""));
  return r;
}

tenon_append_result put_message(Log& log, const Topic& topic, const proto::MessageRecord& m) {
  return put(log, topic.name(), log.queue_of(topic, static_cast<std::uint32_t>(m.queue_id)), m);
}

tenon_append_result put_message(Log& log, const proto::MessageRecord& m) {
  return put(log, m.topic, 0, m);
}

}  // namespace tenon::broker
