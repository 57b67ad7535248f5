#include "delay/delay_service.h"

#include "append/put.h"
#include "txn/half.h"

#include "tenon/base/log.h"
#include "tenon/base/worker_pool.h"
#include "tenon/proto/bodies_admin.h"
#include "tenon/proto/command.h"
#include "tenon/proto/json.h"
#include "tenon/proto/message.h"
#include "tenon/proto/properties.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

namespace tenon::broker {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kReadAhead = 64;
constexpr std::int64_t kScanPeriodMs = 100;
constexpr auto kIdlePeriod = 1000ms;  ///< nothing waits: an arrival wakes earlier

}  // namespace

DelayService::DelayService(const BrokerConfig& config,
                           const Clock& clock,
                           const DelayLevels& levels,
                           Log& log,
                           const Topics& topics,
                           Stats& stats)
    : clock_(clock),
      levels_(levels),
      log_(log),
      topics_(topics),
      file_(config.store_root / "config" / "delayOffset.json"),
      stats_(stats.add_thread()),
      items_(stats.items()) {}

Result<> DelayService::load() {
  return file_.load([this](std::string_view text) -> Result<> {
    TENON_TRY(auto table, proto::decode_delay_offset_table(text));
    const std::scoped_lock lock(mutex_);
    offsets_ = std::move(table.offsets);
    extra_ = std::move(table.extra);
    return ok();
  });
}

void DelayService::start() {
  started_ = true;
  thread_ = start_thread("delay", [this] { run(); });
}

void DelayService::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
    if (auto written = persist(); written.has_error()) {
      log_error("broker", "delay positions not written reason=\"{}\"", written.error().detail);
    }
  }
}

void DelayService::run() {
  for (;;) {
    arrived_.store(false, std::memory_order_release);
    const bool waiting = deliver_due();
    // Java looks every 100 ms; here the head that is due next is waited for, and the clock may be
    // set meanwhile.
    const auto period = !waiting ? kIdlePeriod
                                 : std::chrono::milliseconds(std::clamp<std::int64_t>(
                                       next_due_ms_ - clock_.wall_ms(), 0, kScanPeriodMs));
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, period, [&] {
      return stopping_ || (!waiting && arrived_.load(std::memory_order_acquire));
    });
    if (stopping_) {
      return;
    }
  }
}

bool DelayService::deliver_due() {
  bool waiting = false;
  next_due_ms_ = clock_.wall_ms() + kScanPeriodMs;
  for (std::int32_t level = 1; level <= levels_.max_level(); ++level) {
    waiting = deliver_level(level) || waiting;
  }
  return waiting;
}

bool DelayService::deliver_level(std::int32_t level) {
  const TopicPtr schedule = topics_.find(kScheduleTopic);
  if (schedule == nullptr) {
    return false;
  }
  const tenon_queue queue = log_.queue_of(*schedule, static_cast<std::uint32_t>(level - 1));
  const tenon_queue_bounds bounds = log_.bounds(queue);
  std::int64_t at = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = offsets_.find(level);
    at = it == offsets_.end() ? 0 : it->second;
  }
  at = std::clamp(at, bounds.min_offset, bounds.max_offset);
  const auto& storage = log_.storage();
  std::array<tenon_index_entry, kReadAhead> entries{};
  while (at < bounds.max_offset) {
    std::size_t n = 0;
    std::int64_t next = at;
    tenon_hold hold{};
    const tenon_status status = storage->index_read(storage.self,
                                                    queue,
                                                    at,
                                                    entries.data(),
                                                    sizeof(tenon_index_entry),
                                                    entries.size(),
                                                    &n,
                                                    &next,
                                                    &hold);
    if (hold.release != nullptr) {
      hold.release(hold.owner, hold.id);
    }
    if (status == static_cast<tenon_status>(Errc::kGap) && next > at) {
      at = next;
      continue;
    }
    if (status < 0 || n == 0) {
      return status != static_cast<tenon_status>(Errc::kRangeEnd);
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (deliver_one(level, entries[i]) != Outcome::kDone) {
        return true;
      }
      ++at;
      const std::scoped_lock lock(mutex_);
      offsets_[level] = at;
      file_.changed();
      if (stopping_) {
        return true;
      }
    }
  }
  return false;
}

DelayService::Outcome DelayService::deliver_one(std::int32_t level,
                                                const tenon_index_entry& entry) {
  const std::int64_t now_ms = clock_.wall_ms();
  // The index carries the delivery time. One far in the future means that the clock or the level
  // changed: deliver now.
  const std::int64_t due_ms =
      entry.tags_code > now_ms + levels_.delay_ms(level) ? now_ms : entry.tags_code;
  if (due_ms > now_ms) {
    next_due_ms_ = std::min(next_due_ms_, due_ms);
    return Outcome::kWaiting;
  }
  const auto& storage = log_.storage();
  const tenon_extent extent{entry.phys, entry.bytes, 0};
  tenon_view view{};
  tenon_hold hold{};
  std::uint64_t next_file = 0;
  const tenon_status status =
      storage->fetch(storage.self, &extent, 1, 0, &view, sizeof view, &next_file, &hold, nullptr);
  Outcome outcome = Outcome::kDone;
  if (status >= 0 && view.ptr != nullptr) {
    auto record = proto::decode_message(
        {reinterpret_cast<const std::byte*>(view.ptr), std::size_t{view.len}});
    if (record.has_value()) {
      const proto::MessageView& v = record.value();
      const auto topic = proto::find_property(v.properties, proto::prop::kRealTopic);
      const auto queue_id = proto::parse_int(
          proto::find_property(v.properties, proto::prop::kRealQueueId).value_or(""));
      if (topic && queue_id && *queue_id >= 0 && *topic != kHalfTopic) {
        // Trap: the stored text keeps DELAY, REAL_TOPIC and REAL_QID (broker §12.2).
        proto::MessageRecord m;
        m.topic = *topic;
        m.queue_id = *queue_id;
        m.flag = v.flag;
        m.sys_flag = v.sys_flag;
        m.born_ms = v.born_ms;
        m.born_host = v.born_host;
        m.store_host = v.store_host;
        m.reconsume_times = v.reconsume_times;
        m.body = v.body;
        m.properties = v.properties;
        const TopicPtr known = topics_.find(*topic);
        const tenon_append_result put =
            known != nullptr ? put_message(log_, *known, m) : put_message(log_, m);
        outcome = put.status >= 0 ? Outcome::kDone : Outcome::kFailed;
        if (put.status >= 0) {
          count(level, *topic, put.bytes);
        }
      } else {
        log_error("broker", "delayed message without a usable target phys={}", entry.phys);
      }
    } else {
      log_error("broker",
                "delayed message unreadable phys={} reason=\"{}\"",
                entry.phys,
                record.error().detail);
    }
  }
  if (hold.release != nullptr) {
    hold.release(hold.owner, hold.id);
  }
  return outcome;
}

/// As a put to the real topic and as a pull of a group (broker §12.2).
void DelayService::count(std::int32_t level, std::string_view topic, std::uint64_t bytes) {
  ThreadStats::add(stats_.put_count, 1);
  ThreadStats::add(stats_.put_bytes, bytes);
  items_.put(topic, 1, bytes);
  items_.delivered(level - 1, bytes);
}

std::string DelayService::json(bool pretty) const {
  const std::scoped_lock lock(mutex_);
  return proto::encode(proto::DelayOffsetTable{offsets_, extra_}, pretty);
}

std::string DelayService::offsets_json() const {
  return json(false);
}

Result<> DelayService::persist() {
  return file_.save_if_changed([this] { return json(true); });
}

proto::KvTable DelayService::status() const {
  proto::KvTable table;
  const TopicPtr schedule = topics_.find(kScheduleTopic);
  const std::scoped_lock lock(mutex_);
  for (const auto& [level, offset] : offsets_) {
    const std::int64_t max =
        schedule == nullptr || level < 1
            ? 0
            : log_.bounds(log_.queue_of(*schedule, static_cast<std::uint32_t>(level - 1)))
                  .max_offset;
    table["scheduleMessageOffset_" + std::to_string(level)] =
        std::to_string(offset) + "," + std::to_string(max);
  }
  return table;
}

void DelayService::arrived(const tenon_arrival& arrival) noexcept {
  if (host::text(arrival.topic) == kScheduleTopic &&
      !arrived_.exchange(true, std::memory_order_acq_rel)) {
    { const std::scoped_lock lock(mutex_); }  // not between the thread's look and its sleep
    wake_.notify_one();
  }
}

}  // namespace tenon::broker
