// Parked pulls by queue. An arrival takes exactly those of its queue that it can satisfy; a pull is
// taken once, by an arrival, its time-out, its connection's end or the second look after parking
// (spec: broker §8.5).
#pragma once

#include "append/log.h"
#include "pull/filter.h"

#include "tenon/abi/plugin.h"
#include "tenon/net/connection.h"
#include "tenon/proto/frame.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::broker {

/// A pull without an answer. Everything but `taken` and `offset` is constant after park(); who took
/// the pull may read `offset`.
struct ParkedPull {
  net::ConnectionPtr connection{};
  std::int32_t opaque = 0;
  proto::HeaderKind kind = proto::HeaderKind::kJson;
  std::string group{};
  std::string topic{};
  std::int32_t queue_id = 0;
  std::int64_t asked_offset = 0;  ///< of the request
  std::int64_t offset = 0;        ///< moves over arrivals that do not match
  std::int32_t max_count = 0;
  std::int32_t max_bytes = 0;
  std::int32_t sys_flag = 0;
  std::string expression{};  ///< of the request, if it brought one
  std::string expression_type{};
  std::int64_t sub_version = 0;

  tenon_queue queue = 0;
  FilterPtr filter{};
  net::TimerId timer = 0;  ///< I/O thread of the connection only
  std::size_t slot = 0;    ///< index in the connection's list; I/O thread of the connection only
  std::atomic<bool> taken{false};
};
using ParkedPtr = std::shared_ptr<ParkedPull>;

/// Thread: any.
class HoldTable final : public ArrivalListener {
 public:
  /// Gets the pulls that one storage notification woke up, taken already. Thread: the storage's, with
  /// the append lock possibly held: must only hand them on.
  using Wake = std::function<void(std::vector<ParkedPtr>& woken)>;
  explicit HoldTable(Wake wake)
      : wake_(std::move(wake)) {}

  /// Adds a pull. The caller must then look at the queue's maximum again and, if it passed the
  /// pull's offset, take() it: a message that arrived between the first look and park() woke nobody.
  void park(const ParkedPtr& pull);
  /// Removes it from the table. @return true for exactly one caller, who must answer it
  bool take(const ParkedPtr& pull);
  std::size_t size() const noexcept { return count_.load(std::memory_order_acquire); }

  void arrived(const tenon_arrival& arrival) noexcept override;
  void arrivals_end() noexcept override;

 private:
  struct Shard {
    std::mutex mutex{};
    std::unordered_map<tenon_queue, std::vector<ParkedPtr>> queues{};
  };
  Shard& shard(tenon_queue queue) noexcept { return shards_[queue % shards_.size()]; }

  Wake wake_;
  std::array<Shard, 64> shards_{};
  std::atomic<std::size_t> count_{0};
};

}  // namespace tenon::broker
