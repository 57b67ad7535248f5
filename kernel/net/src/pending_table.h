// Calls in flight of one connection, found by opaque.
//
// The slot of an opaque is its low bits; an opaque whose slot is taken (by a call that waits for
// long) is left out, gaps are legal (spec: remoting §1.6). So a look-up is one comparison, nothing
// is allocated in the steady state, and an opaque comes back only after 2^32 others.
#pragma once

#include "tenon/net/rpc_client.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace tenon::net {

/// Not thread-safe; the owner locks.
class PendingTable {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// @param first_opaque  where counting begins (tests begin near the wrap)
  explicit PendingTable(std::uint32_t first_opaque = 1)
      : next_(first_opaque),
        slots_(64) {}

  std::size_t size() const noexcept { return size_; }

  /// Stores a call and returns its opaque.
  std::int32_t add(std::int64_t deadline_ms, RpcCallback&& done, std::int64_t begin_ms = 0) {
    if (size_ * 2 >= slots_.size()) {
      grow();
    }
    while (slots_[next_ & mask()].used) {
      ++next_;
    }
    Slot& slot = slots_[next_ & mask()];
    slot.opaque = next_;
    slot.used = true;
    slot.deadline_ms = deadline_ms;
    slot.begin_ms = begin_ms;
    slot.done = std::move(done);
    ++size_;
    return static_cast<std::int32_t>(next_++);
  }

  /// An opaque for a request without answer.
  std::int32_t skip() noexcept { return static_cast<std::int32_t>(next_++); }

  bool contains(std::int32_t opaque) const noexcept {
    const Slot& slot = slots_[static_cast<std::uint32_t>(opaque) & mask()];
    return slot.used && slot.opaque == static_cast<std::uint32_t>(opaque);
  }

  /// Its connection is there: counts from now, up to another deadline. Nothing if there is no call of
  /// this opaque.
  void restart(std::int32_t opaque, std::int64_t deadline_ms, std::int64_t begin_ms) noexcept {
    if (contains(opaque)) {
      Slot& slot = slots_[static_cast<std::uint32_t>(opaque) & mask()];
      slot.deadline_ms = deadline_ms;
      slot.begin_ms = begin_ms;
    }
  }

  /// Removes a call into `done`; false if there is none of this opaque.
  bool take(std::int32_t opaque, RpcCallback& done) {
    if (!contains(opaque)) {
      return false;
    }
    remove(slots_[static_cast<std::uint32_t>(opaque) & mask()], done);
    return true;
  }

  /// Removes the calls whose deadline has come.
  /// @param heard_ms   when the peer was last heard
  /// @param unheard_ms  set to the longest time that one of them has heard nothing from the peer
  /// @return the earliest deadline of the remaining ones, kNever without any
  std::int64_t take_expired(std::int64_t now_ms,
                            std::vector<RpcCallback>& expired,
                            std::int64_t heard_ms,
                            std::int64_t& unheard_ms) {
    std::int64_t earliest = kNever;
    std::size_t left = size_;
    for (std::size_t i = 0; left > 0; ++i) {
      Slot& slot = slots_[i];
      if (!slot.used) {
        continue;
      }
      --left;
      if (slot.deadline_ms <= now_ms) {
        if (slot.begin_ms > heard_ms) {
          unheard_ms = std::max(unheard_ms, now_ms - slot.begin_ms);
        }
        remove(slot, expired.emplace_back());
      } else if (slot.deadline_ms < earliest) {
        earliest = slot.deadline_ms;
      }
    }
    return earliest;
  }

  std::int64_t take_expired(std::int64_t now_ms, std::vector<RpcCallback>& expired) {
    std::int64_t ignored = 0;
    return take_expired(now_ms, expired, kNever, ignored);
  }
  void take_all(std::vector<RpcCallback>& all) { take_expired(kNever, all); }

 private:
  struct Slot {
    std::uint32_t opaque = 0;
    bool used = false;
    std::int64_t deadline_ms = 0;
    std::int64_t begin_ms = 0;
    RpcCallback done{};
  };

  std::uint32_t mask() const noexcept { return static_cast<std::uint32_t>(slots_.size() - 1); }

  void remove(Slot& slot, RpcCallback& done) {
    done = std::move(slot.done);
    slot.done = nullptr;
    slot.used = false;
    --size_;
  }

  /// Opaques that differ in their low bits also do with one bit more.
  void grow() {
    std::vector<Slot> larger(slots_.size() * 2);
    const auto larger_mask = static_cast<std::uint32_t>(larger.size() - 1);
    for (Slot& slot : slots_) {
      if (slot.used) {
        larger[slot.opaque & larger_mask] = std::move(slot);
      }
    }
    slots_ = std::move(larger);
  }

  std::uint32_t next_;
  std::size_t size_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace tenon::net
