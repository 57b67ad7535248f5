// Walks the log from file to file and goes on behind damage, unlike recovery, which stops there.
#pragma once

#include "tenon/proto/message.h"
#include "tenon/store_tool/read_files.h"

#include <cstdint>
#include <span>
#include <string>

namespace tenon::store_tool {

struct Frame {
  enum class Kind : std::uint8_t {
    kRecord,
    kBadBody,  ///< a whole record whose body does not fit its CRC
    kBlank,    ///< the filler at the end of a file
    kDamage,   ///< no record; records follow later
    kTail,     ///< bytes behind the last record of all
  };
  Kind kind = Kind::kRecord;
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  proto::MessageView record{};  ///< of kRecord and kBadBody
  std::string text{};           ///< of damage and tail
};

/// Thread: as the Sequence.
class LogWalk {
 public:
  LogWalk(const Sequence& log, std::uint64_t from, bool check_crc)
      : log_(log),
        pos_(from),
        check_crc_(check_crc) {}

  /// False behind the last frame; end() is the end of the log then.
  bool next(Frame& frame);
  /// Behind the last record or filler seen.
  std::uint64_t end() const noexcept { return end_; }

 private:
  bool step(std::span<const std::uint8_t> rest, Frame& frame);
  bool damage(std::span<const std::uint8_t> rest, Frame& frame);

  const Sequence& log_;
  std::uint64_t pos_;
  std::uint64_t end_ = 0;
  bool check_crc_;
  bool begun_ = false;
  bool finished_ = false;
};

/// Whether a whole record lies at the start of `in` that says it belongs at position `phys`; the CRC is
/// not looked at.
bool read_record(std::span<const std::uint8_t> in, std::uint64_t phys, proto::MessageView& out);

}  // namespace tenon::store_tool
