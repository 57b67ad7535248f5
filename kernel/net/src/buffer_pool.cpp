#include "buffer_pool.h"

#include <utility>

namespace tenon::net {
namespace {

constexpr std::array<std::size_t, 3> kClassBytes = {
    BufferPool::kSmallBytes, 256u * 1024, BufferPool::kLargeBytes};

}  // namespace

BufferPool::BufferPool(std::size_t keep_bytes)
    : core_(std::make_shared<Core>()) {
  core_->keep_bytes_max = keep_bytes;
}

std::shared_ptr<ReadBuffer> BufferPool::take(std::size_t bytes) {
  std::unique_ptr<ReadBuffer> buffer;
  std::size_t capacity = bytes;
  for (std::size_t i = 0; i < kClassBytes.size(); ++i) {
    if (bytes <= kClassBytes[i]) {
      capacity = kClassBytes[i];
      const std::scoped_lock lock(core_->mutex);
      if (!core_->free[i].empty()) {
        buffer = std::move(core_->free[i].back());
        core_->free[i].pop_back();
        core_->kept_bytes -= capacity;
      }
      break;
    }
  }
  if (!buffer) {
    buffer = std::make_unique<ReadBuffer>();
    buffer->data = std::make_unique_for_overwrite<std::byte[]>(capacity);
    buffer->capacity = capacity;
  }
  return {buffer.release(),
          [core = core_](ReadBuffer* b) { core->give_back(std::unique_ptr<ReadBuffer>(b)); }};
}

std::size_t BufferPool::kept_bytes() const {
  const std::scoped_lock lock(core_->mutex);
  return core_->kept_bytes;
}

void BufferPool::Core::give_back(std::unique_ptr<ReadBuffer> buffer) {
  for (std::size_t i = 0; i < kClassBytes.size(); ++i) {
    if (buffer->capacity == kClassBytes[i]) {
      const std::scoped_lock lock(mutex);
      make_room(i);
      if (kept_bytes + buffer->capacity <= keep_bytes_max) {
        kept_bytes += buffer->capacity;
        free[i].push_back(std::move(buffer));
      }
      return;
    }
  }
}

/// Smaller ones go first: what a large one saves is the page faults of all its pages.
void BufferPool::Core::make_room(std::size_t index) {
  for (std::size_t i = 0; i < index; ++i) {
    while (!free[i].empty() && kept_bytes + kClassBytes[index] > keep_bytes_max) {
      free[i].pop_back();
      kept_bytes -= kClassBytes[i];
    }
  }
}

}  // namespace tenon::net
