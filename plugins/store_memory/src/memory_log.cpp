#include "memory_log.h"

#include "tenon/base/endian.h"
#include "tenon/proto/message.h"

namespace tenon::store_memory {

void MemoryLog::roll() {
  if (!segments_.empty()) {
    Segment& full = *segments_.back();
    std::uint8_t* at = full.data + (end_ - full.base);
    store_be(at, static_cast<std::uint32_t>(full.end() - end_));
    store_be(at + 4, proto::kBlankMagic);
    end_ = full.end();
  }
  segments_.push_back(std::make_shared<Segment>(end_, segment_bytes_));
}

std::shared_ptr<Segment> MemoryLog::find(std::uint64_t phys, std::uint64_t bytes) const {
  if (segments_.empty() || phys < segments_.front()->base || phys + bytes > end_ ||
      phys + bytes < phys) {
    return nullptr;
  }
  const auto& segment = segments_[(phys - segments_.front()->base) / segment_bytes_];
  return phys + bytes <= segment->end() ? segment : nullptr;
}

std::uint64_t MemoryLog::next_base(std::uint64_t phys) const {
  for (const auto& segment : segments_) {
    if (segment->base > phys) {
      return segment->base;
    }
  }
  return 0;
}

}  // namespace tenon::store_memory
