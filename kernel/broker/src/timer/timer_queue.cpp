#include "timer/timer_queue.h"

#include "meta/topics.h"

#include "tenon/base/log.h"

namespace tenon::broker {
namespace {

constexpr std::size_t kPageBytes = 4096;

/// Brings a record into memory before the append lock is held.
void touch(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += kPageBytes) {
    static_cast<void>(*static_cast<const volatile std::byte*>(&bytes[at]));
  }
}

void release(tenon_hold& hold) {
  if (hold.release != nullptr) {
    hold.release(hold.owner, hold.id);
  }
}

}  // namespace

tenon_queue TimerQueue::handle() {
  if (queue_ == 0) {
    // Without creating it: a store that never had a timer message stays as it is.
    const auto& storage = log_.storage();
    if (storage->open_queue(storage.self, host::abi_str(kTimerTopic), 0, 0, &queue_, nullptr) < 0) {
      queue_ = 0;
    }
  }
  return queue_;
}

std::int64_t TimerQueue::read(std::int64_t from, const Visitor& visitor) {
  if (handle() == 0) {
    return from;
  }
  const auto& storage = log_.storage();
  std::array<tenon_index_entry, kBatch> entries{};
  std::size_t n = 0;
  std::int64_t next = from;
  tenon_hold hold{};
  const tenon_status status = storage->index_read(storage.self,
                                                  handle(),
                                                  from,
                                                  entries.data(),
                                                  sizeof(tenon_index_entry),
                                                  entries.size(),
                                                  &n,
                                                  &next,
                                                  &hold);
  release(hold);
  if (status == static_cast<tenon_status>(Errc::kGap) && next > from) {
    return next;
  }
  if (status < 0 || n == 0) {
    return from;
  }
  std::array<std::int64_t, kBatch> offsets{};
  for (std::size_t i = 0; i < n; ++i) {
    offsets[i] = from + static_cast<std::int64_t>(i);
  }
  visit({entries.data(), n}, {offsets.data(), n}, visitor);
  return from + static_cast<std::int64_t>(n);
}

void TimerQueue::look_up(std::span<const std::int64_t> offsets, const Visitor& visitor) {
  const auto& storage = log_.storage();
  std::array<tenon_index_entry, kBatch> entries{};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    std::size_t n = 0;
    std::int64_t next = 0;
    tenon_hold hold{};
    const tenon_status status = storage->index_read(storage.self,
                                                    handle(),
                                                    offsets[i],
                                                    &entries[i],
                                                    sizeof(tenon_index_entry),
                                                    1,
                                                    &n,
                                                    &next,
                                                    &hold);
    release(hold);
    if (status < 0 || n != 1) {
      entries[i] = {};
    }
  }
  visit({entries.data(), offsets.size()}, offsets, visitor);
}

void TimerQueue::visit(std::span<const tenon_index_entry> entries,
                       std::span<const std::int64_t> offsets,
                       const Visitor& visitor) {
  const auto& storage = log_.storage();
  std::array<tenon_extent, kBatch> extents{};
  std::array<tenon_view, kBatch> views{};
  std::array<proto::MessageView, kBatch> messages{};
  std::array<Item, kBatch> items{};
  const std::size_t n = entries.size();
  for (std::size_t i = 0; i < n; ++i) {
    extents[i] = {entries[i].phys, entries[i].bytes, 0};
  }
  std::uint64_t next_file = 0;
  tenon_hold hold{};
  const tenon_status status = storage->fetch(storage.self,
                                             extents.data(),
                                             n,
                                             0,
                                             views.data(),
                                             sizeof(tenon_view),
                                             &next_file,
                                             &hold,
                                             nullptr);
  for (std::size_t i = 0; i < n; ++i) {
    items[i] = {offsets[i], entries[i].phys, nullptr};
    if (status < 0 || views[i].ptr == nullptr || extents[i].bytes == 0) {
      continue;
    }
    const std::span bytes(reinterpret_cast<const std::byte*>(views[i].ptr),
                          std::size_t{views[i].len});
    touch(bytes);
    auto decoded = proto::decode_message(bytes);
    if (decoded.has_value()) {
      messages[i] = decoded.value();
      items[i].message = &messages[i];
    } else {
      log_error("broker",
                "timer message unreadable offset={} phys={} reason=\"{}\"",
                offsets[i],
                entries[i].phys,
                decoded.error().detail);
    }
  }
  visitor({items.data(), n});
  release(hold);
}

}  // namespace tenon::broker
