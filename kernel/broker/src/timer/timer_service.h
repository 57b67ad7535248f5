// Messages for any time: those with TIMER_DELAY_SEC, TIMER_DELAY_MS or TIMER_DELIVER_MS lie in the
// queue of rmq_sys_wheel_timer until their time and are then written to their own topic (spec: broker
// §12.3, store §19).
//
// The log is the only truth. An entry of the timer queue is pending until a record of the log ends
// it: its delivery, or a later copy of it in the timer queue, each of which names the entry in its
// prepared offset (ends_entry()). One append both delivers and says so, so a crash at any point
// neither loses nor repeats. config/timerPending shortens the start: it holds what was pending at one
// position of the log, and only the log behind it is read again (timer_rebuild.h).
//
// A stop also leaves the wheel of a 5.x broker (timer_handover.h), so that such a broker can go on.
//
// A recall is a record of the timer queue as well, due just before the message that it names; it is
// kept until the message's time has passed. What is more than the roll window away is written to the
// end of the queue again when the window is over, so that the retention of the log need not wait for
// it.
//
// Memory: 12 bytes for each pending entry and 528 KiB (timer_wheel.h).
#pragma once

#include "append/log.h"
#include "meta/topics.h"
#include "timer/timer_files.h"
#include "timer/timer_handover.h"
#include "timer/timer_queue.h"
#include "timer/timer_rules.h"
#include "timer/timer_wheel.h"

#include "tenon/base/clock.h"
#include "tenon/broker/config.h"
#include "tenon/proto/bodies.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace tenon::broker {

/// Life cycle: start() → stop() → destructor. Status functions: any thread.
class TimerService final : public ArrivalListener {
 public:
  TimerService(const BrokerConfig& config, const Clock& clock, Log& log, const Topics& topics);
  ~TimerService() override { stop(); }
  TimerService(const TimerService&) = delete;
  TimerService& operator=(const TimerService&) = delete;

  void start();  ///< the thread finds what is pending first; nothing is delivered before
  void stop();   ///< joins and writes the files; idempotent

  std::size_t pending() const noexcept { return pending_.load(std::memory_order_relaxed); }
  proto::KvTable status() const;  ///< the timer… keys of the runtime table (spec §16.2)

  void arrived(const tenon_arrival& arrival) noexcept override;

 private:
  struct Recall {
    std::int64_t offset = 0;
    std::int64_t out_ms = 0;
  };
  void run();
  std::int64_t roll_window_ms() const noexcept;
  void rebuild();
  bool step();
  bool read_queue();
  bool deliver_due(std::int64_t now_ms);
  void deliver(std::span<const std::int64_t> offsets, std::int64_t now_ms);
  void deliver_items(std::span<const TimerQueue::Item> items, std::int64_t now_ms);
  void add_delivery(const TimerQueue::Item& item, std::int64_t now_ms);
  void add_rolled(const TimerQueue::Item& item, const TimerRecord& record);
  void append_batch(std::int64_t now_ms);
  void retry_later(std::size_t i, tenon_status status, std::int64_t now_ms);
  void forget_recalls(std::int64_t done_ms);
  bool snapshot_due();
  void snapshot();
  void commit_snapshot(TimerPendingWriter& writer, std::uint64_t end);
  bool wait_durable(std::uint64_t end);
  void clear_wheel_files(bool foreign);
  void hand_over();
  std::vector<TimerUnit> units_at(std::span<const std::int64_t> offsets);

  const BrokerConfig& config_;
  const Clock& clock_;
  Log& log_;
  const Topics& topics_;
  const std::filesystem::path pending_file_;
  const std::filesystem::path check_file_;

  // The service's thread only.
  TimerQueue queue_;
  TimerWheel wheel_{0};
  std::int64_t read_offset_ = 0;
  std::unordered_map<std::string, Recall> recalls_{};  ///< by recall_key(), of the last seconds
  std::vector<std::int64_t> slot_{};
  std::vector<std::int64_t> due_{};
  std::vector<tenon_record> records_{};
  std::vector<tenon_append_result> results_{};
  std::vector<std::int64_t> origins_{};
  std::vector<std::string> texts_ = std::vector<std::string>(TimerQueue::kBatch);
  std::vector<TopicPtr> topics_of_batch_{};
  bool foreign_ = false;
  bool changed_ = false;
  bool rebuilt_ = false;
  bool snapshot_taken_ = false;     ///< since the start
  std::uint64_t snapshot_end_ = 0;  ///< end of the log at the last snapshot
  TimerPending head_{};             ///< of the last snapshot, without its entries
  std::thread saver_{};             ///< waits for the disk and replaces the files
  std::atomic<bool> saving_{false};
  std::atomic<bool> saved_{false};  ///< the last snapshot is on the disk

  std::mutex mutex_{};
  std::condition_variable wake_{};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> arrived_{false};
  std::atomic<std::size_t> pending_{0};
  std::atomic<std::int64_t> behind_{0};  ///< entries of the queue not read yet
  std::thread thread_{};
};

}  // namespace tenon::broker
