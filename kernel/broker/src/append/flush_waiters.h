// Puts that wait until the log is durable up to their end (spec: broker §6, store §9.2; plug-in ABI
// §9.1).
#pragma once

#include "append/log.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace tenon::broker {

/// Thread: any.
class FlushWaiters final : public DurableListener {
 public:
  using Done = std::function<void(bool durable)>;  ///< false: the deadline passed first

  /// Runs `done` exactly once: at once if the log is durable up to `end`, otherwise on the thread
  /// that moves the watermark or expires.
  void add(std::uint64_t end, std::uint64_t deadline_ns, Done done);
  void durable_moved(std::uint64_t durable) noexcept override;
  void expire(std::uint64_t now_ns);
  void expire_all();  ///< at shutdown
  std::size_t size() const;

 private:
  struct Waiter {
    std::uint64_t deadline_ns = 0;
    Done done{};
  };
  mutable std::mutex mutex_;
  std::uint64_t durable_ = 0;
  std::multimap<std::uint64_t, Waiter> waiters_{};  ///< by end offset
};

}  // namespace tenon::broker
