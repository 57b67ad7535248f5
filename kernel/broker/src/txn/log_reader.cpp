#include "txn/log_reader.h"

#include <algorithm>

namespace tenon::broker {

bool read_entries(const Log& log, tenon_queue queue, std::int64_t from, QueueSlice& out) {
  const auto& storage = log.storage();
  for (;;) {
    std::int64_t next = from;
    tenon_hold hold{};
    out.n = 0;
    const tenon_status status = storage->index_read(storage.self,
                                                    queue,
                                                    from,
                                                    out.entries.data(),
                                                    sizeof(tenon_index_entry),
                                                    out.entries.size(),
                                                    &out.n,
                                                    &next,
                                                    &hold);
    if (hold.release != nullptr) {
      hold.release(hold.owner, hold.id);
    }
    if (status == static_cast<tenon_status>(Errc::kGap) && next > from) {
      from = next;
      continue;
    }
    out.first = from;
    return status >= 0 && out.n > 0;
  }
}

void Records::release() {
  if (hold_.release != nullptr) {
    hold_.release(hold_.owner, hold_.id);
  }
  hold_ = {};
  n_ = 0;
}

bool Records::fetch(std::span<const tenon_extent> extents) {
  release();
  const std::size_t n = std::min(extents.size(), views_.size());
  const auto& storage = log_.storage();
  std::uint64_t next_file = 0;
  if (n == 0 || storage->fetch(storage.self,
                               extents.data(),
                               n,
                               0,
                               views_.data(),
                               sizeof(tenon_view),
                               &next_file,
                               &hold_,
                               nullptr) < 0) {
    return false;
  }
  n_ = n;
  return true;
}

bool Records::fetch_at(std::int64_t phys) {
  release();
  const auto& storage = log_.storage();
  if (phys < 0 ||
      storage->message_at(
          storage.self, static_cast<std::uint64_t>(phys), views_.data(), &hold_, nullptr) < 0) {
    return false;
  }
  n_ = 1;
  return true;
}

std::span<const std::byte> Records::fetch_raw(std::uint64_t phys, std::uint32_t max_bytes) {
  release();
  const auto& storage = log_.storage();
  if (storage->read_log(
          storage.self, phys, max_bytes, TENON_READ_TO_END, views_.data(), &hold_, nullptr) < 0 ||
      views_[0].ptr == nullptr) {
    return {};
  }
  n_ = 1;
  return {reinterpret_cast<const std::byte*>(views_[0].ptr), views_[0].len};
}

std::optional<proto::MessageView> Records::record(std::size_t i) const {
  if (i >= n_ || views_[i].ptr == nullptr) {
    return std::nullopt;
  }
  auto decoded = proto::decode_message(
      {reinterpret_cast<const std::byte*>(views_[i].ptr), std::size_t{views_[i].len}});
  if (decoded.has_error()) {
    return std::nullopt;
  }
  return decoded.value();
}

}  // namespace tenon::broker
