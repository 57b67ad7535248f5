#include "queue_table.h"

#include "layout.h"

#include "tenon/store/light_queues.h"

namespace tenon::store_file {

ConsumeQueue* QueueTable::find(std::string_view topic,
                               std::uint32_t id,
                               tenon_queue& handle) const {
  const std::scoped_lock lock(mutex_);
  const auto it = names_.find(Key{topic, id});
  if (it == names_.end()) {
    return nullptr;
  }
  handle = it->second;
  return at(handle);
}

ConsumeQueue* QueueTable::find_or_create(std::string_view topic,
                                         std::uint32_t id,
                                         tenon_queue& handle) {
  const std::scoped_lock lock(mutex_);
  const auto it = names_.find(Key{topic, id});
  if (it != names_.end()) {
    handle = it->second;
    return at(handle);
  }
  const std::uint64_t i = count_.load(std::memory_order_relaxed);
  if (i >= kChunk * kChunksMax) {
    return nullptr;
  }
  if (i % kChunk == 0) {
    owned_.push_back(std::make_unique<Chunk>());
    chunks_[i / kChunk].store(owned_.back().get(), std::memory_order_release);
  }
  auto queue = std::make_unique<ConsumeQueue>(
      std::string(topic), id, queue_folder(root_, topic, id), file_bytes_, shared_);
  if (ext_file_bytes_ != 0) {
    queue->extend(ext_folder(root_, topic, id), ext_file_bytes_);
  }
  ConsumeQueue* created = queue.get();
  owned_.back()->queues[i % kChunk] = std::move(queue);
  handle = i + 1;
  names_.emplace(Key{created->topic(), id}, handle);
  count_.store(i + 1, std::memory_order_release);
  if (store::is_light(created->topic())) {
    lights_.fetch_add(1, std::memory_order_relaxed);
  }
  return created;
}

std::vector<ConsumeQueue*> QueueTable::all() const {
  std::vector<ConsumeQueue*> queues;
  queues.reserve(size());
  for_each([&](ConsumeQueue& queue) { queues.push_back(&queue); });
  return queues;
}

std::uint64_t QueueTable::units() const {
  std::uint64_t sum = 0;
  for_each(
      [&](const ConsumeQueue& queue) { sum += static_cast<std::uint64_t>(queue.max_offset()); });
  return sum;
}

void QueueTable::unmap_some(std::size_t queues) {
  const std::uint64_t count = count_.load(std::memory_order_acquire);
  while (queues > 0 && count > 0 && mappings() > mappings_max_ / 4 * 3) {
    --queues;
    hand_ = hand_ % count + 1;
    if (ConsumeQueue& queue = *at(hand_); queue.is_dropped() || !queue.take_used()) {
      queue.unmap_unheld();
    }
  }
}

void QueueTable::drop(ConsumeQueue& queue) {
  const std::scoped_lock lock(mutex_);
  names_.erase(Key{queue.topic(), queue.id()});
  queue.drop();
}

std::size_t QueueTable::size() const {
  const std::scoped_lock lock(mutex_);
  return names_.size();
}

bool QueueTable::clear() {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t count = count_.load(std::memory_order_relaxed);
  for (std::uint64_t i = 0; i < count; ++i) {
    ConsumeQueue& queue = *at(i + 1);
    if (queue.files().has_pins() || (queue.ext() != nullptr && queue.ext()->files().has_pins())) {
      return false;
    }
  }
  names_.clear();
  count_.store(0, std::memory_order_release);
  lights_.store(0, std::memory_order_relaxed);
  for (auto& chunk : chunks_) {
    chunk.store(nullptr, std::memory_order_release);
  }
  owned_.clear();
  return true;
}

}  // namespace tenon::store_file
