// Codec of stored records. Layout with b and s = 8 or 20 bytes of born and store host (spec: store
// §3.1):
//
// | off      | size | field            | off        | size | field                      |
// |----------|------|------------------|------------|------|----------------------------|
// | 0        | 4    | total bytes      | 48+b       | 8    | store time                 |
// | 4        | 4    | magic            | 56+b       | s    | store host                 |
// | 8        | 4    | body CRC         | 56+b+s     | 4    | reconsume times            |
// | 12       | 4    | queue id         | 60+b+s     | 8    | prepared offset            |
// | 16       | 4    | flag             | 68+b+s     | 4+n  | body                       |
// | 20       | 8    | queue offset     | 72+b+s+n   | 1+t  | topic (V2: 2+t)            |
// | 28       | 8    | physical offset  | 73+b+s+n+t | 2+p  | properties                 |
// | 36       | 4    | sysFlag          |            |      |                            |
// | 40       | 8    | born time        |            |      |                            |
// | 48       | b    | born host        |            |      |                            |
#include "tenon/proto/message.h"

#include "tenon/base/crc32.h"
#include "tenon/base/endian.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::proto {
namespace {

/// Record with IPv4 hosts, one-byte topic length, and nothing in it.
constexpr std::size_t kFixedBytes = 91;
constexpr std::size_t kV6ExtraBytes = 12;

Error invalid(std::string_view what, std::int64_t length) {
  return Error{Errc::kInvalid, fmt::format("message record: {} {}", what, length)};
}

HostAddr load_host(const std::byte* p, bool v6) noexcept {
  HostAddr host;
  host.v6 = v6;
  const std::size_t n = v6 ? 16 : 4;
  std::memcpy(host.ip.data(), p, n);
  host.port = static_cast<std::uint16_t>(load_be<std::uint32_t>(p + n));
  return host;
}

class Writer {
 public:
  explicit Writer(std::byte* out) noexcept
      : p_(out) {}

  template <class T>
  void integer(T value) noexcept {
    store_be(p_, value);
    p_ += sizeof value;
  }
  void bytes(const void* data, std::size_t n) noexcept {
    if (n != 0) {
      std::memcpy(p_, data, n);
      p_ += n;
    }
  }
  void host(const HostAddr& addr) noexcept {
    bytes(addr.ip.data(), addr.v6 ? 16 : 4);
    integer(std::uint32_t{addr.port});
  }
  std::byte* position() const noexcept { return p_; }

 private:
  std::byte* p_;
};

/// Body, topic and properties behind the fixed part; `at` is the position of the body length.
Result<> decode_variable_part(std::span<const std::byte> record, std::size_t at, MessageView& m) {
  const bool v2 = m.magic == kMessageMagicV2;
  const std::size_t topic_length_bytes = v2 ? 2 : 1;
  const std::byte* p = record.data();
  const std::size_t size = record.size();

  const auto body_bytes = load_be<std::int32_t>(p + at);
  at += 4;
  if (body_bytes < 0 || static_cast<std::size_t>(body_bytes) + topic_length_bytes + 2 > size - at) {
    return invalid("body length", body_bytes);
  }
  m.body = record.subspan(at, static_cast<std::size_t>(body_bytes));
  at += m.body.size();

  const int topic_bytes =
      v2 ? int{load_be<std::int16_t>(p + at)} : int{load_be<std::int8_t>(p + at)};
  at += topic_length_bytes;
  if (topic_bytes < 0 || static_cast<std::size_t>(topic_bytes) + 2 > size - at) {
    return invalid("topic length", topic_bytes);
  }
  m.topic = as_text(record.subspan(at, static_cast<std::size_t>(topic_bytes)));
  at += m.topic.size();

  const auto properties_bytes = load_be<std::int16_t>(p + at);
  at += 2;
  if (properties_bytes < 0 || static_cast<std::size_t>(properties_bytes) != size - at) {
    return invalid("properties length", properties_bytes);
  }
  m.properties = as_text(record.subspan(at));
  return ok();
}

}  // namespace

Result<MessageView> decode_message(std::span<const std::byte> in) {
  if (in.size() < 8) {
    return invalid("bytes left", static_cast<std::int64_t>(in.size()));
  }
  MessageView m;
  const std::byte* p = in.data();
  m.total_bytes = load_be<std::int32_t>(p);
  m.magic = load_be<std::int32_t>(p + 4);
  if (m.magic != kMessageMagicV1 && m.magic != kMessageMagicV2) {
    return Error{Errc::kInvalid,
                 m.magic == kBlankMagic ? std::string("message record: blank")
                                        : fmt::format("message record: magic {:08x}",
                                                      static_cast<std::uint32_t>(m.magic))};
  }
  if (m.total_bytes < static_cast<std::int32_t>(kFixedBytes) ||
      static_cast<std::size_t>(m.total_bytes) > in.size()) {
    return invalid("total length", m.total_bytes);
  }
  const auto record = in.first(static_cast<std::size_t>(m.total_bytes));
  m.body_crc = load_be<std::int32_t>(p + 8);
  m.queue_id = load_be<std::int32_t>(p + 12);
  m.flag = load_be<std::int32_t>(p + 16);
  m.queue_offset = load_be<std::int64_t>(p + 20);
  m.phys_offset = load_be<std::int64_t>(p + 28);
  m.sys_flag = load_be<std::int32_t>(p + 36);
  m.born_ms = load_be<std::int64_t>(p + 40);
  const bool born_v6 = (m.sys_flag & sys_flag::kBornHostV6) != 0;
  const bool store_v6 = (m.sys_flag & sys_flag::kStoreHostV6) != 0;
  const std::size_t fixed_bytes = kFixedBytes + (born_v6 ? kV6ExtraBytes : 0) +
                                  (store_v6 ? kV6ExtraBytes : 0) +
                                  (m.magic == kMessageMagicV2 ? 1 : 0);
  if (record.size() < fixed_bytes) {
    return invalid("total length", m.total_bytes);
  }
  // Trap: the store time is not always at 56 (spec store §3.1).
  std::size_t at = 48;
  m.born_host = load_host(p + at, born_v6);
  at += m.born_host.encoded_bytes();
  m.store_ms = load_be<std::int64_t>(p + at);
  at += 8;
  m.store_host = load_host(p + at, store_v6);
  at += m.store_host.encoded_bytes();
  m.reconsume_times = load_be<std::int32_t>(p + at);
  at += 4;
  m.prepared_offset = load_be<std::int64_t>(p + at);
  at += 8;
  TENON_TRY(decode_variable_part(record, at, m));
  return m;
}

std::size_t encoded_message_bytes(const MessageRecord& m) noexcept {
  return kFixedBytes + (m.born_host.v6 ? kV6ExtraBytes : 0) +
         (m.store_host.v6 ? kV6ExtraBytes : 0) + (m.topic.size() > kTopicMaxBytes ? 1 : 0) +
         m.body.size() + m.topic.size() + m.properties.size();
}

std::size_t encode_message(const MessageRecord& m, std::byte* out) noexcept {
  const bool v2 = m.topic.size() > kTopicMaxBytes;
  std::int32_t flags = m.sys_flag & ~(sys_flag::kBornHostV6 | sys_flag::kStoreHostV6);
  flags |= m.born_host.v6 ? sys_flag::kBornHostV6 : 0;
  flags |= m.store_host.v6 ? sys_flag::kStoreHostV6 : 0;

  Writer w(out);
  w.integer(static_cast<std::int32_t>(encoded_message_bytes(m)));
  w.integer(v2 ? kMessageMagicV2 : kMessageMagicV1);
  w.integer(crc32_java(m.body));
  w.integer(m.queue_id);
  w.integer(m.flag);
  w.integer(m.queue_offset);
  w.integer(m.phys_offset);
  w.integer(flags);
  w.integer(m.born_ms);
  w.host(m.born_host);
  w.integer(m.store_ms);
  w.host(m.store_host);
  w.integer(m.reconsume_times);
  w.integer(m.prepared_offset);
  w.integer(static_cast<std::int32_t>(m.body.size()));
  w.bytes(m.body.data(), m.body.size());
  if (v2) {
    w.integer(static_cast<std::int16_t>(m.topic.size()));
  } else {
    w.integer(static_cast<std::int8_t>(m.topic.size()));
  }
  w.bytes(m.topic.data(), m.topic.size());
  w.integer(static_cast<std::int16_t>(m.properties.size()));
  w.bytes(m.properties.data(), m.properties.size());
  return static_cast<std::size_t>(w.position() - out);
}

bool BatchReader::next(BatchEntry& out) noexcept {
  constexpr std::size_t kEntryFixedBytes = 22;
  if (!ok_ || rest_.empty()) {
    return false;
  }
  ok_ = false;
  if (rest_.size() < kEntryFixedBytes) {
    return false;
  }
  const std::byte* p = rest_.data();
  const auto total = load_be<std::int32_t>(p);
  if (total < static_cast<std::int32_t>(kEntryFixedBytes) ||
      static_cast<std::size_t>(total) > rest_.size()) {
    return false;
  }
  const auto entry = rest_.first(static_cast<std::size_t>(total));
  out.flag = load_be<std::int32_t>(p + 12);
  const auto body_bytes = load_be<std::int32_t>(p + 16);
  if (body_bytes < 0 || static_cast<std::size_t>(body_bytes) > entry.size() - kEntryFixedBytes) {
    return false;
  }
  out.body = entry.subspan(20, static_cast<std::size_t>(body_bytes));
  const std::size_t at = 20 + out.body.size();
  const auto properties_bytes = load_be<std::int16_t>(p + at);
  if (properties_bytes < 0 || static_cast<std::size_t>(properties_bytes) != entry.size() - at - 2) {
    return false;
  }
  out.properties = as_text(entry.subspan(at + 2));
  rest_ = rest_.subspan(entry.size());
  ok_ = true;
  return true;
}

void append_batch_entry(std::string& out,
                        std::int32_t flag,
                        std::string_view body,
                        std::string_view properties) {
  const std::size_t at = out.size();
  const std::size_t total = 22 + body.size() + properties.size();
  out.resize(at + total);
  Writer w(reinterpret_cast<std::byte*>(out.data() + at));
  w.integer(static_cast<std::int32_t>(total));
  w.integer(std::int32_t{0});  // Magic and CRC are the broker's business.
  w.integer(std::int32_t{0});
  w.integer(flag);
  w.integer(static_cast<std::int32_t>(body.size()));
  w.bytes(body.data(), body.size());
  w.integer(static_cast<std::int16_t>(properties.size()));
  w.bytes(properties.data(), properties.size());
}

Result<> check_topic_name(std::string_view topic) {
  const auto blank = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  if (std::all_of(topic.begin(), topic.end(), blank)) {
    return Error{Errc::kInvalid, "The specified topic is blank."};
  }
  const auto legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '%' ||
           c == '|' || c == '_' || c == '-';
  };
  if (!std::all_of(topic.begin(), topic.end(), legal)) {
    return Error{Errc::kInvalid,
                 "The specified topic contains illegal characters, allowing only "
                 "^[%|a-zA-Z0-9_-]+$"};
  }
  if (topic.size() > kTopicMaxBytes) {
    return Error{Errc::kInvalid, "The specified topic is longer than topic max length."};
  }
  return ok();
}

}  // namespace tenon::proto
