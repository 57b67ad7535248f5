// Receive buffers, counted by reference and reused: a connection takes one when there is something
// to read and gives it back when nothing of it is needed any more, whoever needed it last.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace tenon::net {

struct ReadBuffer {
  std::unique_ptr<std::byte[]> data{};
  std::size_t capacity = 0;
};

/// One per I/O thread. Buffers may outlive the pool. Thread: take() the owner, release by any.
class BufferPool {
 public:
  static constexpr std::size_t kSmallBytes = 64u * 1024;
  static constexpr std::size_t kLargeBytes = 1024u * 1024;

  /// @param keep_bytes  unused buffers that the pool keeps at most, in bytes
  explicit BufferPool(std::size_t keep_bytes = 4u * 1024 * 1024);

  /// A buffer of at least `bytes`: 64 KiB, 256 KiB or 1 MiB from the pool, exactly `bytes` above.
  std::shared_ptr<ReadBuffer> take(std::size_t bytes);

  std::size_t kept_bytes() const;

 private:
  struct Core {
    mutable std::mutex mutex{};
    std::array<std::vector<std::unique_ptr<ReadBuffer>>, 3> free{};
    std::size_t kept_bytes = 0;
    std::size_t keep_bytes_max = 0;

    void give_back(std::unique_ptr<ReadBuffer> buffer);
    void make_room(std::size_t index);
  };
  std::shared_ptr<Core> core_;
};

}  // namespace tenon::net
