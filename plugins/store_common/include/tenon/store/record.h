// Log records at the plug-in boundary: limits, encoding from tenon_record, walking frames, and what
// a record says about queues and keys (spec: store §3, §4, §5.1, §6.2).
#pragma once

#include "tenon/abi/plugin.h"
#include "tenon/base/result.h"
#include "tenon/proto/message.h"
#include "tenon/store/host_services.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenon::store {

/// Bytes that stay free at the end of every log file for the filler (spec: store §3.5).
inline constexpr std::size_t kBlankBytes = 8;
/// The smallest record: IPv4 hosts, one byte of topic, nothing else.
inline constexpr std::size_t kRecordMinBytes = 92;

/// Which queue bookkeeping a record takes part in, by its transaction type (spec: store §4.3).
inline bool has_queue_entry(std::int32_t sys_flag) noexcept {
  const std::int32_t type = sys_flag & proto::sys_flag::kTransactionMask;
  return type == 0 || type == proto::sys_flag::kTransactionCommit;
}

/// Checks a record before it is written: topic usable as a folder name, lengths, batch shape.
/// @return kInvalid or kLimit as the RocketMQ statuses MESSAGE_ILLEGAL and
/// PROPERTIES_SIZE_EXCEEDED. Does not allocate on success. Thread: any.
tenon_status check_record(const tenon_record& r, const char** why) noexcept;
/// Whether the topic can be a folder name below consumequeue and fits into a V1 record. Thread: any.
bool is_storable_topic(std::string_view topic) noexcept;
/// The same of records that are there already: a V2 record of a 5.x broker has up to 255 bytes
/// (spec: store §3.4). Thread: any.
bool is_readable_topic(std::string_view topic) noexcept;

/// What the store assigns to a record.
struct Stamp {
  std::int64_t queue_offset = 0;
  std::uint64_t phys = 0;
  std::int64_t store_ms = 0;
};

/// Bytes of the encoded record (not of a batch).
std::size_t encoded_bytes(const tenon_record& r) noexcept;
/// Encodes a checked record to out, which has encoded_bytes(r) zero bytes. The length word is
/// written last: a process killed in between leaves no record rather than half of one. Does not
/// allocate.
void encode(const tenon_record& r,
            std::size_t bytes,
            const Stamp& stamp,
            std::uint8_t* out) noexcept;

/// One record inside a batch body, already encoded.
struct BatchItem {
  std::uint32_t at = 0;  ///< byte position in the body
  std::uint32_t bytes = 0;
  std::uint32_t store_ms_at = 0;  ///< position of the store time inside the record
  std::int64_t tags_code = 0;
  std::string_view properties{};
};
/// Steps through a checked batch body; pos starts at 0. False at the end.
bool next_batch_item(tenon_bytes body, std::size_t& pos, BatchItem& out) noexcept;
/// Writes what the store assigns into an encoded record.
void patch(std::uint8_t* record, std::uint32_t store_ms_at, const Stamp& stamp) noexcept;

enum class FrameKind : std::uint8_t { kRecord, kBlank, kNone };
struct FrameHead {
  FrameKind kind = FrameKind::kNone;
  std::uint32_t bytes = 0;  ///< of a record; of a blank what its length word says
};
/// Looks at length and magic of the frame at the start of `in`. kNone: no known magic, or the
/// length does not fit. Does not look at the rest.
FrameHead peek_frame(std::span<const std::uint8_t> in) noexcept;

/// The whole record at the start of `in`, its body checked against the CRC if asked for.
Result<proto::MessageView> parse_record(std::span<const std::uint8_t> in, bool check_crc);

/// The delay level of a record of the schedule topic, whose queue has delivery times in place of
/// tags codes (spec: store §18); 0 for every other record.
std::uint32_t delay_level_of(const proto::MessageView& m) noexcept;
/// Tags code of a stored record as the dispatcher computes it: hash of TAGS, or the delivery time
/// for the schedule topic (spec: store §5.1, §18).
std::int64_t stored_tags_code(const proto::MessageView& m, const HostServices& host) noexcept;

/// Calls use(key) for every index key of a record: UNIQ_KEY, then the tokens of KEYS split at
/// single spaces; nothing for rollback records (spec: store §6.2).
template <class Use>
void for_each_key(const proto::MessageView& m, Use&& use);
/// The two properties behind it.
struct KeyTexts {
  std::string_view uniq_key{};
  std::string_view keys{};
};
KeyTexts key_texts(const proto::MessageView& m) noexcept;

template <class Use>
void for_each_key(const proto::MessageView& m, Use&& use) {
  const KeyTexts texts = key_texts(m);
  if (!texts.uniq_key.empty()) {
    use(texts.uniq_key);
  }
  std::string_view rest = texts.keys;
  while (!rest.empty()) {
    const std::size_t space = rest.find(' ');
    const std::string_view token = rest.substr(0, space);
    if (!token.empty()) {
      use(token);
    }
    rest = space == std::string_view::npos ? std::string_view{} : rest.substr(space + 1);
  }
}

/// Hash of the index key text topic#key: absolute value, the smallest int becomes 0. `scratch` is
/// reused so that nothing is allocated in the steady state.
std::int32_t key_hash(std::string_view topic, std::string_view key, std::string& scratch);

}  // namespace tenon::store
