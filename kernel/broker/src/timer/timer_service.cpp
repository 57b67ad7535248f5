#include "timer/timer_service.h"

#include "append/put.h"
#include "timer/timer_rebuild.h"

#include "tenon/base/log.h"
#include "tenon/base/worker_pool.h"
#include "tenon/proto/command.h"
#include "tenon/proto/properties.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

namespace tenon::broker {
namespace {

using namespace std::chrono_literals;

/// With something pending the clock is looked at this often, because it may be set.
constexpr std::int64_t kLookAgainMs = 100;
constexpr auto kIdlePeriod = 1000ms;  ///< nothing is pending: an arrival wakes earlier
constexpr int kReadRounds = 64;
constexpr std::size_t kDeliverRound = 4096;  ///< then the queue is read again
/// A snapshot is written when the log has grown by this and by kBytesPerEntry for each pending entry.
constexpr std::uint64_t kSnapshotLogBytes = 64u << 20;
constexpr std::uint64_t kBytesPerEntry = 256;
constexpr auto kDurablePoll = 20ms;
constexpr int kDurablePollsAtStop = 250;

}  // namespace

TimerService::TimerService(const BrokerConfig& config,
                           const Clock& clock,
                           Log& log,
                           const Topics& topics)
    : config_(config),
      clock_(clock),
      log_(log),
      topics_(topics),
      pending_file_(config.store_root / "config" / "timerPending"),
      check_file_(config.store_root / "config" / "timercheck"),
      queue_(log) {}

void TimerService::start() {
  thread_ = start_thread("timer", [this] { run(); });
}

void TimerService::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_.store(true, std::memory_order_release);
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
    if (saver_.joinable()) {
      saver_.join();
    }
    if (rebuilt_ && (changed_ || snapshot_taken_)) {
      snapshot();
      if (saver_.joinable()) {
        saver_.join();
      }
      if (saved_.load(std::memory_order_acquire)) {
        hand_over();
      }
    }
  }
}

void TimerService::run() {
  rebuild();
  while (!stopping_.load(std::memory_order_acquire)) {
    arrived_.store(false, std::memory_order_release);
    const bool more = step();
    if (snapshot_due()) {
      snapshot();
    }
    pending_.store(wheel_.size(), std::memory_order_relaxed);
    behind_.store(std::max<std::int64_t>(0, queue_.bounds().max_offset - read_offset_),
                  std::memory_order_relaxed);
    if (more) {
      continue;
    }
    const std::int64_t next = wheel_.next_ms();
    const auto wait = next < 0 ? kIdlePeriod
                               : std::chrono::milliseconds(std::clamp<std::int64_t>(
                                     next - clock_.wall_ms(), 0, kLookAgainMs));
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, wait, [this] {
      return stopping_.load(std::memory_order_acquire) || arrived_.load(std::memory_order_acquire);
    });
  }
}

/// Stored again well before the file of the last storing expires.
std::int64_t TimerService::roll_window_ms() const noexcept {
  constexpr std::int64_t kHourMs = 3'600'000;
  const std::int64_t kept_ms = config_.retention.file_reserved_hours * kHourMs;
  return std::min(config_.timer_roll_window_sec * 1000, std::max(kept_ms / 3 * 2, kHourMs / 60));
}

void TimerService::rebuild() {
  const std::uint64_t begun = clock_.mono_ns();
  std::optional<TimerPending> snapshot;
  if (auto loaded = load_timer_pending(pending_file_); loaded.has_value()) {
    snapshot = std::move(loaded).value();
  } else if (loaded.error().code != Errc::kNotFound) {
    log_warn("broker",
             "pending timer messages are searched in the whole log reason=\"{}\"",
             loaded.error().detail);
  }
  TimerRebuild found = rebuild_timers(log_,
                                      queue_,
                                      std::move(snapshot),
                                      load_timer_check(check_file_),
                                      roll_window_ms(),
                                      stopping_);
  if (stopping_.load(std::memory_order_acquire)) {
    return;
  }
  std::int64_t start = clock_.wall_ms();
  for (const TimerEntry& e : found.entries) {
    start = std::min(start, e.look_ms);
  }
  // What is overdue keeps its order, so that recalls come before their messages.
  wheel_ = TimerWheel(start);
  for (const TimerEntry& e : found.entries) {
    wheel_.add(e.look_ms, e.offset);
  }
  read_offset_ = found.read_offset;
  foreign_ = found.foreign;
  changed_ = foreign_;
  rebuilt_ = true;
  snapshot_end_ = log_.log_bounds().end;
  if (!found.entries.empty() || foreign_) {
    log_info("broker",
             "timer messages found pending={} of_another_broker={} took_ms={}",
             found.entries.size(),
             foreign_,
             (clock_.mono_ns() - begun) / 1'000'000u);
  }
}

/// @return whether there is more to do now
bool TimerService::step() {
  const std::int64_t now_ms = clock_.wall_ms();
  wheel_.rewind(now_ms);
  const bool more_read = read_queue();
  return deliver_due(now_ms) || more_read;
}

bool TimerService::read_queue() {
  const std::int64_t roll_ms = roll_window_ms();
  read_offset_ = std::max(read_offset_, queue_.bounds().min_offset);
  for (int round = 0; round < kReadRounds; ++round) {
    const std::int64_t next =
        queue_.read(read_offset_, [&](std::span<const TimerQueue::Item> items) {
          for (const TimerQueue::Item& item : items) {
            if (item.message == nullptr) {
              continue;
            }
            const auto record = read_timer_record(item.message->properties, item.message->store_ms);
            if (!record) {
              log_warn("broker", "timer message without a time offset={}", item.offset);
              continue;
            }
            wheel_.add(look_at_ms(*record, item.message->store_ms, roll_ms), item.offset);
          }
        });
    if (next == read_offset_) {
      return false;
    }
    read_offset_ = next;
    changed_ = true;
  }
  return true;
}

/// @return whether more is due
bool TimerService::deliver_due(std::int64_t now_ms) {
  std::size_t round = 0;
  while (round < kDeliverRound && !stopping_.load(std::memory_order_acquire)) {
    due_.clear();
    std::int64_t done_ms = -1;
    while (due_.size() < TimerQueue::kBatch) {
      done_ms = wheel_.pop(now_ms, slot_);
      if (done_ms < 0) {
        break;
      }
      due_.insert(due_.end(), slot_.begin(), slot_.end());
    }
    for (std::size_t at = 0; at < due_.size(); at += TimerQueue::kBatch) {
      const std::size_t n = std::min(TimerQueue::kBatch, due_.size() - at);
      deliver({due_.data() + at, n}, now_ms);
    }
    round += due_.size();
    forget_recalls(done_ms < 0 ? now_ms : done_ms);
    if (done_ms < 0) {
      return false;
    }
  }
  return true;
}

void TimerService::deliver(std::span<const std::int64_t> offsets, std::int64_t now_ms) {
  changed_ = true;
  queue_.look_up(offsets,
                 [&](std::span<const TimerQueue::Item> items) { deliver_items(items, now_ms); });
}

void TimerService::deliver_items(std::span<const TimerQueue::Item> items, std::int64_t now_ms) {
  std::array<std::optional<TimerRecord>, TimerQueue::kBatch> times{};
  for (std::size_t i = 0; i < items.size(); ++i) {
    const proto::MessageView* m = items[i].message;
    if (m == nullptr) {
      log_error("broker", "timer message lost, the log has it no more offset={}", items[i].offset);
      continue;
    }
    times[i] = read_timer_record(m->properties, m->store_ms);
    if (times[i] && !times[i]->recalled.empty() && times[i]->out_ms <= now_ms) {
      recalls_[std::string(times[i]->recalled)] = {items[i].offset, times[i]->out_ms};
    }
  }
  records_.clear();
  origins_.clear();
  topics_of_batch_.clear();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!times[i]) {
      continue;
    }
    const bool recall = !times[i]->recalled.empty();
    if ((recall ? times[i]->out_ms : times[i]->due_ms) > now_ms) {
      add_rolled(items[i], *times[i]);
    } else if (!recall) {
      add_delivery(items[i], now_ms);
    }
  }
  append_batch(now_ms);
}

void TimerService::add_delivery(const TimerQueue::Item& item, std::int64_t now_ms) {
  const proto::MessageView& v = *item.message;
  const auto topic = proto::find_property(v.properties, proto::prop::kRealTopic);
  const auto queue_id =
      proto::parse_int(proto::find_property(v.properties, proto::prop::kRealQueueId).value_or(""));
  if (!topic || !queue_id || *queue_id < 0 || *topic == kTimerTopic) {
    log_error("broker", "timer message without a usable target offset={}", item.offset);
    return;
  }
  if (!recalls_.empty()) {
    const auto key = proto::find_property(v.properties, proto::prop::kUniqKey).value_or("");
    if (recalls_.contains(recall_key(*topic, key))) {
      return;
    }
  }
  proto::MessageRecord m;
  m.topic = *topic;
  m.queue_id = *queue_id;
  m.flag = v.flag;
  m.sys_flag = v.sys_flag;
  m.born_ms = v.born_ms;
  m.born_host = v.born_host;
  m.store_host = v.store_host;
  m.reconsume_times = v.reconsume_times;
  m.prepared_offset = ends_entry(item.offset);
  m.body = v.body;
  // Trap: the stored text keeps REAL_TOPIC, REAL_QID and the wish (store §19).
  std::string& text = texts_[records_.size()];
  text.assign(v.properties);
  if (text.size() + kTimerGrowthBytes <= proto::kPropertiesMaxBytes) {
    proto::append_property(text, proto::prop::kTimerEnqueueMs, std::to_string(v.store_ms));
    proto::append_property(text, proto::prop::kTimerDequeueMs, std::to_string(now_ms));
  }
  m.properties = text;
  TopicPtr known = topics_.find(*topic);
  const tenon_queue queue =
      known != nullptr ? log_.queue_of(*known, static_cast<std::uint32_t>(*queue_id)) : 0;
  topics_of_batch_.push_back(std::move(known));
  records_.push_back(to_record(m.topic, queue, m));
  origins_.push_back(item.offset);
}

/// A copy at the end of the timer queue, which the log keeps for longer.
void TimerService::add_rolled(const TimerQueue::Item& item, const TimerRecord& record) {
  const proto::MessageView& v = *item.message;
  proto::MessageRecord m;
  m.topic = kTimerTopic;
  m.flag = v.flag;
  m.sys_flag = v.sys_flag;
  m.born_ms = v.born_ms;
  m.born_host = v.born_host;
  m.store_host = v.store_host;
  m.reconsume_times = v.reconsume_times;
  m.prepared_offset = ends_entry(item.offset);
  m.body = v.body;
  std::string& text = texts_[records_.size()];
  text = proto::without_property(v.properties, proto::prop::kTimerRollTimes);
  proto::append_property(text, proto::prop::kTimerRollTimes, std::to_string(record.roll_times + 1));
  m.properties = text;
  records_.push_back(to_record(kTimerTopic, queue_.handle(), m));
  origins_.push_back(item.offset);
}

void TimerService::append_batch(std::int64_t now_ms) {
  if (records_.empty()) {
    return;
  }
  results_.resize(records_.size());
  log_.append(records_, results_);
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (results_[i].status == static_cast<tenon_status>(Errc::kStale)) {
      // The topic was deleted and created anew since its handle was taken.
      records_[i].queue = 0;
      log_.append({&records_[i], 1}, {&results_[i], 1});
    }
    if (results_[i].status < 0) {
      retry_later(i, results_[i].status, now_ms);
    }
  }
}

void TimerService::retry_later(std::size_t i, tenon_status status, std::int64_t now_ms) {
  const auto code = static_cast<Errc>(status);
  if (code == Errc::kInvalid || code == Errc::kLimit) {
    log_error("broker",
              "timer message cannot be delivered, it is dropped offset={} status={}",
              origins_[i],
              status);
    return;
  }
  wheel_.add(now_ms + kLookAgainMs, origins_[i]);
}

/// A recall counts until every message of its second has come.
void TimerService::forget_recalls(std::int64_t done_ms) {
  constexpr std::int64_t kKeptMs = 2000;
  if (!recalls_.empty()) {
    std::erase_if(recalls_, [&](const auto& r) { return r.second.out_ms + kKeptMs < done_ms; });
  }
}

bool TimerService::snapshot_due() {
  if (!changed_ || saving_.load(std::memory_order_acquire)) {
    return false;
  }
  return foreign_ || log_.log_bounds().end - snapshot_end_ >=
                         kSnapshotLogBytes + kBytesPerEntry * wheel_.size();
}

void TimerService::snapshot() {
  if (saver_.joinable()) {
    saver_.join();
  }
  foreign_ = foreign_ && !saved_.exchange(false, std::memory_order_acq_rel);
  const tenon_log_bounds bounds = log_.log_bounds();
  snapshot_end_ = bounds.end;
  TimerPending head;
  head.log_position = bounds.dispatched;
  // Every entry in front of that position has to be in the wheel.
  const std::int64_t readable = queue_.bounds().max_offset;
  for (std::int64_t before = -1; read_offset_ < readable && read_offset_ != before;) {
    before = read_offset_;
    read_queue();
  }
  if (read_offset_ < readable) {
    return;
  }
  head.read_offset = read_offset_;
  std::int64_t oldest = read_offset_;
  wheel_.for_each([&](std::int64_t, std::int64_t offset) { oldest = std::min(oldest, offset); });
  head.check = {clock_.wall_ms() / 1000 * 1000, oldest};
  auto writer = std::make_unique<TimerPendingWriter>(pending_file_);
  auto written = writer->open(head, wheel_.size() + recalls_.size());
  if (written.has_value()) {
    wheel_.for_each([&](std::int64_t due_ms, std::int64_t offset) {
      writer->add({due_ms, offset});
    });
    for (const auto& [key, recall] : recalls_) {
      writer->add({recall.out_ms, recall.offset});
    }
    written = writer->finish();
  }
  if (written.has_error()) {
    log_error("broker", "timer state not written reason=\"{}\"", written.error().detail);
    return;
  }
  changed_ = false;
  snapshot_taken_ = true;
  head_ = head;
  saving_.store(true, std::memory_order_release);
  saver_ = start_thread("timer-save",
                        [this, writer = std::shared_ptr(std::move(writer)), end = bounds.end] {
                          commit_snapshot(*writer, end);
                          saving_.store(false, std::memory_order_release);
                        });
}

/// While it runs, the thread of the service does not touch what it uses.
void TimerService::commit_snapshot(TimerPendingWriter& writer, std::uint64_t end) {
  // After a power failure the log must not be shorter than what the file says of it.
  if (!wait_durable(end)) {
    return;
  }
  auto written = writer.commit();
  if (written.has_value()) {
    written = save_timer_check(check_file_, head_.check);
  }
  if (written.has_error()) {
    log_error("broker", "timer state not written reason=\"{}\"", written.error().detail);
    return;
  }
  clear_wheel_files(foreign_);
  saved_.store(true, std::memory_order_release);
}

bool TimerService::wait_durable(std::uint64_t end) {
  log_.request_flush(end);
  for (int polls = 0; log_.log_bounds().durable < end; ++polls) {
    if (stopping_.load(std::memory_order_acquire) && polls >= kDurablePollsAtStop) {
      return false;
    }
    if (!log_.writable()) {
      return false;
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kDurablePoll);
  }
  return true;
}

/// A 5.x broker would deliver from an old wheel once more what we have delivered since; without it it
/// reads the timer queue from the offset in timercheck.
void TimerService::clear_wheel_files(bool foreign) {
  for (const char* name : {"timerwheel", "timerlog"}) {
    const auto path = config_.store_root / name;
    const auto aside = std::filesystem::path(path.string() + ".taken");
    std::error_code ec;
    if (!std::filesystem::exists(path, ec)) {
      continue;
    }
    if (foreign) {
      std::filesystem::remove_all(aside, ec);
      std::filesystem::rename(path, aside, ec);
    } else {
      std::filesystem::remove_all(path, ec);
    }
    if (ec) {
      log_error("broker", "{} not put aside reason=\"{}\"", path.string(), ec.message());
    }
  }
}

/// Trap: a 5.x broker delivers at once what it finds overdue in the queue, also what was delivered
/// already, so it must not read the queue again where there is such an entry behind the oldest
/// pending one. The files come first, then the timercheck that believes in them.
void TimerService::hand_over() {
  const std::uint64_t begun = clock_.mono_ns();
  const std::size_t pending = wheel_.size();
  if (pending == 0 ||
      static_cast<std::uint64_t>(read_offset_ - head_.check.queue_offset) == pending) {
    return;
  }
  std::vector<std::int64_t> offsets;
  offsets.reserve(pending + recalls_.size());
  wheel_.for_each([&](std::int64_t, std::int64_t offset) { offsets.push_back(offset); });
  for (const auto& [key, recall] : recalls_) {
    offsets.push_back(recall.offset);
  }
  std::sort(offsets.begin(), offsets.end());
  const std::int64_t last_offset[] = {read_offset_ - 1};
  const std::vector<TimerUnit> last = units_at(last_offset);
  if (last.empty()) {
    return;
  }
  const auto& root = config_.store_root;
  auto written = write_timer_handover(
      root,
      timer_log_file_bytes(root / "timerlog.taken"),
      {.read_ms = head_.check.read_ms, .pending = units_at(offsets), .last = last.front()});
  Result<> checked = written.has_value()
                         ? save_timer_check(check_file_, head_.handed_over(), written.value())
                         : Result<>(written.error());
  if (checked.has_error()) {
    log_error("broker", "timer wheel not written reason=\"{}\"", checked.error().detail);
    clear_wheel_files(false);
    return;
  }
  log_info("broker",
           "timer wheel written pending={} took_ms={}",
           pending,
           (clock_.mono_ns() - begun) / 1'000'000u);
}

std::vector<TimerUnit> TimerService::units_at(std::span<const std::int64_t> offsets) {
  std::vector<TimerUnit> units;
  units.reserve(offsets.size());
  for (std::size_t at = 0; at < offsets.size(); at += TimerQueue::kBatch) {
    const auto batch = offsets.subspan(at, std::min(TimerQueue::kBatch, offsets.size() - at));
    queue_.look_up(batch, [&](std::span<const TimerQueue::Item> items) {
      for (const TimerQueue::Item& item : items) {
        const auto times = item.message != nullptr
                               ? read_timer_record(item.message->properties, item.message->store_ms)
                               : std::nullopt;
        if (times) {
          const auto topic =
              proto::find_property(item.message->properties, proto::prop::kRealTopic);
          units.push_back({.offset = item.offset,
                           .due_ms = times->out_ms,
                           .phys = item.phys,
                           .bytes = item.message->total_bytes,
                           .topic_hash = proto::java_hash(topic.value_or("")),
                           .recall = !times->recalled.empty()});
        }
      }
    });
  }
  return units;
}

proto::KvTable TimerService::status() const {
  proto::KvTable table;
  table["timerCongestNum"] = std::to_string(pending());
  table["timerOffsetBehind"] = std::to_string(behind_.load(std::memory_order_relaxed));
  return table;
}

void TimerService::arrived(const tenon_arrival& arrival) noexcept {
  if (host::text(arrival.topic) == kTimerTopic &&
      !arrived_.exchange(true, std::memory_order_acq_rel)) {
    { const std::scoped_lock lock(mutex_); }  // not between the thread's look and its sleep
    wake_.notify_one();
  }
}

}  // namespace tenon::broker
