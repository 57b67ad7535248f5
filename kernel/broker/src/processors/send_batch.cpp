// Batches of messages in one send (spec: broker §5.4, store §4.5, remoting §6.1).
#include "processors/send.h"
#include "remarks.h"

#include "tenon/host/plugin_registry.h"
#include "tenon/proto/properties.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

/// Fixed part of a batch entry: size, magic, CRC, flag, two lengths.
constexpr std::size_t kEntryOverhead = 22;

/// The element's text, a separator if it needs one, the text of the whole batch.
std::string_view merge(std::string_view element, std::string_view outer, Arena& arena) {
  char* const begin = arena.take_text(element.size() + outer.size() + 1);
  char* at = begin;
  std::memcpy(at, element.data(), element.size());
  at += element.size();
  if (!element.empty() && !outer.empty() && element.back() != proto::kPropertySeparator) {
    *at++ = proto::kPropertySeparator;
  }
  std::memcpy(at, outer.data(), outer.size());
  at += outer.size();
  return {begin, static_cast<std::size_t>(at - begin)};
}

/// Trap: the batch keeps WAIT in its elements, unlike a single send (store §4.5).
std::string_view outer_text(std::string_view client, std::string_view cluster, Arena& arena) {
  char* const begin = arena.take_text(client.size() + cluster.size() + 16);
  char* at = begin;
  const auto put = [&](std::string_view text) {
    std::memcpy(at, text.data(), text.size());
    at += text.size();
  };
  put(proto::prop::kCluster);
  *at++ = proto::kNameValueSeparator;
  put(cluster);
  for (proto::PropertyIterator it(client); it.next();) {
    if (it.name() != proto::prop::kCluster) {
      *at++ = proto::kPropertySeparator;
      put(it.name());
      *at++ = proto::kNameValueSeparator;
      put(it.value());
    }
  }
  return {begin, static_cast<std::size_t>(at - begin)};
}

proto::HostAddr from_abi(const tenon_addr& a) noexcept {
  proto::HostAddr host;
  host.v6 = a.family == 6;
  host.port = a.port;
  std::memcpy(host.ip.data(), a.ip, host.v6 ? 16 : 4);
  return host;
}

bool whole_entries(std::span<const std::byte> body) noexcept {
  proto::BatchReader reader(body);
  proto::BatchEntry entry;
  while (reader.next(entry)) {
  }
  return reader.ok();
}

}  // namespace

bool SendProcessor::add_batch(IoState& io,
                              const Request& request,
                              const SendHeader& header,
                              Target& target) {
  if (!whole_entries(request.command.body)) {
    fail(request, remark::kBatchCut);
    return false;
  }
  const SendProperties outer = scan_properties(header.properties);
  tenon_record record = base_record(request, header, target);
  const bool illegal = outer.delay_level > 0 ||
                       (header.sys_flag & proto::sys_flag::kTransactionMask) != 0 ||
                       request.command.body.size() > s_.config.message_max_bytes;
  if (illegal || !encode_batch(io, request, header, record)) {
    refuse(request,
           Code::kMessageIllegal,
           fmt::format(remark::kMessageIllegal, s_.config.message_max_bytes));
    return false;
  }
  push(io, request, target, record, outer.wait_stored());
  return true;
}

/// Turns the client's entries into records as they lie in the log; the storage patches offsets and
/// times. False: malformed, or a limit passed.
bool SendProcessor::encode_batch(IoState& io,
                                 const Request& request,
                                 const SendHeader& header,
                                 tenon_record& record) {
  Arena& arena = io.batch.arena;
  const std::string_view outer = outer_text(header.properties, s_.config.cluster, arena);
  // An upper bound first, so that the records lie in one piece.
  proto::MessageRecord m;
  m.topic = host::text(record.topic);
  m.queue_id = static_cast<std::int32_t>(record.queue_id);
  m.sys_flag = record.sys_flag;
  m.born_ms = record.born_ms;
  m.born_host = request.connection->peer();
  m.store_host = from_abi(record.store_host);
  m.reconsume_times = record.reconsume_times;
  const std::size_t fixed = proto::encoded_message_bytes(m) + outer.size() + 1;
  const std::size_t entries_max = request.command.body.size() / kEntryOverhead + 1;
  std::size_t count = 0;
  std::size_t bound = 0;
  proto::BatchEntry entry;
  for (proto::BatchReader reader(request.command.body); reader.next(entry);) {
    bound += fixed + entry.body.size() + entry.properties.size();
    if (++count > entries_max) {
      return false;
    }
  }
  if (count == 0) {
    return false;
  }
  std::byte* const begin = arena.take(bound);
  std::byte* at = begin;
  proto::BatchReader reader(request.command.body);
  while (reader.next(entry)) {
    m.flag = entry.flag;
    m.body = entry.body;
    m.properties = merge(entry.properties, outer, arena);
    if (m.properties.size() > s_.config.properties_max_bytes) {
      return false;
    }
    at += proto::encode_message(m, at);
  }
  if (!reader.ok()) {
    return false;
  }
  record.flags |= TENON_RECORD_BATCH;
  record.count = static_cast<std::uint32_t>(count);
  record.body = {reinterpret_cast<const std::uint8_t*>(begin),
                 static_cast<std::size_t>(at - begin)};
  record.inner_phys = reinterpret_cast<std::uint64_t*>(arena.take(count * sizeof(std::uint64_t)));
  return true;
}

}  // namespace tenon::broker
