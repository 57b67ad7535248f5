#include "append/log.h"

#include "meta/topics.h"

#include "tenon/base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <sys/statvfs.h>

namespace tenon::broker {
namespace {

constexpr const char* kStorageInterface = "tenon.storage/1";
/// An append that seems to last longer than this started before a clock change (store §10.2).
constexpr std::int64_t kBusyAbsurdMs = 10'000'000;
constexpr std::string_view kLogFolder = "commitlog";

/// Of a log that does not lie below the root; only the storage knows where. -1 if it does not say.
double log_disk_ratio(const tenon_storage& storage, void* self) {
  double found = -1.0;
  if (storage.stats == nullptr) {
    return found;
  }
  tenon_sink sink{};
  sink.size = sizeof sink;
  sink.ctx = &found;
  sink.put = [](void* ctx, const tenon_kv* kv, std::size_t n) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
      if (host::text(kv[i].key) == "commitLogDiskRatio") {
        const std::string value(host::text(kv[i].value));
        *static_cast<double*>(ctx) = std::strtod(value.c_str(), nullptr);
      }
    }
  };
  storage.stats(self, &sink);
  return found;
}

}  // namespace

Log::Log(const BrokerConfig& config,
         const Clock& clock,
         const DelayLevels& levels,
         std::function<void(std::string_view)> on_fault)
    : config_(config),
      clock_(clock),
      levels_(levels),
      on_fault_(std::move(on_fault)) {}

Log::~Log() {
  close();
}

Result<std::unique_ptr<Log>> Log::open(const BrokerConfig& config,
                                       host::PluginRegistry& registry,
                                       const PluginSlot& slot,
                                       const Clock& clock,
                                       const DelayLevels& levels,
                                       std::function<void(std::string_view)> on_fault,
                                       IndexBitsSource* index_bits) {
  std::unique_ptr<Log> log(new Log(config, clock, levels, std::move(on_fault)));
  log->index_bits_ = index_bits;
  host::InstanceOptions options;
  options.name = "storage";
  options.options = slot.options;
  options.store_root = config.store_root;
  options.private_dir = config.store_root / "plugins" / slot.plugin;
  options.temp_dir = config.store_root / "tmp";
  options.clock = &clock;
  options.storage_events = log.get();
  TENON_TRY(auto instance, registry.create(slot.plugin, options));
  log->instance_ = std::move(instance);
  TENON_TRY(log->instance_->init());
  TENON_TRY(auto storage, log->instance_->interface<tenon_storage>(kStorageInterface));
  log->storage_ = storage;
  TENON_TRY(log->recover());
  return log;
}

Result<> Log::recover() {
  tenon_recover_opts options{};
  options.size = sizeof options;
  tenon_recover_result result{};
  result.size = sizeof result;
  host::ErrorBuffer error;
  const tenon_status status = storage_->recover(storage_.self, &options, &result, error.raw());
  if (status < 0) {
    return error.make_error(status, "recover the store in " + config_.store_root.string());
  }
  log_info("broker",
           "store recovered root={} after_crash={} end={} queues={}",
           config_.store_root.string(),
           result.was_abnormal != 0,
           result.end,
           result.queues);
  return ok();
}

Result<> Log::activate() {
  TENON_TRY(instance_->activate());
  active_ = true;
  return ok();
}

void Log::close() {
  close_gate();
  const std::scoped_lock lock(append_mutex_);
  if (active_) {
    active_ = false;
    instance_->deactivate();
  }
}

void Log::append(std::span<tenon_record> records, std::span<tenon_append_result> results) noexcept {
  const std::scoped_lock lock(append_mutex_);
  append_locked(records, results);
}

bool Log::try_append(std::span<tenon_record> records,
                     std::span<tenon_append_result> results,
                     std::chrono::microseconds patience) noexcept {
  std::unique_lock lock(append_mutex_, std::try_to_lock);
  if (!lock && patience.count() > 0) {
#ifdef __SANITIZE_THREAD__
    // ThreadSanitizer of g++ 12 does not see pthread_mutex_clocklock, which a steady clock leads to.
    (void)lock.try_lock_until(std::chrono::system_clock::now() + patience);
#else
    (void)lock.try_lock_for(patience);
#endif
  }
  if (!lock) {
    return false;
  }
  append_locked(records, results);
  return true;
}

void Log::append_locked(std::span<tenon_record> records,
                        std::span<tenon_append_result> results) noexcept {
  for (tenon_append_result& r : results) {
    r = {};
    r.status = static_cast<tenon_status>(Errc::kClosed);
  }
  if (!writable()) {
    return;
  }
  // One clock read per batch, under the lock, so that store times do not go back along the log.
  const std::int64_t now_ms = clock_.wall_ms();
  append_since_ms_.store(now_ms, std::memory_order_relaxed);
  for (tenon_record& record : records) {
    record.store_ms = now_ms;
    if (host::text(record.topic) == kScheduleTopic) {
      // Trap: the index of the schedule topic carries the delivery time (store §18).
      record.tags_code = levels_.deliver_ms(static_cast<std::int32_t>(record.queue_id) + 1, now_ms);
    }
  }
  const tenon_status status = storage_->append(storage_.self,
                                               records.data(),
                                               sizeof(tenon_record),
                                               records.size(),
                                               results.data(),
                                               sizeof(tenon_append_result),
                                               nullptr);
  append_since_ms_.store(0, std::memory_order_relaxed);
  if (status < 0) {
    for (tenon_append_result& r : results) {
      r.status = status;
    }
  }
}

bool Log::page_cache_busy() const noexcept {
  const std::int64_t since = append_since_ms_.load(std::memory_order_relaxed);
  if (since == 0) {
    return false;
  }
  const std::int64_t held = clock_.wall_ms() - since;
  return held > config_.page_cache_busy_ms && held < kBusyAbsurdMs;
}

tenon_queue Log::open_queue(std::string_view topic, std::uint32_t queue_id) const noexcept {
  tenon_queue queue = 0;
  const tenon_status status = storage_->open_queue(
      storage_.self, host::abi_str(topic), queue_id, TENON_OPEN_CREATE, &queue, nullptr);
  return status < 0 ? 0 : queue;
}

tenon_queue Log::queue_of(const Topic& topic, std::uint32_t queue_id) const noexcept {
  if (queue_id >= topic.queue_count()) {
    return open_queue(topic.name(), queue_id);
  }
  tenon_queue queue = topic.handle(queue_id);
  if (queue == 0) {
    queue = open_queue(topic.name(), queue_id);
    topic.set_handle(queue_id, queue);
  }
  return queue;
}

tenon_queue_bounds Log::bounds(tenon_queue queue) const noexcept {
  tenon_queue_bounds b{};
  b.size = sizeof b;
  if (queue == 0 || storage_->queue_bounds(storage_.self, queue, &b) < 0) {
    b = {};
    b.size = sizeof b;
  }
  return b;
}

tenon_log_bounds Log::log_bounds() const noexcept {
  tenon_log_bounds b{};
  b.size = sizeof b;
  if (storage_->log_bounds(storage_.self, &b) < 0) {
    b = {};
    b.size = sizeof b;
  }
  return b;
}

void Log::request_flush(std::uint64_t upto) const noexcept {
  if (storage_->request_flush != nullptr) {
    storage_->request_flush(storage_.self, upto);
  }
}

std::string Log::disk_ratios() const {
  const auto ratio = [this](std::string_view folder) {
    struct statvfs disk {};
    const auto path = config_.store_root / folder;
    if (::statvfs(path.c_str(), &disk) != 0) {
      return folder == kLogFolder ? log_disk_ratio(storage_.table, storage_.self) : -1.0;
    }
    const double used = static_cast<double>(disk.f_blocks - disk.f_bfree);
    const double usable = static_cast<double>(disk.f_bavail);
    return used + usable > 0 ? std::ceil(used * 100 / (used + usable)) / 100 : -1.0;
  };
  return fmt::format("CL: {:5.2f} CQ: {:5.2f} INDEX: {:5.2f}",
                     ratio(kLogFolder),
                     ratio("consumequeue"),
                     ratio("index"));
}

void Log::progress(const tenon_progress& p) noexcept {
  if ((p.changed & TENON_CHANGED_DURABLE) == 0) {
    return;
  }
  for (DurableListener* listener : durable_listeners_) {
    listener->durable_moved(p.durable);
  }
}

void Log::arrivals(const tenon_arrival* first, std::size_t stride, std::size_t n) noexcept {
  const auto* at = reinterpret_cast<const std::byte*>(first);
  for (std::size_t i = 0; i < n; ++i, at += stride) {
    const auto& arrival = *reinterpret_cast<const tenon_arrival*>(at);
    for (ArrivalListener* listener : arrival_listeners_) {
      listener->arrived(arrival);
    }
  }
  for (ArrivalListener* listener : arrival_listeners_) {
    listener->arrivals_end();
  }
}

void Log::index_bits(const tenon_arrival* first,
                     std::size_t stride,
                     std::size_t n,
                     std::uint8_t* bits,
                     std::size_t bits_stride) noexcept {
  if (index_bits_ == nullptr) {  // all bits set means "look at the message"
    std::fill_n(bits, n * bits_stride, std::uint8_t{0xff});
    return;
  }
  const auto* at = reinterpret_cast<const std::byte*>(first);
  for (std::size_t i = 0; i < n; ++i, at += stride) {
    index_bits_->fill_bits(
        *reinterpret_cast<const tenon_arrival*>(at), bits + i * bits_stride, bits_stride);
  }
}

tenon_status Log::deliver_time(std::uint32_t level,
                               std::int64_t store_ms,
                               std::int64_t& out) noexcept {
  out = levels_.deliver_ms(levels_.clamp(static_cast<std::int32_t>(level)), store_ms);
  return 0;
}

void Log::fault(tenon_status why, std::string_view what) noexcept {
  close_gate();
  log_error(
      "broker", "storage failed, nothing is accepted any more status={} reason=\"{}\"", why, what);
  if (on_fault_) {
    on_fault_(what);
  }
}

}  // namespace tenon::broker
