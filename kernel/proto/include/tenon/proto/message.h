// Message records as they lie in the commit log and travel in pull answers, batch bodies and
// message ids (spec: store §3, §4.5, remoting §6.1, §9).
#pragma once

#include "tenon/base/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tenon::proto {

inline constexpr std::int32_t kMessageMagicV1 = static_cast<std::int32_t>(0xDAA320A7);
inline constexpr std::int32_t kMessageMagicV2 = static_cast<std::int32_t>(0xDAA320AB);
inline constexpr std::int32_t kBlankMagic = static_cast<std::int32_t>(0xCBD43194);

/// sysFlag bits (spec: remoting §9.3).
namespace sys_flag {
inline constexpr std::int32_t kCompressed = 0x1;
inline constexpr std::int32_t kMultiTags = 0x2;
inline constexpr std::int32_t kTransactionPrepared = 0x4;
inline constexpr std::int32_t kTransactionCommit = 0x8;
inline constexpr std::int32_t kTransactionRollback = 0xC;
inline constexpr std::int32_t kTransactionMask = 0xC;
inline constexpr std::int32_t kBornHostV6 = 0x10;
inline constexpr std::int32_t kStoreHostV6 = 0x20;
inline constexpr std::int32_t kCompressionMask = 0x700;
inline constexpr std::int32_t kCompressionLz4 = 0x100;
inline constexpr std::int32_t kCompressionZstd = 0x200;
inline constexpr std::int32_t kCompressionZlib = 0x300;
}  // namespace sys_flag

inline constexpr std::size_t kPropertiesMaxBytes = 32767;
inline constexpr std::size_t kTopicMaxBytes = 127;
inline constexpr std::size_t kBodyMaxBytesDefault = 4u * 1024 * 1024;

/// IPv4 or IPv6 address with port. Text form "1.2.3.4:80" or "[::1]:80".
struct HostAddr {
  std::array<std::uint8_t, 16> ip{};  ///< IPv4 in the first four bytes
  std::uint16_t port = 0;
  bool v6 = false;

  std::size_t encoded_bytes() const { return (v6 ? 16u : 4u) + 4u; }
  friend bool operator==(const HostAddr&, const HostAddr&) = default;
};
std::string to_string(const HostAddr& addr);
/// Parses "ip:port"; no name resolution.
Result<HostAddr> parse_host_addr(std::string_view text);

/// A stored record, all views into the bytes it was decoded from.
struct MessageView {
  std::int32_t total_bytes = 0;
  std::int32_t magic = 0;
  std::int32_t body_crc = 0;
  std::int32_t queue_id = 0;
  std::int32_t flag = 0;
  std::int64_t queue_offset = 0;
  std::int64_t phys_offset = 0;
  std::int32_t sys_flag = 0;
  std::int64_t born_ms = 0;
  HostAddr born_host{};
  std::int64_t store_ms = 0;
  HostAddr store_host{};
  std::int32_t reconsume_times = 0;
  std::int64_t prepared_offset = 0;
  std::span<const std::byte> body{};
  std::string_view topic{};
  std::string_view properties{};
};

/// Decodes the record at the start of `in`. Every length is checked against the record and the
/// record against `in`.
/// @return kInvalid if the bytes are no whole record of a known magic, with the reason. Thread:
/// any. Does not allocate on success.
Result<MessageView> decode_message(std::span<const std::byte> in);

/// Fields of a record to be written; the storage fills in offsets and store time.
struct MessageRecord {
  std::string_view topic{};
  std::int32_t queue_id = 0;
  std::int32_t flag = 0;
  std::int64_t queue_offset = 0;
  std::int64_t phys_offset = 0;
  std::int32_t sys_flag =
      0;  ///< bits kBornHostV6 and kStoreHostV6 are set from the addresses by encode_message
  std::int64_t born_ms = 0;
  HostAddr born_host{};
  std::int64_t store_ms = 0;
  HostAddr store_host{};
  std::int32_t reconsume_times = 0;
  std::int64_t prepared_offset = 0;
  std::span<const std::byte> body{};
  std::string_view properties{};
};

/// Bytes that encode_message will write. Magic V1 up to 127 bytes of topic, V2 above.
std::size_t encoded_message_bytes(const MessageRecord& m) noexcept;
/// Writes the record to `out`, which has at least encoded_message_bytes(m) bytes; computes the body
/// CRC. Returns the bytes written. The caller has checked topic and property limits. Does not
/// allocate.
std::size_t encode_message(const MessageRecord& m, std::byte* out) noexcept;

/// Offsets of fields inside a record whose hosts are both IPv4 or as given; for readers that patch
/// or peek.
inline constexpr std::size_t kRecordQueueIdAt = 12;
inline constexpr std::size_t kRecordQueueOffsetAt = 20;
inline constexpr std::size_t kRecordPhysOffsetAt = 28;
inline constexpr std::size_t kRecordSysFlagAt = 36;
inline constexpr std::size_t kRecordBornMsAt = 40;
inline constexpr std::size_t kRecordBornHostAt = 48;

/// One entry of a batch body (spec: remoting §6.1).
struct BatchEntry {
  std::int32_t flag = 0;
  std::span<const std::byte> body{};
  std::string_view properties{};
};
/// Walks a batch body; next() is false at the end or on a malformed entry, which ok() tells apart.
class BatchReader {
 public:
  explicit BatchReader(std::span<const std::byte> body) noexcept
      : rest_(body) {}
  bool next(BatchEntry& out) noexcept;
  bool ok() const noexcept { return ok_; }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};
void append_batch_entry(std::string& out,
                        std::int32_t flag,
                        std::string_view body,
                        std::string_view properties);

/// Offset message id: store host and physical offset in upper-case hex (spec: remoting §9.4).
std::string offset_message_id(const HostAddr& store_host, std::int64_t phys_offset);
struct OffsetMessageId {
  HostAddr store_host{};
  std::int64_t phys_offset = 0;
};
Result<OffsetMessageId> parse_offset_message_id(std::string_view text);

/// Topic rules (spec: remoting §9.6): legal characters, 1 to 127 bytes. Remark texts are Java's
/// where they exist.
Result<> check_topic_name(std::string_view topic);

/// Body compression by sysFlag type bits. zlib level 5 as Java; LZ4 frames; Zstandard. Thread: any.
enum class Compression : std::uint8_t { kZlib, kLz4, kZstd };
Result<std::string> compress(std::span<const std::byte> body, Compression how, int level = 5);
/// @param max_bytes  limit of the inflated size, kLimit beyond it (a small body may announce
/// gigabytes)
Result<std::string> decompress(std::span<const std::byte> body,
                               std::int32_t sys_flag,
                               std::size_t max_bytes = 64u * 1024 * 1024);

}  // namespace tenon::proto
