// Delivers delayed messages: one queue of SCHEDULE_TOPIC_XXXX per level, read in order, each message
// put into its real topic when its time has come (spec: broker §12).
#pragma once

#include "append/delay_levels.h"
#include "append/log.h"
#include "meta/json_file.h"
#include "meta/topics.h"
#include "stats/stats.h"

#include "tenon/base/clock.h"
#include "tenon/base/result.h"
#include "tenon/broker/config.h"
#include "tenon/proto/bodies.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tenon::broker {

/// Life cycle: load() → start() → stop() → destructor. Status functions: any thread.
class DelayService final : public ArrivalListener {
 public:
  DelayService(const BrokerConfig& config,
               const Clock& clock,
               const DelayLevels& levels,
               Log& log,
               const Topics& topics,
               Stats& stats);
  ~DelayService() override { stop(); }
  DelayService(const DelayService&) = delete;
  DelayService& operator=(const DelayService&) = delete;

  Result<> load();
  void start();
  void stop();  ///< joins and writes the positions; idempotent
  /// Delivers what is due now. @return whether something waits for its time. Thread: the service's,
  /// or a test without start().
  bool deliver_due();
  Result<> persist();  ///< writes the positions if they moved; blocks on the disk. Thread: any

  std::string offsets_json() const;  ///< answer of GET_ALL_DELAY_OFFSET
  proto::KvTable status() const;     ///< scheduleMessageOffset_<level> of the runtime table

  void arrived(const tenon_arrival& arrival) noexcept override;

 private:
  enum class Outcome : std::uint8_t { kDone, kWaiting, kFailed };
  void run();
  bool deliver_level(std::int32_t level);
  Outcome deliver_one(std::int32_t level, const tenon_index_entry& entry);
  void count(std::int32_t level, std::string_view topic, std::uint64_t bytes);
  std::string json(bool pretty) const;

  const Clock& clock_;
  const DelayLevels& levels_;
  Log& log_;
  const Topics& topics_;
  JsonFile file_;
  ThreadStats& stats_;  ///< of the service's thread
  StatsView items_;     ///< the same

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::int32_t, std::int64_t> offsets_{};  ///< by level; only levels that delivered
  std::map<std::string, std::string> extra_{};      ///< members of the file that only others know
  bool stopping_ = false;
  bool started_ = false;
  std::int64_t next_due_ms_ = 0;  ///< of what waits after a round; the service's thread
  std::atomic<bool> arrived_{false};
  std::thread thread_{};
};

}  // namespace tenon::broker
