#include "tenon/store_tool/log_walk.h"

#include "tenon/base/crc32.h"
#include "tenon/base/endian.h"
#include "tenon/store/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tenon::store_tool {

namespace {

constexpr std::size_t kRecordTailZeros = 8;

/// Position of the next record behind the start of `in`, which lies at `phys`; in.size() if there is
/// none. A record says its own position, so that data that looks like one is not taken for one.
std::size_t find_record(std::span<const std::uint8_t> in, std::uint64_t phys) {
  static constexpr std::uint8_t kMagicStart[] = {0xda, 0xa3, 0x20};
  proto::MessageView m;
  std::size_t at = 5;
  while (at < in.size()) {
    const void* found = ::memmem(in.data() + at, in.size() - at, kMagicStart, sizeof kMagicStart);
    if (found == nullptr) {
      break;
    }
    at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - in.data());
    const std::size_t begin = at - 4;
    if (read_record(in.subspan(begin), phys + begin, m)) {
      return begin;
    }
    ++at;
  }
  return in.size();
}

}  // namespace

bool read_record(std::span<const std::uint8_t> in, std::uint64_t phys, proto::MessageView& out) {
  const store::FrameHead head = store::peek_frame(in);
  if (head.kind != store::FrameKind::kRecord) {
    return false;
  }
  auto m = store::parse_record(in.first(head.bytes), false);
  if (!m || m.value().total_bytes != static_cast<std::int32_t>(head.bytes) ||
      m.value().phys_offset != static_cast<std::int64_t>(phys)) {
    return false;
  }
  out = m.value();
  return true;
}

bool LogWalk::next(Frame& frame) {
  if (!begun_) {
    begun_ = true;
    pos_ = std::max(pos_, log_.first_base());
    end_ = pos_;
  }
  frame = Frame{};
  while (!finished_) {
    const SequenceFile* file = log_.file_of(pos_);
    if (file == nullptr) {
      const SequenceFile* behind = log_.file_behind(pos_);
      if (behind == nullptr) {
        return false;
      }
      pos_ = behind->base;  // a missing file: the folder has a finding
      continue;
    }
    return step(log_.at(pos_), frame);
  }
  return false;
}

bool LogWalk::step(std::span<const std::uint8_t> rest, Frame& frame) {
  const std::uint64_t file_end = log_.file_of(pos_)->base + log_.file_bytes();
  frame.at = pos_;
  if (store::peek_frame(rest).kind == store::FrameKind::kBlank) {
    frame.kind = Frame::Kind::kBlank;
    frame.bytes = file_end - pos_;
    pos_ = end_ = file_end;
    return true;
  }
  if (!read_record(rest, pos_, frame.record)) {
    return damage(rest, frame);
  }
  const bool good = !check_crc_ || frame.record.body.empty() ||
                    crc32_java(frame.record.body) == frame.record.body_crc;
  frame.kind = good ? Frame::Kind::kRecord : Frame::Kind::kBadBody;
  frame.bytes = static_cast<std::uint64_t>(frame.record.total_bytes);
  pos_ = end_ = pos_ + frame.bytes;
  return true;
}

bool LogWalk::damage(std::span<const std::uint8_t> rest, Frame& frame) {
  // Only what has data is searched: the rest of a file may be a gigabyte of hole. A record may end
  // with two zeros, the length of its properties.
  const auto searched = [](std::span<const std::uint8_t> in, std::size_t data) {
    return in.first(std::min(data + kRecordTailZeros, in.size()));
  };
  const auto used = static_cast<std::size_t>(log_.data_end(pos_) - pos_);
  const std::size_t found = find_record(searched(rest, used), pos_);
  std::uint64_t next = found < used ? pos_ + found : 0;
  for (const SequenceFile* f = log_.file_behind(pos_); next == 0 && f != nullptr;
       f = log_.file_behind(f->base)) {
    const auto content = log_.at(f->base);
    const auto data = static_cast<std::size_t>(log_.data_end(f->base) - f->base);
    proto::MessageView m;
    if (read_record(content, f->base, m)) {
      next = f->base;
    } else if (const std::size_t at = find_record(searched(content, data), f->base); at < data) {
      next = f->base + at;
    }
  }
  if (next != 0) {
    frame.kind = Frame::Kind::kDamage;
    frame.bytes = next - pos_;
    frame.text = used == 0 ? fmt::format("zeros in place of a record; the next is at {}", next)
                           : fmt::format("no record; the next is at {}", next);
    pos_ = next;
    return true;
  }
  finished_ = true;
  frame.kind = Frame::Kind::kTail;
  frame.bytes = used;
  frame.text = fmt::format("{} bytes behind the last record are no record", used);
  return used > 0;
}

}  // namespace tenon::store_tool
