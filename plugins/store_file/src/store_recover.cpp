// Opening a folder: what is in it, where the log ends, what the queues lack (spec: store §13, §25).
#include "store.h"

#include "tenon/base/endian.h"
#include "tenon/store/light_queues.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <unistd.h>

namespace tenon::store_file {

namespace {
constexpr std::uint64_t kReportNs = 5'000'000'000;

bool is_entry_of(const proto::MessageView& m, const ConsumeQueue& queue, std::int64_t offset) {
  return m.queue_offset == offset && m.queue_id == static_cast<std::int32_t>(queue.id()) &&
         m.topic == queue.topic();
}

template <class T>
void copy_out(T* out, T& result) noexcept {
  result.size = std::min<std::uint32_t>(out->size, sizeof(T));
  std::memcpy(out, &result, result.size);
}
}  // namespace

struct Store::Scan {
  std::uint64_t pos = 0;         ///< end of the last good frame
  std::uint64_t dispatched = 0;  ///< up to here
  std::uint64_t cut_bytes = 0;
  std::int64_t last_ms = 0;
  std::uint64_t records = 0;
  std::uint64_t reported_ns = 0;
  bool stopped = false;
};

bool Store::forget_all() {
  if (!queues_.clear() || !log_.files().clear()) {
    return false;
  }
  index_.clear(false);
  log_.set_positions(0, 0, 0);
  dispatched_.store(0);
  indexed_.store(0);
  failed_.store(TENON_OK);
  {
    const std::scoped_lock lock(durable_mutex_);
    fault_told_ = false;
  }
  queue_error_.store(false);
  index_error_.store(false);
  disk_full_.store(false);
  append_full_.store(false);
  wanted_.store(0);
  last_append_ms_.store(0);
  last_dispatch_ms_.store(0);
  given_back_ = 0;
  lock_.unlock();
  return true;
}

/// Recovery looks into every queue, and a store may have more than a process may map.
void Store::limit_mappings() {
  if (queues_.has_many_mappings()) {
    queues_.unmap_some(2 * queues_.size());
  }
}

/// Nobody else needs mappings while a store is opened, but later there are bursts, and other parts.
void Store::share_mappings(bool opening) {
  std::ifstream in("/proc/sys/vm/max_map_count");
  std::size_t most = 0;
  if (!(in >> most)) {
    most = 65'530;
  }
  queues_.limit_mappings(opening ? most - most / 8 : most / 4);
  limit_mappings();
}

/// Lock and look; nothing is changed before everything that lies there is understood.
Result<> Store::open_folder(Layout& layout) {
  TENON_TRY(lock_.lock(options_.root, false));
  TENON_TRY(layout, scan_layout(options_));
  if (::access(options_.root.c_str(), F_OK) != 0) {
    TENON_TRY(make_directories(options_.root));
  }
  if (::access(options_.root.c_str(), W_OK | X_OK) != 0) {
    return os_error("store folder " + options_.root +
                        " is not writable for this user; change its owner or choose another root",
                    errno,
                    Errc::kDenied);
  }
  TENON_TRY(open_log_folders());
  return lock_.lock(options_.root, true);
}

/// Of several folders all are there from the first start on, so that one which is missing later means
/// a disk that is missing.
Result<> Store::open_log_folders() const {
  for (const std::string& folder : options_.log_folders.all()) {
    if (::access(folder.c_str(), F_OK) != 0) {
      if (options_.log_folders.several()) {
        TENON_TRY(make_directories(folder));
      }
    } else if (::access(folder.c_str(), W_OK | X_OK) != 0) {
      return os_error("log folder " + folder + " is not writable for this user; change its owner",
                      errno,
                      Errc::kDenied);
    }
  }
  return ok();
}

Result<> Store::open_files(const Layout& layout, bool crashed) {
  IndexShape shape{options_.index_slots, options_.index_items};
  if (!layout.index_names.empty()) {
    TENON_TRY(shape,
              KeyIndex::find_shape(
                  index_folder(options_.root), layout.index_names, layout.index_file_bytes, shape));
  }
  for (const std::string& note : layout.notes) {
    host_.log(LogLevel::kInfo, "{}", note);
  }
  TENON_TRY(const Checkpoint checkpoint, load_checkpoint(options_.root));
  {
    const std::scoped_lock lock(checkpoint_mutex_);
    checkpoint_ = checkpoint;
  }
  log_.configure(options_.log_folders, layout.log_file_bytes);
  queues_.configure(
      options_.root, layout.queue_file_bytes, options_.queue_ext ? layout.ext_file_bytes : 0);
  for (std::size_t i = 0; i < layout.log_bases.size(); ++i) {
    log_.files().adopt(layout.log_bases[i], layout.log_places[i]);
    if (log_.files().find(layout.log_bases[i]) == nullptr) {
      return Error{Errc::kIo,
                   fmt::format("{}/{} cannot be opened and mapped; check its permissions",
                               layout.log_places[i],
                               file_name_of(layout.log_bases[i]))};
    }
  }
  for (const std::string& path : layout.empty_files) {
    static_cast<void>(io().unlink(path.c_str()));
  }
  for (const QueueFolder& folder : layout.queues) {
    tenon_queue handle = 0;
    ConsumeQueue* queue = queues_.find_or_create(folder.topic, folder.id, handle);
    if (queue == nullptr) {
      return Error{Errc::kLimit, "too many queues"};
    }
    for (const std::uint64_t base : folder.bases) {
      queue->files().adopt(base);
    }
    if (!folder.ext_bases.empty()) {
      if (queue->ext() == nullptr) {  // written before the option was switched off
        queue->extend(ext_folder(options_.root, folder.topic, folder.id), layout.ext_file_bytes);
      }
      for (const std::uint64_t base : folder.ext_bases) {
        queue->ext()->files().adopt(base);
      }
      TENON_TRY(queue->ext()->recover());
    }
    TENON_TRY(queue->recover(crashed));
    if (options_.log_folders.several() && !crashed && queue->max_phys() > log_.files().last_end()) {
      return lost_files(*queue);
    }
    TENON_TRY(drop_ghosts(*queue));
    limit_mappings();
  }
  return index_.load(index_folder(options_.root), shape, layout.index_names, crashed, checkpoint);
}

/// Index of the first file to scan. Clean: the third-last, or the last one if the queues are those of the
/// stop. After a crash: the newest one that the checkpoint covers. In any case not behind what the queues
/// know.
std::size_t Store::choose_start(const std::vector<std::uint64_t>& bases, bool crashed) {
  Checkpoint checkpoint;
  {
    const std::scoped_lock lock(checkpoint_mutex_);
    checkpoint = checkpoint_;
    checkpoint_.queue_units = 0;  // holds until the store is activated
  }
  std::uint64_t known = 0;
  for (const ConsumeQueue* queue : queues_.all()) {
    known = std::max(known, queue->max_phys());
  }
  // Another broker may have written here since: then the log goes on behind what was indexed.
  const bool untouched = checkpoint.queue_units != 0 && queues_.units() == checkpoint.queue_units &&
                         known <= checkpoint.indexed;
  const std::size_t files = untouched ? 1 : 3;
  std::size_t start = bases.size() > files ? bases.size() - files : 0;
  if (crashed) {
    const std::int64_t covered = checkpoint.min_ms();
    for (start = bases.size() - 1; start > 0; --start) {
      const MappedFile* file = log_.files().find(bases[start]);
      const auto m = store::parse_record({file->data(), file->bytes()}, false);
      if (m && m.value().store_ms != 0 && m.value().store_ms <= covered) {
        break;
      }
    }
  }
  while (start > 0 && bases[start] > known) {
    --start;
  }
  return start;
}

Result<> Store::scan_file(const tenon_recover_opts* o, MappedFile& file, Scan& scan) {
  while (scan.pos < file.end()) {
    const std::span<const std::uint8_t> rest{file.at(scan.pos),
                                             static_cast<std::size_t>(file.end() - scan.pos)};
    const store::FrameHead head = store::peek_frame(rest);
    if (head.kind == store::FrameKind::kBlank) {
      if (scan.dispatched == scan.pos) {
        scan.dispatched = file.end();
      }
      scan.pos = file.end();
      return ok();
    }
    const auto m = head.kind == store::FrameKind::kRecord
                       ? store::parse_record(rest.first(head.bytes), options_.check_crc)
                       : Result<proto::MessageView>(Error{Errc::kCorrupt, "no record"});
    const bool good = m && m.value().total_bytes == static_cast<std::int32_t>(head.bytes) &&
                      m.value().phys_offset == static_cast<std::int64_t>(scan.pos);
    const bool cut = good && o != nullptr && TENON_HAS(o, tenon_recover_opts, judge_frame) &&
                     o->judge_frame(o->ctx, scan.pos, {rest.data(), head.bytes}) == TENON_FRAME_CUT;
    if (!good || cut) {
      scan.stopped = true;
      return ok();
    }
    const std::uint64_t next = scan.pos + head.bytes;
    if (scan.dispatched == scan.pos && next <= visible_limit_.load(std::memory_order_relaxed)) {
      TENON_TRY(dispatch_record(m.value(), scan.pos));
      scan.dispatched = next;
      limit_mappings();
    }
    scan.last_ms = m.value().store_ms;
    scan.pos = next;
    ++scan.records;
  }
  return ok();
}

/// Trap: a disk that is not mounted takes the last files of the log along, and what the queues know of
/// them would be cut off. After a crash this proves nothing: the log may have been cut just then.
Error Store::lost_files(const ConsumeQueue& queue) {
  return Error{
      Errc::kNotFound,
      fmt::format("the log files in the folders of commitlog_folder end at {}, but queue {}/{} "
                  "knows messages up to {}: is the disk of a folder not mounted? If they are "
                  "lost, move the folder consumequeue away: it is made anew",
                  log_.files().last_end(),
                  queue.topic(),
                  queue.id(),
                  queue.max_phys())};
}

Result<> Store::scan_log(const tenon_recover_opts* o, Scan& scan) {
  scan.reported_ns = host_.mono_ns();
  while (!scan.stopped) {
    if (o != nullptr && TENON_HAS(o, tenon_recover_opts, cancelled) && o->cancelled(o->ctx) != 0) {
      return Error{Errc::kCancelled, "recovery was cancelled"};
    }
    MappedFile* file = log_.files().find(scan.pos);
    if (file == nullptr) {
      break;
    }
    TENON_TRY(scan_file(o, *file, scan));
    file->forget(file->base(), scan.pos);
    if (const std::uint64_t now = host_.mono_ns(); now - scan.reported_ns > kReportNs) {
      scan.reported_ns = now;
      host_.log(LogLevel::kInfo,
                "recovering position={} files_end={} records={}",
                scan.pos,
                log_.files().last_end(),
                scan.records);
    }
  }
  return ok();
}

/// Whether the record that a unit points at names this place of the queue as its own.
bool Store::is_record_of(const ConsumeQueue& queue,
                         std::int64_t offset,
                         const Unit& unit,
                         std::int64_t* store_ms) {
  const MappedFile* file = log_.files().find(unit.phys);
  if (unit.is_filler() || file == nullptr || unit.phys + unit.bytes > file->end()) {
    return false;
  }
  const auto m = store::parse_record({file->at(unit.phys), unit.bytes}, false);
  if (!m || (!is_entry_of(m.value(), queue, offset) &&
             store::light_offset_of(m.value().properties, queue.topic()) != offset)) {
    return false;
  }
  if (store_ms != nullptr) {
    *store_ms = m.value().store_ms;
  }
  return true;
}

/// Units whose record says something else come from an earlier life of the log (spec: store §13.3).
Result<> Store::drop_ghosts(ConsumeQueue& queue) {
  const std::uint64_t log_min = log_.files().first_base();
  std::int64_t end = queue.max_offset();
  const std::int64_t begin = queue.min_offset();
  Unit unit;
  for (; end > begin && queue.read(end - 1, &unit, 1) == 1; --end) {
    if (!unit.is_filler() && unit.phys < log_min) {
      break;  // expired: the unit is all that keeps the queue's position
    }
    std::int64_t store_ms = 0;
    if (is_record_of(queue, end - 1, unit, &store_ms)) {
      queue.set_last_store_ms(store_ms);
      break;
    }
  }
  return queue.cut_units(end);
}

Result<std::uint64_t> Store::index_start(bool crashed) {
  const std::uint64_t newest = index_.last_phys();
  const std::uint64_t last = std::max(newest, log_.min());
  std::uint64_t saved = 0;
  std::uint64_t saved_newest = 0;
  {
    const std::scoped_lock lock(checkpoint_mutex_);
    saved = checkpoint_.indexed;
    saved_newest = checkpoint_.index_last;
  }
  if (!options_.key_index) {
    return log_.end();
  }
  if (crashed) {
    TENON_TRY(
        cut_index(newest, true));  // a part of the record's keys may be missing: all once more
    return last;
  }
  // Files of the index that somebody took away are made again.
  if (saved <= last || saved > log_.end() || (saved_newest != 0 && saved_newest != newest)) {
    return last;
  }
  // Somebody else may have written here in between: only a frame boundary is believed.
  const MappedFile* file = log_.files().find(saved);
  const bool at_frame =
      saved == log_.end() || saved % log_.file_bytes() == 0 ||
      (file != nullptr &&
       store::peek_frame({file->at(saved), static_cast<std::size_t>(file->end() - saved)}).kind !=
           store::FrameKind::kNone &&
       load_be<std::uint64_t>(file->at(saved) + proto::kRecordPhysOffsetAt) == saved);
  return at_frame ? saved : last;
}

/// Cuts everything back to what the scan found, and settles all positions.
Result<> Store::settle(const Layout& layout, Scan& scan, bool crashed) {
  const std::uint64_t end = scan.pos;
  for (const std::uint64_t base : layout.log_bases) {
    const MappedFile* file = log_.files().find(base);
    if (base >= end && load_be<std::uint32_t>(file->data()) != 0) {
      scan.cut_bytes += file->bytes();
    }
  }
  const std::uint64_t keep = layout.log_bases.empty() ? 0 : layout.log_bases.front();
  if (!log_.files().remove_from(std::max(end, keep + 1))) {
    return Error{Errc::kBusy, "a reader holds a file behind the end of the log"};
  }
  if (MappedFile* file = log_.files().find(end); file != nullptr && end < file->end()) {
    const std::uint64_t from = end - file->base();
    if (crashed || load_be<std::uint32_t>(file->at(end)) != 0) {
      scan.cut_bytes += last_data_end(file->fd(), file->data(), from, file->bytes()) - from;
      TENON_TRY(erase_range(file->fd(), file->data(), from, file->bytes()));
    }
  }
  if (layout.log_bases.empty()) {
    for (ConsumeQueue* queue : queues_.all()) {
      TENON_TRY(queue->truncate(0));
    }
  }
  log_.set_positions(layout.log_bases.empty() ? 0 : layout.log_bases.front(), end, 0);
  for (ConsumeQueue* queue : queues_.all()) {
    const std::int64_t before = queue->max_offset();
    TENON_TRY(queue->truncate(end));
    if (crashed && queue->max_offset() != before) {
      TENON_TRY(drop_ghosts(*queue));  // what is gone may have vouched for an older one before it
    }
    limit_mappings();
  }
  for (ConsumeQueue* queue : queues_.all()) {
    TENON_TRY(queue->settle_ext());
    TENON_TRY(queue->erase_tail(crashed));
    queue->correct_min(log_.min());
    limit_mappings();
  }
  TENON_TRY(cut_index(end, crashed));
  if (crashed) {
    TENON_TRY(log_.sync_to(end));  // nobody knows what the disk has
  }
  log_.set_durable(end);
  dispatched_.store(std::min(scan.dispatched, end));
  rebuild_counters_to(end);
  TENON_TRY(const std::uint64_t index_from, index_start(crashed));
  indexed_.store(std::min(index_from, dispatched_.load()));
  last_append_ms_.store(scan.last_ms);
  last_dispatch_ms_.store(scan.last_ms);
  return ok();
}

tenon_status Store::recover(const tenon_recover_opts* o,
                            tenon_recover_result* r,
                            tenon_error* err) {
  if (is_active()) {
    return plugin::fail(err, TENON_INVALID, "the store is active");
  }
  phase_.store(Phase::kIdle);
  if (!forget_all()) {
    return plugin::fail(err, TENON_BUSY, "views of the earlier activation are still held");
  }
  Layout layout;
  Scan scan;
  bool crashed = false;
  const auto run = [&]() -> Result<> {
    TENON_TRY(open_folder(layout));
    const std::uint32_t mode = o == nullptr ? 0 : o->mode;
    crashed = mode == TENON_RECOVER_CRASHED || (mode == TENON_RECOVER_DECIDE && layout.abort);
    after_crash_ = crashed;
    share_mappings(true);
    TENON_TRY(open_files(layout, crashed));
    if (!layout.log_bases.empty()) {
      scan.pos = layout.log_bases[choose_start(layout.log_bases, crashed)];
      scan.dispatched = scan.pos;
      TENON_TRY(scan_log(o, scan));
    }
    TENON_TRY(settle(layout, scan, crashed));
    share_mappings(false);
    return ok();
  };
  if (const auto done = run(); !done) {
    const Error error = done.error();
    forget_all();
    return store::report(err, error);
  }
  phase_.store(Phase::kRecovered);
  host_.log(LogLevel::kInfo,
            "store opened root={} after={} min={} end={} cut_bytes={} queues={} scanned_records={}",
            options_.root,
            crashed ? "crash" : "clean stop",
            log_.min(),
            log_.end(),
            scan.cut_bytes,
            queues_.size(),
            scan.records);
  tenon_recover_result result{};
  result.was_abnormal = crashed ? 1 : 0;
  result.min_phys = log_.min();
  result.end = log_.end();
  result.cut_bytes = scan.cut_bytes;
  result.queues = static_cast<std::uint32_t>(queues_.size());
  result.last_store_ms = scan.last_ms;
  if (r != nullptr) {
    copy_out(r, result);
  }
  return TENON_OK;
}

}  // namespace tenon::store_file
