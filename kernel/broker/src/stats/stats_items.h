// The named statistics of RocketMQ that tools read one by one: sums and rates of the last minute,
// hour and day per topic and group (spec: broker §16.1).
#pragma once

#include "util/hashing.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::broker {

namespace stat {
inline constexpr std::string_view kTopicPutNums = "TOPIC_PUT_NUMS";
inline constexpr std::string_view kTopicPutSize = "TOPIC_PUT_SIZE";
inline constexpr std::string_view kQueuePutNums = "QUEUE_PUT_NUMS";
inline constexpr std::string_view kQueuePutSize = "QUEUE_PUT_SIZE";
inline constexpr std::string_view kQueueGetNums = "QUEUE_GET_NUMS";
inline constexpr std::string_view kQueueGetSize = "QUEUE_GET_SIZE";
inline constexpr std::string_view kGroupGetNums = "GROUP_GET_NUMS";
inline constexpr std::string_view kGroupGetSize = "GROUP_GET_SIZE";
inline constexpr std::string_view kGroupGetLatency = "GROUP_GET_LATENCY";
inline constexpr std::string_view kSendBackNums = "SNDBCK_PUT_NUMS";
inline constexpr std::string_view kBrokerPutNums = "BROKER_PUT_NUMS";
inline constexpr std::string_view kBrokerGetNums = "BROKER_GET_NUMS";
inline constexpr std::string_view kGroupDiskNums = "GROUP_GET_FROM_DISK_NUMS";
inline constexpr std::string_view kGroupDiskSize = "GROUP_GET_FROM_DISK_SIZE";
inline constexpr std::string_view kBrokerDiskNums = "BROKER_GET_FROM_DISK_NUMS";
inline constexpr std::string_view kBrokerDiskSize = "BROKER_GET_FROM_DISK_SIZE";
}  // namespace stat

/// A counter and what it was at earlier times. Counting: any thread; the rest: see StatsItems.
class StatsItem {
 public:
  void add(std::uint64_t value, std::uint64_t times = 1) noexcept {
    value_.fetch_add(value, std::memory_order_relaxed);
    times_.fetch_add(times, std::memory_order_relaxed);
  }
  void set(std::uint64_t value, std::uint64_t times) noexcept {
    value_.store(value, std::memory_order_relaxed);
    times_.store(times, std::memory_order_relaxed);
  }

 private:
  friend class StatsItems;
  struct Sample {
    std::int64_t at_ms = 0;
    std::uint64_t value = 0;
    std::uint64_t times = 0;
  };
  std::atomic<std::uint64_t> value_{0};
  std::atomic<std::uint64_t> times_{0};
  std::array<std::deque<Sample>, 3> samples_{};  ///< of a minute, an hour, a day
};

/// Thread: any. An item lives as long as this, its address does not change.
class StatsItems {
 public:
  struct Window {
    std::uint64_t sum = 0;
    double tps = 0;
    double average = 0;  ///< value per time
  };
  struct Data {
    Window minute{};
    Window hour{};
    Window day{};
  };

  /// Makes it if there is none.
  StatsItem& item(std::string_view name, std::string_view key);
  /// nullopt if nothing was ever counted under it.
  std::optional<Data> data(std::string_view name, std::string_view key) const;
  /// Call every ten seconds: takes samples of all items, of an hour and a day when it is time.
  void sample(std::int64_t now_ms);

 private:
  static constexpr std::size_t kMinute = 0, kHour = 1, kDay = 2;
  static void take(StatsItem& item, std::size_t window, std::int64_t now_ms);
  static Window window_of(const std::deque<StatsItem::Sample>& samples);

  mutable std::mutex mutex_{};                   ///< map and samples
  TextMap<std::unique_ptr<StatsItem>> items_{};  ///< by "name key"
  std::int64_t hour_at_ms_ = 0;
  std::int64_t day_at_ms_ = 0;
};

/// What one thread counts of the hot paths: finds the items of a topic or group without the lock.
/// Thread: one. Does not allocate for a known topic, group and queue.
class StatsView {
 public:
  explicit StatsView(StatsItems& items)
      : items_(items) {}
  void put(std::string_view topic, std::uint64_t messages, std::uint64_t bytes);

  struct Got {
    std::string_view group{};
    std::string_view topic{};
    std::int32_t queue_id = 0;
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t took_ms = 0;
    bool from_disk = false;
  };
  void got(const Got& g);
  /// A delayed message was stored, or one was delivered to its topic: the only two that Java counts
  /// by queue (spec: broker §12.2, §16.1).
  void delayed(std::int32_t queue_id, std::uint64_t bytes);
  void delivered(std::int32_t queue_id, std::uint64_t bytes);

 private:
  struct Put {
    StatsItem* nums = nullptr;
    StatsItem* size = nullptr;
  };
  struct Get {
    StatsItem* nums = nullptr;
    StatsItem* size = nullptr;
    StatsItem* latency = nullptr;
  };
  StatsItems& items_;
  std::map<std::int32_t, Put> delayed_{};    ///< by queue
  std::map<std::int32_t, Put> delivered_{};  ///< the same
  Put delivered_all_{};
  TextMap<Put> puts_{};
  TextMap<Get> gets_{};
  std::string key_{};
};

}  // namespace tenon::broker
