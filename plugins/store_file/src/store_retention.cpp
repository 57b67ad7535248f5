// Deleting what has expired (spec: store §11), disk use, and the figures for operators.
#include "store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace tenon::store_file {

namespace {

constexpr std::uint64_t kHeldWarnNs = 120'000'000'000;  ///< (destroyMapedFileIntervalForcibly)

/// Used part of the partition in hundredths of a percent: used / (used + usable by this user).
std::uint32_t disk_use_of(const std::string& path) noexcept {
  struct statvfs fs {};
  if (io().statvfs(path.c_str(), &fs) != 0 || fs.f_blocks == 0) {
    return 10'000;  // a missing path counts as full, so that cleaning is not put off
  }
  const auto used = static_cast<double>(fs.f_blocks - fs.f_bfree);
  const double whole = used + static_cast<double>(fs.f_bavail);
  return whole <= 0 ? 10'000 : static_cast<std::uint32_t>(std::ceil(used * 10'000 / whole));
}

/// How full the disks are that the store lies on.
struct DiskUse {
  std::uint32_t whole = 0;  ///< of the fuller one of root and log
  /// Folders that get no new file of the log above a limit: see full_folders().
  std::vector<std::uint32_t> folders{};

  /// Bit n: the n-th folder uses more than this percentage; 0: no limit.
  std::uint64_t full_folders(std::uint32_t percent) const noexcept {
    std::uint64_t full = 0;
    for (std::size_t i = 0; percent > 0 && i < folders.size(); ++i) {
      full |= std::uint64_t{folders[i] > percent * 100 ? 1u : 0u} << i;
    }
    return full;
  }
};

/// Of several folders of the log the emptiest counts: the others get no new files (spec: store §10.3).
/// A log folder is made with its first file.
DiskUse disk_use(const Options& o) {
  DiskUse use;
  std::uint32_t log = 10'000;
  for (const std::string& folder : o.log_folders.growing) {
    use.folders.push_back(::access(folder.c_str(), F_OK) == 0 ? disk_use_of(folder) : 0);
    log = std::min(log, use.folders.back());
  }
  use.whole = std::max(disk_use_of(o.root), log);
  return use;
}

/// The age of a file is its modification time, not the time of its messages (spec: store §11.1).
std::int64_t modified_ms(const std::string& path) noexcept {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) {
    return 0;
  }
  return std::int64_t{st.st_mtim.tv_sec} * 1000 + st.st_mtim.tv_nsec / 1'000'000;
}

}  // namespace

/// Deletes files from the oldest on that are old enough, or whatever their age if `force`.
void Store::delete_log_files(const tenon_retention& p, bool force, tenon_retention_result& result) {
  const std::uint64_t floor = floor_.load(std::memory_order_acquire);
  while (result.files < p.max_files && log_.files().count() > 1) {
    std::uint64_t base = 0;
    std::string path;
    {
      const FilePin first = log_.files().pin_first();
      if (!first || first->end() > floor || first->end() > log_.frame_end() ||
          first->end() > dispatched_.load(std::memory_order_acquire)) {
        return;
      }
      base = first->base();
      path = first->path();
    }
    if (!force && p.now_ms - p.keep_ms < modified_ms(path)) {
      return;
    }
    // Trap: the minimum moves first, so that no new reader starts in a file that goes.
    log_.set_min(base + log_.file_bytes());
    if (!log_.files().remove_first()) {
      host_.log(LogLevel::kWarn, "log file cannot be deleted, trying again file={}", path);
      return;
    }
    ++result.files;
    result.bytes += log_.file_bytes();
    host_.log(LogLevel::kInfo, "log file deleted file={} forced={}", path, force);
  }
}

/// Disk use against the three levels of a policy; 0 = level is off. All comparisons are strict
/// (spec: store §10.3).
struct Store::Pressure {
  bool clean = false;  ///< expired files go at any hour
  bool force = false;  ///< the oldest go whatever their age
  bool full = false;   ///< appends are refused
};

Store::Pressure Store::pressure_of(const tenon_retention& p, std::uint32_t use) {
  const auto above = [use](std::uint32_t percent) { return percent > 0 && use > percent * 100; };
  Pressure pressure;
  pressure.full = above(p.disk_full_pct);
  // Without forced cleaning a full disk does not force either (cleanFileForciblyEnable).
  pressure.force = p.disk_force_pct > 0 && (above(p.disk_force_pct) || pressure.full);
  pressure.clean = above(p.disk_clean_pct) || pressure.force;
  return pressure;
}

void Store::set_disk_full(bool full, std::uint32_t use) {
  if (disk_full_.exchange(full, std::memory_order_relaxed) == full) {
    return;
  }
  const double percent = use / 100.0;
  if (full) {
    host_.log(LogLevel::kError, "disk is full, messages are refused used_pct={:.2f}", percent);
  } else {
    host_.log(LogLevel::kInfo, "disk has room, messages are accepted used_pct={:.2f}", percent);
  }
}

tenon_status Store::retention(const tenon_retention* p,
                              tenon_retention_result* r,
                              tenon_error* err) {
  if (!is_active()) {
    return plugin::fail(err, TENON_CLOSED, "the store is closed");
  }
  tenon_retention_result result{};
  DiskUse use = disk_use(options_);
  const Pressure pressure = pressure_of(*p, use.whole);
  set_disk_full(pressure.full, use.whole);
  if (log_.spread() != nullptr) {
    log_.spread()->set_full(
        use.full_folders(p->disk_force_pct > 0 ? p->disk_force_pct : p->disk_full_pct));
  }
  if (pressure.clean || (p->flags & (TENON_RETENTION_DELETE_HOUR | TENON_RETENTION_MANUAL)) != 0) {
    delete_log_files(*p, pressure.force, result);
  }
  if (result.files > 0) {
    for (ConsumeQueue* queue : queues_.all()) {
      queue->remove_expired(log_.min());
      queue->correct_min(log_.min());
      if (queues_.has_many_mappings()) {
        helper_waker_.wake();
      }
    }
    index_.remove_expired(log_.min());
    publish(TENON_CHANGED_MIN_PHYS);
    use = disk_use(options_);
    set_disk_full(pressure_of(*p, use.whole).full, use.whole);
  }
  report_held(log_.files().reap());
  result.min_phys = log_.min();
  result.disk_pct_x100 = use.whole;
  result.health = health();
  result.size = std::min<std::uint32_t>(r->size, sizeof result);
  std::memcpy(r, &result, result.size);
  return TENON_OK;
}

/// Says once when readers hold a deleted file for long: its space comes back only with the release.
void Store::report_held(std::size_t files) {
  const std::uint64_t now = host_.mono_ns();
  if (files == 0) {
    held_since_ns_ = 0;
  } else if (held_since_ns_ == 0) {
    held_since_ns_ = now;
  } else if (now - held_since_ns_ > kHeldWarnNs) {
    held_since_ns_ = now;
    host_.log(LogLevel::kWarn, "deleted log files are still read files={}", files);
  }
}

void Store::stats(const tenon_sink* out) {
  const std::uint64_t end = log_.end();
  const std::uint64_t dispatched = dispatched_.load(std::memory_order_acquire);
  const std::int64_t since = append_since_ms_.load(std::memory_order_relaxed);
  const auto ratio = [](std::uint32_t use) { return fmt::format("{}", (use + 99) / 100 / 100.0); };
  std::vector<std::pair<std::string, std::string>> rows = {
      {"commitLogMinOffset", fmt::format("{}", log_.min())},
      {"commitLogMaxOffset", fmt::format("{}", end)},
      {"dispatchBehindBytes", fmt::format("{}", end - std::min(dispatched, end))},
      {"consumeQueueDiskRatio", ratio(disk_use_of(options_.root))},
      {"pageCacheLockTimeMills", fmt::format("{}", since == 0 ? 0 : host_.wall_ms() - since)},
      {"storeDurableOffset", fmt::format("{}", log_.durable())},
      {"storeIndexedOffset", fmt::format("{}", indexed_.load(std::memory_order_acquire))},
      {"storeReservedAheadBytes", fmt::format("{}", std::max(log_.reserved(), end) - end)},
      {"storeQueues", fmt::format("{}", queues_.size())},
      {"storeIndexFiles", fmt::format("{}", index_.count())},
      {"storeAppendedRecords",
       fmt::format("{}", appended_records_.load(std::memory_order_relaxed))},
  };
  // As Java's table has it: each folder, and the emptiest.
  std::uint32_t least = 10'000;
  for (const std::string& folder : options_.log_folders.growing) {
    const bool made = ::access(folder.c_str(), F_OK) == 0;
    const std::uint32_t use = disk_use_of(made ? folder : options_.root);
    least = std::min(least, use);
    rows.emplace_back("commitLogDiskRatio_" + folder, ratio(use));
  }
  rows.emplace_back("commitLogDiskRatio", ratio(least));
  for (const auto& [key, value] : rows) {
    const tenon_kv kv{plugin::str(key), plugin::str(value)};
    out->put(out->ctx, &kv, 1);
  }
}

}  // namespace tenon::store_file
