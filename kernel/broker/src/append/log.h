// The message log of this broker: the storage plug-in instance, the append sequence (one lock) and
// the storage's events on their way to the parts that wait for them (spec: store §4, §10; plug-in
// ABI §11).
#pragma once

#include "append/delay_levels.h"

#include "tenon/abi/plugin.h"
#include "tenon/base/clock.h"
#include "tenon/base/result.h"
#include "tenon/broker/broker.h"
#include "tenon/host/plugin_registry.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker {

class Topic;

/// Told about entries that became readable. Thread: the storage's, one call at a time, often with
/// the append lock held: must be short and must not append.
class ArrivalListener {
 public:
  virtual ~ArrivalListener() = default;
  virtual void arrived(const tenon_arrival& arrival) noexcept = 0;
  virtual void arrivals_end() noexcept {}  ///< after the last one of a call
};

/// Told about the durable watermark. Thread: the storage's.
class DurableListener {
 public:
  virtual ~DurableListener() = default;
  virtual void durable_moved(std::uint64_t durable) noexcept = 0;
};

/// Says beforehand which groups want a message. Thread: the storage's dispatch, also while it
/// recovers, one call at a time.
class IndexBitsSource {
 public:
  virtual ~IndexBitsSource() = default;
  /// @param bits  receives the map; all bits set: nothing is known
  virtual void fill_bits(const tenon_arrival& arrival,
                         std::uint8_t* bits,
                         std::size_t bytes) noexcept = 0;
};

/// Life cycle: open() → add listeners → activate() → close() → destructor.
class Log final : public host::StorageEvents {
 public:
  /// Creates the storage instance and recovers it; may take minutes.
  static Result<std::unique_ptr<Log>> open(const BrokerConfig& config,
                                           host::PluginRegistry& registry,
                                           const PluginSlot& slot,
                                           const Clock& clock,
                                           const DelayLevels& levels,
                                           std::function<void(std::string_view)> on_fault,
                                           IndexBitsSource* index_bits = nullptr);
  ~Log() override;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void add(ArrivalListener& listener) { arrival_listeners_.push_back(&listener); }
  void add(DurableListener& listener) { durable_listeners_.push_back(&listener); }
  Result<> activate();
  void close();  ///< deactivates the storage; idempotent

  /// The append sequence. Stamps store times and, for the schedule topic, delivery times. Every
  /// result has a status afterwards. Thread: any; blocks while others append. Does not allocate.
  void append(std::span<tenon_record> records, std::span<tenon_append_result> results) noexcept;
  /// The same, but gives up if others have the lock for `patience`. @return false: nothing happened
  bool try_append(std::span<tenon_record> records,
                  std::span<tenon_append_result> results,
                  std::chrono::microseconds patience) noexcept;
  /// Whether one append has held the lock for longer than the limit (spec: broker §3.2).
  bool page_cache_busy() const noexcept;
  /// Closed after a fault or a stop: nothing is appended any more.
  bool writable() const noexcept { return writable_.load(std::memory_order_acquire); }
  void close_gate() noexcept { writable_.store(false, std::memory_order_release); }

  const host::Interface<tenon_storage>& storage() const noexcept { return storage_; }
  host::Instance& instance() noexcept { return *instance_; }

  /// Handle of a queue; 0 if the storage refuses. Thread: any.
  tenon_queue open_queue(std::string_view topic, std::uint32_t queue_id) const noexcept;
  /// The same for a queue of a topic in the table, remembered there.
  tenon_queue queue_of(const Topic& topic, std::uint32_t queue_id) const noexcept;
  tenon_queue_bounds bounds(tenon_queue queue) const noexcept;  ///< zeros for 0 or unknown
  tenon_log_bounds log_bounds() const noexcept;
  void request_flush(std::uint64_t upto) const noexcept;
  /// "CL: 0.41 CQ: 0.41 INDEX: 0.41" for remarks (UtilAll.getDiskPartitionSpaceUsedPercent).
  std::string disk_ratios() const;

  // host::StorageEvents
  void progress(const tenon_progress& p) noexcept override;
  void arrivals(const tenon_arrival* first, std::size_t stride, std::size_t n) noexcept override;
  void index_bits(const tenon_arrival* first,
                  std::size_t stride,
                  std::size_t n,
                  std::uint8_t* bits,
                  std::size_t bits_stride) noexcept override;
  tenon_status deliver_time(std::uint32_t level,
                            std::int64_t store_ms,
                            std::int64_t& out) noexcept override;
  void fault(tenon_status why, std::string_view what) noexcept override;

 private:
  Log(const BrokerConfig& config,
      const Clock& clock,
      const DelayLevels& levels,
      std::function<void(std::string_view)> on_fault);
  Result<> recover();
  void append_locked(std::span<tenon_record> records,
                     std::span<tenon_append_result> results) noexcept;

  const BrokerConfig& config_;
  const Clock& clock_;
  const DelayLevels& levels_;
  std::function<void(std::string_view)> on_fault_;
  IndexBitsSource* index_bits_ = nullptr;
  std::vector<ArrivalListener*> arrival_listeners_{};
  std::vector<DurableListener*> durable_listeners_{};
  std::unique_ptr<host::Instance> instance_{};
  host::Interface<tenon_storage> storage_{};
  bool active_ = false;

  std::timed_mutex append_mutex_;
  std::atomic<std::int64_t> append_since_ms_{0};  ///< 0 = nobody appends
  std::atomic<bool> writable_{true};
};

}  // namespace tenon::broker
