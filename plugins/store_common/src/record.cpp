#include "tenon/store/record.h"

#include "tenon/base/crc32.h"
#include "tenon/base/endian.h"
#include "tenon/proto/properties.h"

#include <atomic>
#include <charconv>
#include <cstring>
#include <limits>

namespace tenon::store {

namespace {

constexpr std::string_view kScheduleTopic = "SCHEDULE_TOPIC_XXXX";
/// Largest delay level of the record text that is passed on; levels are checked by the host.
constexpr std::uint32_t kLevelMax = 1000;

std::size_t host_bytes(std::int32_t sys_flag, std::int32_t bit) noexcept {
  return (sys_flag & bit) != 0 ? 20 : 8;
}

/// The address class decides the flag bits, they are set and never cleared (spec: store §3.2).
std::int32_t flags_of(const tenon_record& r) noexcept {
  return r.sys_flag | (r.born_host.family == 6 ? proto::sys_flag::kBornHostV6 : 0) |
         (r.store_host.family == 6 ? proto::sys_flag::kStoreHostV6 : 0);
}

struct Writer {
  std::uint8_t* p;
  template <class T>
  void put(T value) noexcept {
    store_be(p, value);
    p += sizeof value;
  }
  void bytes(const void* from, std::size_t n) noexcept {
    if (n > 0) {
      std::memcpy(p, from, n);
      p += n;
    }
  }
  void host(const tenon_addr& addr, std::size_t encoded) noexcept {
    bytes(addr.ip, encoded - 4);
    put(static_cast<std::int32_t>(addr.port));
  }
};

}  // namespace

bool is_storable_topic(std::string_view topic) noexcept {
  return topic.size() <= proto::kTopicMaxBytes && is_readable_topic(topic);
}

bool is_readable_topic(std::string_view topic) noexcept {
  constexpr std::size_t kFolderNameMaxBytes = 255;
  return !topic.empty() && topic.size() <= kFolderNameMaxBytes && topic != "." && topic != ".." &&
         topic.find('/') == std::string_view::npos && topic.find('\0') == std::string_view::npos;
}

tenon_status check_record(const tenon_record& r, const char** why) noexcept {
  if (!is_storable_topic(plugin::text(r.topic))) {
    *why = "the topic is empty, longer than 127 bytes or no file name";
    return TENON_INVALID;
  }
  if (r.queue_id > static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max())) {
    *why = "the queue id is negative";
    return TENON_INVALID;
  }
  if (r.body.len > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    *why = "the body is longer than 2 GiB";
    return TENON_INVALID;
  }
  if ((r.flags & TENON_RECORD_NO_INDEX) != 0 && has_queue_entry(r.sys_flag)) {
    *why = "a log-only record needs the rollback type, or a rebuild would index it";
    return TENON_INVALID;
  }
  if ((r.flags & TENON_RECORD_BATCH) != 0) {
    std::size_t pos = 0;
    std::uint32_t count = 0;
    BatchItem item;
    while (next_batch_item(r.body, pos, item)) {
      ++count;
    }
    if (pos != r.body.len || count == 0 || count != r.count || !has_queue_entry(r.sys_flag)) {
      *why = "the batch body is no sequence of `count` whole records";
      return TENON_INVALID;
    }
    return TENON_OK;
  }
  if (r.properties.len > proto::kPropertiesMaxBytes) {
    *why = "the properties are longer than 32767 bytes";
    return TENON_LIMIT;
  }
  return TENON_OK;
}

std::size_t encoded_bytes(const tenon_record& r) noexcept {
  const std::int32_t flags = flags_of(r);
  return 75 + host_bytes(flags, proto::sys_flag::kBornHostV6) +
         host_bytes(flags, proto::sys_flag::kStoreHostV6) + r.body.len + r.topic.len +
         r.properties.len;
}

void encode(const tenon_record& r,
            std::size_t bytes,
            const Stamp& stamp,
            std::uint8_t* out) noexcept {
  const std::int32_t flags = flags_of(r);
  const std::span<const std::byte> body{reinterpret_cast<const std::byte*>(r.body.ptr), r.body.len};
  Writer w{out + 4};
  w.put(proto::kMessageMagicV1);
  w.put(r.body.len == 0 ? 0 : crc32_java(body));
  w.put(static_cast<std::int32_t>(r.queue_id));
  w.put(r.flag);
  w.put(stamp.queue_offset);
  w.put(stamp.phys);
  w.put(flags);
  w.put(r.born_ms);
  w.host(r.born_host, host_bytes(flags, proto::sys_flag::kBornHostV6));
  w.put(stamp.store_ms);
  w.host(r.store_host, host_bytes(flags, proto::sys_flag::kStoreHostV6));
  w.put(r.reconsume_times);
  w.put(r.prepared_offset);
  w.put(static_cast<std::int32_t>(r.body.len));
  w.bytes(r.body.ptr, r.body.len);
  w.put(static_cast<std::uint8_t>(r.topic.len));
  w.bytes(r.topic.ptr, r.topic.len);
  w.put(static_cast<std::uint16_t>(r.properties.len));
  w.bytes(r.properties.ptr, r.properties.len);
  // Only the order of the stores of this thread matters: what a killed process has stored stays in
  // the page cache.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  store_be(out, static_cast<std::uint32_t>(bytes));
}

bool next_batch_item(tenon_bytes body, std::size_t& pos, BatchItem& out) noexcept {
  const std::span<const std::uint8_t> left{body.ptr + pos, body.len - pos};
  const FrameHead head = peek_frame(left);
  if (head.kind != FrameKind::kRecord) {
    return false;
  }
  auto m = proto::decode_message(std::as_bytes(left.first(head.bytes)));
  if (!m || m.value().total_bytes != static_cast<std::int32_t>(head.bytes)) {
    return false;
  }
  out.at = static_cast<std::uint32_t>(pos);
  out.bytes = head.bytes;
  out.store_ms_at = static_cast<std::uint32_t>(48 + m.value().born_host.encoded_bytes());
  out.tags_code = proto::tags_code_of(m.value().properties);
  out.properties = m.value().properties;
  pos += head.bytes;
  return true;
}

void patch(std::uint8_t* record, std::uint32_t store_ms_at, const Stamp& stamp) noexcept {
  store_be(record + proto::kRecordQueueOffsetAt, stamp.queue_offset);
  store_be(record + proto::kRecordPhysOffsetAt, stamp.phys);
  store_be(record + store_ms_at, stamp.store_ms);
}

FrameHead peek_frame(std::span<const std::uint8_t> in) noexcept {
  if (in.size() < kBlankBytes) {
    return {};
  }
  const auto bytes = load_be<std::uint32_t>(in.data());
  const auto magic = load_be<std::int32_t>(in.data() + 4);
  if (magic == proto::kBlankMagic) {
    return {FrameKind::kBlank, bytes};
  }
  const bool known = magic == proto::kMessageMagicV1 || magic == proto::kMessageMagicV2;
  if (!known || bytes < kRecordMinBytes - 1 || bytes > in.size()) {
    return {};
  }
  return {FrameKind::kRecord, bytes};
}

Result<proto::MessageView> parse_record(std::span<const std::uint8_t> in, bool check_crc) {
  TENON_TRY(proto::MessageView m, proto::decode_message(std::as_bytes(in)));
  if (check_crc && !m.body.empty() && crc32_java(m.body) != m.body_crc) {
    return Error{Errc::kCorrupt, "the body does not fit its CRC"};
  }
  return m;
}

std::uint32_t delay_level_of(const proto::MessageView& m) noexcept {
  if (m.topic != kScheduleTopic) {
    return 0;
  }
  const auto text = proto::find_property(m.properties, proto::prop::kDelay);
  std::uint32_t level = 0;
  if (!text || text->empty()) {
    return 0;
  }
  const auto [end, ec] = std::from_chars(text->data(), text->data() + text->size(), level);
  const bool whole = ec == std::errc{} && end == text->data() + text->size();
  return whole && level <= kLevelMax ? level : 0;
}

std::int64_t stored_tags_code(const proto::MessageView& m, const HostServices& host) noexcept {
  const std::uint32_t level = delay_level_of(m);
  return level > 0 ? host.deliver_time(level, m.store_ms) : proto::tags_code_of(m.properties);
}

KeyTexts key_texts(const proto::MessageView& m) noexcept {
  KeyTexts texts;
  if ((m.sys_flag & proto::sys_flag::kTransactionMask) == proto::sys_flag::kTransactionRollback) {
    return texts;
  }
  for (proto::PropertyIterator it(m.properties); it.next();) {
    if (it.name() == proto::prop::kUniqKey) {
      texts.uniq_key = it.value();
    } else if (it.name() == proto::prop::kKeys) {
      texts.keys = it.value();
    }
  }
  return texts;
}

std::int32_t key_hash(std::string_view topic, std::string_view key, std::string& scratch) {
  scratch.assign(topic);
  scratch += '#';
  scratch += key;
  const std::int32_t hash = proto::java_hash(scratch);
  if (hash == std::numeric_limits<std::int32_t>::min()) {
    return 0;
  }
  return hash < 0 ? -hash : hash;
}

}  // namespace tenon::store
