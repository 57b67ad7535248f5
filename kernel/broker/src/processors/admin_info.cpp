// State of the broker: 28, 45 and the housekeeping requests (spec: broker §16.2, remoting §7.3).
#include "processors/handlers.h"

#include "tenon/base/log.h"
#include "tenon/proto/json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>

#include <sys/statvfs.h>

namespace tenon::broker {
namespace {

/// Base 1024, one decimal (UtilAll, SystemClock of Java's runtime table).
std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", static_cast<std::int64_t>(bytes))
                   : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

struct Disk {
  double ratio = -1;
  double total = 0;
  double free = 0;
};
Disk disk_of(const std::filesystem::path& path) {
  struct statvfs v {};
  Disk disk;
  if (::statvfs(path.c_str(), &v) != 0) {
    return disk;
  }
  const double unit = static_cast<double>(v.f_frsize);
  const double used = static_cast<double>(v.f_blocks - v.f_bfree);
  const double usable = static_cast<double>(v.f_bavail);
  disk.total = static_cast<double>(v.f_blocks) * unit;
  disk.free = usable * unit;
  disk.ratio = used + usable > 0 ? std::ceil(used * 100 / (used + usable)) / 100 : -1;
  return disk;
}

void put_counters(proto::KvTable& t, const Services& s) {
  const Stats::Totals totals = s.stats.totals();
  const Stats::Daily daily = s.stats.daily();
  const auto number = [](std::uint64_t n) { return std::to_string(n); };
  const TimeCounts times = s.stats.put_times();
  t["putMessageEntireTimeMax"] = number(totals.put_max_ms);
  t["getMessageEntireTimeMax"] = number(totals.get_max_ms);
  t["putMessageDistributeTime"] = distribution_text(times);
  t["putLatency99"] = percentile_text(times, 0.99);
  t["putLatency999"] = percentile_text(times, 0.999);
  t["putMessageTimesTotal"] = number(std::max<std::uint64_t>(totals.put_count, 1));
  t["putMessageFailedTimes"] = number(totals.put_failed);
  t["putMessageSizeTotal"] = number(totals.put_bytes);
  t["putMessageAverageSize"] =
      fmt::format("{:#}",
                  static_cast<double>(totals.put_bytes) /
                      static_cast<double>(std::max<std::uint64_t>(totals.put_count, 1)));
  t["putTps"] = s.stats.rates(Stats::Rate::kPut);
  t["getFoundTps"] = s.stats.rates(Stats::Rate::kFound);
  t["getMissTps"] = s.stats.rates(Stats::Rate::kMiss);
  t["getTotalTps"] = s.stats.rates(Stats::Rate::kTotal);
  // Both spellings: 4.x and 5.x tools (broker §16.2).
  t["getTransferedTps"] = s.stats.rates(Stats::Rate::kTransferred);
  t["getTransferredTps"] = t["getTransferedTps"];
  t["msgPutTotalYesterdayMorning"] = number(daily.put_yesterday);
  t["msgPutTotalTodayMorning"] = number(daily.put_today);
  t["msgPutTotalTodayNow"] = number(totals.put_count);
  t["msgGetTotalYesterdayMorning"] = number(daily.get_yesterday);
  t["msgGetTotalTodayMorning"] = number(daily.get_today);
  t["msgGetTotalTodayNow"] = number(totals.get_count);
}

/// Keys without a meaning here; tools need them (broker §16.2, trap at the end).
void put_constants(proto::KvTable& t) {
  t["dispatchMaxBuffer"] = "0";
  t["remainTransientStoreBufferNumbs"] = std::to_string(std::numeric_limits<std::int32_t>::max());
  t["sendThreadPoolQueueHeadWaitTimeMills"] = "0";
  t["pullThreadPoolQueueHeadWaitTimeMills"] = "0";
  t["queryThreadPoolQueueHeadWaitTimeMills"] = "0";
}

std::int64_t earliest_store_ms(const Services& s, const tenon_log_bounds& bounds) {
  const auto& storage = s.log.storage();
  tenon_view view{};
  tenon_hold hold{};
  std::int64_t ms = -1;
  if (bounds.end > bounds.min_phys &&
      storage->message_at(storage.self, bounds.min_phys, &view, &hold, nullptr) >= 0 &&
      view.ptr != nullptr) {
    const auto record = proto::decode_message(
        {reinterpret_cast<const std::byte*>(view.ptr), std::size_t{view.len}});
    ms = record.has_value() ? record.value().store_ms : -1;
  }
  if (hold.release != nullptr) {
    hold.release(hold.owner, hold.id);
  }
  return ms;
}

void put_store(proto::KvTable& t, const Services& s) {
  const tenon_log_bounds bounds = s.log.log_bounds();
  const Disk disk = disk_of(s.config.store_root);
  t["commitLogMinOffset"] = std::to_string(bounds.min_phys);
  t["commitLogMaxOffset"] = std::to_string(bounds.end);
  t["dispatchBehindBytes"] =
      std::to_string(bounds.end > bounds.dispatched ? bounds.end - bounds.dispatched : 0);
  t["remainHowManyDataToFlush"] = human_bytes(
      static_cast<double>(bounds.end > bounds.durable ? bounds.end - bounds.durable : 0));
  t["commitLogDirCapacity"] =
      fmt::format("Total : {}, Free : {}.", human_bytes(disk.total), human_bytes(disk.free));
  t["earliestMessageTimeStamp"] = std::to_string(earliest_store_ms(s, bounds));
  t["pageCacheLockTimeMills"] = "0";
}

/// What the storage adds, in its own words.
void put_storage_stats(proto::KvTable& t, const Services& s) {
  const auto& storage = s.log.storage();
  if (storage->stats == nullptr) {
    return;
  }
  tenon_sink sink{};
  sink.size = sizeof sink;
  sink.ctx = &t;
  sink.put = [](void* ctx, const tenon_kv* kv, std::size_t n) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
      static_cast<proto::KvTable*>(ctx)->try_emplace(std::string(host::text(kv[i].key)),
                                                     std::string(host::text(kv[i].value)));
    }
  };
  storage->stats(storage.self, &sink);
}

/// For a storage that does not say on which disks it lies: that of the store's root.
void put_disk_ratios(proto::KvTable& t, const Services& s) {
  const auto [ratio, unknown] =
      t.try_emplace("commitLogDiskRatio", fmt::format("{}", disk_of(s.config.store_root).ratio));
  if (unknown) {
    t["commitLogDiskRatio_" + (s.config.store_root / "commitlog").string()] = ratio->second;
  }
  t.try_emplace("consumeQueueDiskRatio", ratio->second);
}

Reply runtime_info(const Services& s) {
  proto::KvTable t;
  put_constants(t);
  put_counters(t, s);
  put_store(t, s);
  const std::int64_t up_s = (s.clock.wall_ms() - s.stats.start_ms()) / 1000;
  t["bootTimestamp"] = std::to_string(s.stats.start_ms());
  t["runtime"] = fmt::format("[ {} days, {} hours, {} minutes, {} seconds ]",
                             up_s / 86400,
                             up_s / 3600 % 24,
                             up_s / 60 % 60,
                             up_s % 60);
  t["brokerVersionDesc"] = "V4_9_8";
  t["brokerVersion"] = std::to_string(proto::kVersion);
  t["startAcceptSendRequestTimeStamp"] = std::to_string(s.config.accept_send_from_ms);
  t["sendThreadPoolQueueSize"] = std::to_string(s.flush_waiters.size());
  t["sendThreadPoolQueueCapacity"] = std::to_string(s.config.send_queue_max);
  t["pullThreadPoolQueueSize"] = std::to_string(s.workers.queued(Workers::Lane::kPull));
  t["pullThreadPoolQueueCapacity"] = std::to_string(s.config.pull_queue_max);
  t["EndTransactionQueueSize"] = std::to_string(s.workers.queued(Workers::Lane::kTransaction));
  t["EndTransactionThreadPoolQueueCapacity"] = std::to_string(s.config.transaction_queue_max);
  t["queryThreadPoolQueueSize"] = std::to_string(s.workers.queued(Workers::Lane::kQuery));
  t["queryThreadPoolQueueCapacity"] = std::to_string(s.config.query_queue_max);
  // 5.x tools ask for these (broker §16.2).
  t["brokerActive"] = "true";
  t["brokerRole"] = "ASYNC_MASTER";
  t["subscriptionMismatchGroups"] = std::to_string(s.consumers.mismatched_groups());
  t["subscriptionMismatchTotal"] = std::to_string(s.consumers.mismatch_total());
  t.merge(s.delay.status());
  t.merge(s.timer.status());
  put_storage_stats(t, s);
  put_disk_ratios(t, s);
  return Reply::with_body(proto::encode_kv_table(t));
}

}  // namespace

void add_info_handlers(Handlers& table, const Services& s) {
  using C = proto::RequestCode;
  table[C::kGetBrokerRuntimeInfo] = {Run::kAdmin, [&s](const Request&) { return runtime_info(s); }};
  table[C::kGetAllDelayOffset] = {
      Run::kAdmin, [&s](const Request&) { return Reply::with_body(s.delay.offsets_json()); }};
}

}  // namespace tenon::broker
