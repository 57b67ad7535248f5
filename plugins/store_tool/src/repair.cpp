#include "tenon/store_tool/repair.h"

#include "tenon/store/record.h"
#include "tenon/store_format/names.h"
#include "tenon/store_tool/build.h"
#include "tenon/store_tool/log_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include <fcntl.h>
#include <unistd.h>

namespace tenon::store_tool {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kCopyBytes = 1u << 20;

/// To another disk. The data goes, holes stay.
Result<> copy_file(const std::string& from, const std::string& to) {
  TENON_TRY(const auto source, ReadFile::open(from));
  const auto bytes = source->bytes();
  TENON_TRY(const OpenFile target, OpenFile::open(to, bytes.size()));
  const std::uint64_t end = source->data_end(0, bytes.size());
  for (std::uint64_t at = 0; at < end; at += kCopyBytes) {
    TENON_TRY(target.write(at, bytes.subspan(at, std::min(kCopyBytes, end - at))));
  }
  return target.sync();
}

Result<> move_path(const std::string& from, const std::string& to) {
  std::error_code ec;
  if (!fs::exists(from, ec)) {
    return ok();
  }
  TENON_TRY(make_folders(fs::path(to).parent_path().string()));
  fs::rename(from, to, ec);
  if (ec == std::errc::cross_device_link) {  // a log on a disk of its own
    TENON_TRY(copy_file(from, to));
    fs::remove(from, ec);
  }
  return ec ? Result<>(os_error("move " + from + " to " + to, ec.value())) : Result<>(ok());
}

std::string below_of(const QueueKey& key) {
  return fmt::format("{}/{}", key.first, key.second);
}

/// One repair that is applied.
class Work {
 public:
  Work(const Folder& folder, const RepairOptions& options, RepairPlan& plan)
      : folder_(folder),
        options_(options),
        plan_(plan),
        root_(folder.root()),
        side_(root_ + "/repair-" + store_format::index_name_of(options.wall_ms, {})),
        index_(side_ + "/new/index", folder.index_shape(), options.wall_ms) {}

  /// Writes everything new below the side folder.
  Result<> build();
  /// Puts it into its place.
  Result<> swap();

 private:
  Result<> keep_expired(const QueueKey& key, QueueBuilder& builder) const;
  Result<> add(const proto::MessageView& m);
  Result<> cut_log();
  Result<> cut_file(std::uint64_t at, const std::string& path);
  store_format::Checkpoint new_checkpoint() const;

  const Folder& folder_;
  const RepairOptions& options_;
  RepairPlan& plan_;
  std::string root_;
  std::string side_;
  std::map<QueueKey, std::unique_ptr<QueueBuilder>> queues_{};
  IndexBuilder index_;
  std::uint64_t end_ = 0;
  std::int64_t last_store_ms_ = 0;
};

/// The units of records that the log does not have any more stay: they carry the queue's position.
Result<> Work::keep_expired(const QueueKey& key, QueueBuilder& builder) const {
  const QueueFiles* files = folder_.find_queue(key.first, key.second);
  const auto state = plan_.found.queues.find(key);
  if (files == nullptr || state == plan_.found.queues.end()) {
    return ok();
  }
  const QueueState& s = state->second;
  const auto per_file =
      static_cast<std::int64_t>(folder_.queue_file_bytes() / store_format::kUnitBytes);
  if (s.in_log && s.log_first - s.expired_end > per_file) {
    return ok();
  }
  for (std::int64_t offset = s.file_begin; offset < s.expired_end; ++offset) {
    if (const auto unit = unit_at(*files, offset)) {
      TENON_TRY(builder.put(offset, *unit));
    }
  }
  return ok();
}

Result<> Work::add(const proto::MessageView& m) {
  last_store_ms_ = std::max(last_store_ms_, m.store_ms);
  if (plan_.index) {
    TENON_TRY(index_.add(m));
  }
  if (!store::has_queue_entry(m.sys_flag)) {
    return ok();
  }
  const auto queue =
      queues_.find(QueueKey(std::string(m.topic), static_cast<std::uint32_t>(m.queue_id)));
  if (queue == queues_.end()) {
    return ok();
  }
  return queue->second->put(m.queue_offset,
                            {static_cast<std::uint64_t>(m.phys_offset),
                             static_cast<std::uint32_t>(m.total_bytes),
                             options_.inspect.delays.tags_code(m)});
}

Result<> Work::build() {
  TENON_TRY(make_folders(side_ + "/new"));
  for (const QueueKey& key : plan_.queues) {
    auto builder = std::make_unique<QueueBuilder>(side_ + "/new/consumequeue/" + below_of(key),
                                                  folder_.queue_file_bytes());
    TENON_TRY(keep_expired(key, *builder));
    queues_.emplace(key, std::move(builder));
  }
  const std::uint64_t stop = plan_.found.cut ? plan_.found.cut->at : ~std::uint64_t{0};
  LogWalk walk(folder_.log(), folder_.log().first_base(), false);
  Frame frame;
  end_ = folder_.log().first_base();
  while (walk.next(frame) && frame.at < stop) {
    if (frame.kind == Frame::Kind::kRecord) {
      TENON_TRY(add(frame.record));
    }
    if (frame.kind == Frame::Kind::kRecord || frame.kind == Frame::Kind::kBlank) {
      end_ = frame.at + frame.bytes;
    }
  }
  for (const auto& queue : queues_) {
    TENON_TRY(queue.second->finish());
  }
  return index_.finish();
}

/// Copies what lies behind `at` to the side folder and zeroes it.
Result<> Work::cut_file(std::uint64_t at, const std::string& path) {
  const Sequence& log = folder_.log();
  const std::uint64_t base = log.file_of(at)->base;
  const std::uint64_t data = log.data_end(at);
  const auto bytes = log.at(at);
  const std::string name =
      fmt::format("{}/commitlog/{}.from-{}", side_, store_format::file_name_of(base), at - base);
  TENON_TRY(make_folders(side_ + "/commitlog"));
  TENON_TRY(const OpenFile copy, OpenFile::open(name, 0));
  TENON_TRY(copy.write(0, bytes.first(std::min<std::size_t>(data - at, bytes.size()))));
  TENON_TRY(copy.sync());
  TENON_TRY(const OpenFile file, OpenFile::open(path, 0));
  const std::vector<std::uint8_t> zeros(kCopyBytes, 0);
  for (std::uint64_t pos = at; pos < data; pos += kCopyBytes) {
    TENON_TRY(file.write(pos - base,
                         std::span(zeros).first(std::min<std::uint64_t>(kCopyBytes, data - pos))));
  }
  return file.sync();
}

Result<> Work::cut_log() {
  if (!plan_.found.cut) {
    return ok();
  }
  const std::uint64_t at = plan_.found.cut->at;
  const Sequence& log = folder_.log();
  for (const SequenceFile& f : log.files()) {
    const std::string name = store_format::file_name_of(f.base);
    const std::string path = log.path_of(f);
    if (f.base + log.file_bytes() <= at) {
      continue;
    }
    // The first file stays even when empty: its name carries the start of the log.
    if (f.base >= at && f.base != log.first_base()) {
      TENON_TRY(move_path(path, side_ + "/commitlog/" + name));
    } else {
      TENON_TRY(cut_file(std::max(at, f.base), path));
    }
  }
  for (const std::string& folder : log.folders()) {
    TENON_TRY(sync_folder(folder));
  }
  return ok();
}

store_format::Checkpoint Work::new_checkpoint() const {
  store_format::Checkpoint c;
  c.physic_ms = c.logics_ms = last_store_ms_;
  if (plan_.index) {
    c.index_ms = index_.complete_ms();
    c.index_last = index_.last_phys();
    c.index_done = std::max<std::uint64_t>(index_.complete_phys(), 1);  // 1 = none, 0 = not known
    c.indexed = end_;
  } else {
    c.index_ms = folder_.checkpoint().index_ms;
    c.index_done = folder_.checkpoint().index_done;
    if (!folder_.index().empty()) {
      c.index_last =
          folder_.index().back().items() > 0 ? folder_.index().back().header.end_phys : 0;
      c.indexed = end_;
    }
  }
  return c;
}

Result<> Work::swap() {
  // From here on a death is a crash, and without a checkpoint its recovery reads the whole log.
  TENON_TRY(write_file(root_ + "/abort", {}));
  TENON_TRY(move_path(root_ + "/checkpoint", side_ + "/checkpoint"));
  TENON_TRY(sync_folder(root_));
  TENON_TRY(cut_log());
  for (const QueueKey& key : plan_.queues) {
    for (const char* top : {"consumequeue/", "consumequeue_ext/"}) {
      const std::string below = top + below_of(key);
      TENON_TRY(move_path(root_ + "/" + below, side_ + "/" + below));
    }
    const std::string below = "consumequeue/" + below_of(key);
    TENON_TRY(move_path(side_ + "/new/" + below, root_ + "/" + below));
    TENON_TRY(sync_folder(root_ + "/consumequeue"));
  }
  if (plan_.index) {
    TENON_TRY(move_path(root_ + "/index", side_ + "/index"));
    TENON_TRY(move_path(side_ + "/new/index", root_ + "/index"));
  }
  TENON_TRY(save_checkpoint(root_, new_checkpoint()));
  TENON_TRY(sync_folder(root_));
  std::error_code ec;
  fs::remove(root_ + "/abort", ec);
  fs::remove_all(options_.keep ? side_ + "/new" : side_, ec);
  plan_.side = options_.keep ? side_ : std::string();
  return sync_folder(root_);
}

/// Files of the log that are not as they must be: rebuilding on top of that would make it worse.
Result<> refuse_broken_log(const Folder& folder) {
  for (const Finding& f : folder.findings()) {
    if (f.severity == Severity::kError && folder.is_of_log(f.file)) {
      return Error{
          Errc::kCorrupt,
          fmt::format("{} {}: put the right file there, or take it away; nothing was changed",
                      f.file,
                      f.text)};
    }
  }
  return ok();
}

RepairPlan plan_of(const Folder& folder, const RepairOptions& options, Inspection found) {
  RepairPlan plan;
  plan.index = options.all || options.index || found.index_wrong;
  std::set<QueueKey> wrong;
  for (const auto& entry : found.queues) {
    if (options.all || entry.second.wrong) {
      wrong.insert(entry.first);
    }
  }
  if (found.cut) {  // what the cut takes leaves queues and index too
    LogWalk walk(folder.log(), found.cut->at, false);
    Frame frame;
    while (walk.next(frame)) {
      if (frame.kind == Frame::Kind::kRecord) {
        wrong.emplace(std::string(frame.record.topic),
                      static_cast<std::uint32_t>(frame.record.queue_id));
      }
    }
    for (const IndexFileView& view : folder.index()) {
      plan.index = plan.index || (view.items() > 0 && view.header.end_phys >= found.cut->at);
    }
    // Units that the damage hides from the walk: of the queues that end behind the cut.
    for (const QueueFiles& queue : folder.queues()) {
      const std::int64_t end = queue_end(queue);
      const auto last = end > queue_begin(queue) ? unit_at(queue, end - 1) : std::nullopt;
      if (last && !last->is_filler() && last->phys >= found.cut->at) {
        wrong.emplace(queue.topic, queue.id);
      }
      queue.units.unmap();
    }
  }
  std::erase_if(wrong, [&](const QueueKey& key) { return folder.is_batch_queue(key.first); });
  plan.queues.assign(wrong.begin(), wrong.end());
  plan.found = std::move(found);
  return plan;
}

}  // namespace

Result<RepairPlan> repair(const std::string& root, const RepairOptions& options) {
  std::unique_ptr<WriteLock> lock;
  TENON_TRY(const auto folder, Folder::open(root, options.open));
  if (options.apply) {
    TENON_TRY(lock, WriteLock::take(root));
  }
  TENON_TRY(refuse_broken_log(*folder));
  TENON_TRY(Inspection found, inspect(*folder, options.inspect));
  RepairPlan plan = plan_of(*folder, options, std::move(found));
  if (!options.apply || plan.nothing()) {
    return plan;
  }
  Work work(*folder, options, plan);
  TENON_TRY(work.build());
  TENON_TRY(work.swap());
  return plan;
}

}  // namespace tenon::store_tool
