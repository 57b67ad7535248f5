// Entries of a DLedger log, each with one message record as its body (spec: replication §3.2).
//
//   0  4  kind: 1 message, 2 nothing, 3 change of members; -1: the rest of the file is empty
//   4  4  size: 48 + bytes of the body
//   8  8  index, from 0
//  16  8  term
//  24  8  position of the entry
//  32 12  channel and two checksums, 0
//  44  4  bytes of the body
//  48  n  body
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace tenon::store_format {

inline constexpr std::size_t kDledgerHeadBytes = 48;
inline constexpr std::int32_t kDledgerMessage = 1;
inline constexpr std::int32_t kDledgerFileEnd = -1;

struct DledgerEntry {
  std::int32_t kind = 0;
  std::int64_t index = 0;
  std::int64_t term = 0;
  std::uint64_t pos = 0;
  std::span<const std::uint8_t> body{};
  std::uint64_t bytes() const noexcept { return kDledgerHeadBytes + body.size(); }
};

/// True where the rest of a file is empty.
bool is_dledger_file_end(std::span<const std::uint8_t> in) noexcept;
/// The entry at the start of `in`; nothing if there is no whole one of a known kind.
std::optional<DledgerEntry> parse_dledger_entry(std::span<const std::uint8_t> in) noexcept;

}  // namespace tenon::store_format
