// All consume queues of a store, by topic and id, and by handle.
#pragma once

#include "consume_queue.h"

#include "tenon/abi/types.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon::store_file {

/// Thread: any. Queues live until clear(). A handle is never reused before that.
class QueueTable {
 public:
  /// @param ext_file_bytes  size of extension files; 0 = new queues have none
  void configure(std::string root, std::uint64_t file_bytes, std::uint64_t ext_file_bytes) {
    root_ = std::move(root);
    file_bytes_ = file_bytes;
    ext_file_bytes_ = ext_file_bytes;
  }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }

  /// Wait-free. nullptr for a handle that was never given out.
  ConsumeQueue* at(tenon_queue handle) const noexcept {
    if (handle == 0 || handle > count_.load(std::memory_order_acquire)) {
      return nullptr;
    }
    const std::uint64_t i = handle - 1;
    return chunks_[i / kChunk].load(std::memory_order_acquire)->queues[i % kChunk].get();
  }
  /// Existing queue or nullptr. Does not allocate.
  ConsumeQueue* find(std::string_view topic, std::uint32_t id, tenon_queue& handle) const;
  /// nullptr if the table is full.
  ConsumeQueue* find_or_create(std::string_view topic, std::uint32_t id, tenon_queue& handle);
  /// All queues that are not dropped, in the order of their handles.
  std::vector<ConsumeQueue*> all() const;
  template <class Use>
  void for_each(Use&& use) const {
    const std::uint64_t count = count_.load(std::memory_order_acquire);
    for (tenon_queue handle = 1; handle <= count; ++handle) {
      if (ConsumeQueue* queue = at(handle); !queue->is_dropped()) {
        use(*queue);
      }
    }
  }
  /// With more mapped files than this, those that nobody used lately are to be unmapped. Thread: the
  /// one that opens the store.
  void limit_mappings(std::size_t most) noexcept { mappings_max_ = most; }
  bool has_many_mappings() const noexcept { return mappings() > mappings_max_; }
  std::size_t mappings() const noexcept {
    return shared_.mappings.mapped.load(std::memory_order_relaxed);
  }
  /// Looks at the next queues, at most that many, until there are clearly fewer. Dispatch role.
  void unmap_some(std::size_t queues);
  /// For who dispatches: a burst over very many queues must not outrun the helper. Dispatch role.
  void relieve() {
    if (mappings() > 2 * mappings_max_) [[unlikely]] {
      unmap_some(256);
    }
  }
  /// Sum of the ends of all queues: differs once one of them has lost something.
  std::uint64_t units() const;
  /// Whether a queue asked for its next file since the last call.
  bool take_nearly_full() noexcept {
    return shared_.nearly_full.exchange(false, std::memory_order_relaxed);
  }
  /// Removes a queue from the names; its handle answers STALE from now on.
  void drop(ConsumeQueue& queue);
  std::size_t size() const;
  /// How many of light topics were made, dropped ones included.
  std::uint32_t light_count() const noexcept { return lights_.load(std::memory_order_relaxed); }
  /// False while a reader holds a file of a queue; then nothing happens.
  bool clear();

 private:
  static constexpr std::size_t kChunk = 1024;
  static constexpr std::size_t kChunksMax = 1024;
  struct Chunk {
    std::array<std::unique_ptr<ConsumeQueue>, kChunk> queues{};
  };
  struct Key {
    std::string_view topic{};  ///< views the queue's own text
    std::uint32_t id = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& k) const noexcept {
      return std::hash<std::string_view>{}(k.topic) ^ (k.id * 0x9e37'79b9'7f4a'7c15u);
    }
  };

  std::string root_{};
  std::uint64_t file_bytes_ = 0;
  std::uint64_t ext_file_bytes_ = 0;
  QueueShared shared_{};
  std::size_t mappings_max_ = 16'384;
  std::uint64_t hand_ = 0;  ///< where unmap_some() goes on; dispatch role
  mutable std::mutex mutex_{};
  std::unordered_map<Key, tenon_queue, KeyHash> names_{};
  std::array<std::atomic<Chunk*>, kChunksMax> chunks_{};
  std::vector<std::unique_ptr<Chunk>> owned_{};
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint32_t> lights_{0};
};

}  // namespace tenon::store_file
