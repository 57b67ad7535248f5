// Memory for the texts and records that one batch of sends needs besides its receive buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace tenon::broker {

/// Bump allocator; reset() keeps the first blocks, so the steady state does not allocate.
/// Thread: one at a time.
class Arena {
 public:
  /// 8-byte aligned, uninitialised, valid until reset().
  std::byte* take(std::size_t bytes) {
    bytes = (bytes + 7) & ~std::size_t{7};
    while (block_ < blocks_.size()) {
      Block& block = blocks_[block_];
      if (block.size - used_ >= bytes) {
        std::byte* p = block.memory.get() + used_;
        used_ += bytes;
        return p;
      }
      ++block_;
      used_ = 0;
    }
    const std::size_t size = std::max(bytes, kBlockBytes);
    blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
    used_ = bytes;
    return blocks_.back().memory.get();
  }
  char* take_text(std::size_t bytes) { return reinterpret_cast<char*>(take(bytes)); }

  void reset() {
    while (blocks_.size() > kBlocksKept ||
           (!blocks_.empty() && blocks_.back().size > kBlockBytes)) {
      blocks_.pop_back();
    }
    block_ = 0;
    used_ = 0;
  }

 private:
  static constexpr std::size_t kBlockBytes = 64u * 1024;
  static constexpr std::size_t kBlocksKept = 16;
  struct Block {
    std::unique_ptr<std::byte[]> memory{};
    std::size_t size = 0;
  };
  std::vector<Block> blocks_{};
  std::size_t block_ = 0;
  std::size_t used_ = 0;
};

}  // namespace tenon::broker
