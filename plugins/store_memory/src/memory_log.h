// The log of the memory store: pieces of equal size in RAM, the oldest ones dropped when the limit
// is reached.
#pragma once

#include "tenon/base/result.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <vector>

namespace tenon::store_memory {

/// Zeroed memory of one stretch of the log.
struct Segment {
  Segment(std::uint64_t at, std::size_t size)
      : base(at),
        bytes(size),
        data(static_cast<std::uint8_t*>(std::calloc(1, size))) {
    if (data == nullptr) {
      throw std::bad_alloc();
    }
  }
  ~Segment() { std::free(data); }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  std::uint64_t end() const { return base + bytes; }

  const std::uint64_t base;
  const std::size_t bytes;
  std::uint8_t* const data;
  std::int64_t newest_ms = 0;
  std::vector<std::int32_t> key_hashes{};  ///< keys of its records, to forget them with it
};

/// Not synchronised: the store's lock covers it. Readers keep what they use by shared_ptr.
class MemoryLog {
 public:
  void configure(std::size_t segment_bytes) { segment_bytes_ = segment_bytes; }
  std::size_t segment_bytes() const { return segment_bytes_; }
  std::uint64_t min() const { return segments_.empty() ? end_ : segments_.front()->base; }
  std::uint64_t end() const { return end_; }
  std::size_t count() const { return segments_.size(); }
  Segment* last() const { return segments_.empty() ? nullptr : segments_.back().get(); }
  Segment* first() const { return segments_.empty() ? nullptr : segments_.front().get(); }

  /// True if a frame of `bytes` needs a new segment.
  bool needs_segment(std::size_t bytes) const {
    return segments_.empty() || end_ + bytes + 8 > segments_.back()->end();
  }
  /// Closes the last segment with a filler and adds a new one.
  void roll();
  /// Room for a frame of `bytes`, for which needs_segment() is false.
  std::uint8_t* room() { return segments_.back()->data + (end_ - segments_.back()->base); }
  void commit(std::size_t bytes, std::int64_t store_ms) {
    end_ += bytes;
    segments_.back()->newest_ms = store_ms;
  }
  std::shared_ptr<Segment> find(std::uint64_t phys, std::uint64_t bytes) const;
  std::uint64_t next_base(std::uint64_t phys) const;
  std::shared_ptr<Segment> take_first() {
    std::shared_ptr<Segment> first = std::move(segments_.front());
    segments_.pop_front();
    return first;
  }
  void clear() {
    segments_.clear();
    end_ = 0;
  }

 private:
  std::size_t segment_bytes_ = 0;
  std::uint64_t end_ = 0;
  std::deque<std::shared_ptr<Segment>> segments_{};
};

}  // namespace tenon::store_memory
