#include "processors/store_view.h"

#include <algorithm>

namespace tenon::broker {

std::int64_t time_of(const Services& s, tenon_queue queue, std::int64_t offset) {
  std::int64_t ms = 0;
  const auto& storage = s.log.storage();
  if (offset < 0 || storage->time_of == nullptr ||
      storage->time_of(storage.self, queue, offset, &ms, nullptr) < 0) {
    return 0;
  }
  return std::max<std::int64_t>(ms, 0);
}

std::int64_t offset_by_time(const Services& s,
                            tenon_queue queue,
                            std::int64_t time_ms,
                            std::uint32_t boundary) {
  if (time_ms < 0) {
    return std::max<std::int64_t>(s.log.bounds(queue).max_offset, 0);
  }
  std::int64_t offset = 0;
  const auto& storage = s.log.storage();
  if (queue == 0 || storage->offset_by_time == nullptr ||
      storage->offset_by_time(storage.self, queue, time_ms, boundary, &offset, nullptr) < 0) {
    return 0;
  }
  return std::max<std::int64_t>(offset, 0);
}

std::optional<std::string> record_at(const Services& s, std::int64_t phys_offset) {
  if (phys_offset < 0) {
    return std::nullopt;
  }
  const auto& storage = s.log.storage();
  tenon_view view{};
  tenon_hold hold{};
  std::optional<std::string> out;
  const tenon_status status = storage->message_at(
      storage.self, static_cast<std::uint64_t>(phys_offset), &view, &hold, nullptr);
  if (status >= 0 && view.ptr != nullptr) {
    out.emplace(reinterpret_cast<const char*>(view.ptr), view.len);
  }
  if (hold.release != nullptr) {
    hold.release(hold.owner, hold.id);
  }
  return out;
}

}  // namespace tenon::broker
