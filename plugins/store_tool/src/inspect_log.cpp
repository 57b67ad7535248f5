#include "inspector.h"

#include "tenon/base/units.h"
#include "tenon/proto/properties.h"
#include "tenon/store/record.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::store_tool {

namespace {
/// Progress is told this often, in frames.
constexpr std::uint64_t kProgressFrames = 4096;
}  // namespace

Result<DelayTable> DelayTable::parse(std::string_view text) {
  DelayTable table;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view item = text.substr(0, space);
    text = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
    if (item.empty()) {
      continue;
    }
    const auto ms = parse_duration_ms(item);
    if (!ms) {
      return Error{Errc::kInvalid, fmt::format("delay level \"{}\": {}", item, ms.error().detail)};
    }
    table.delays_ms_.push_back(ms.value());
  }
  return table;
}

std::int64_t DelayTable::deliver_ms(std::uint32_t level, std::int64_t store_ms) const noexcept {
  // An unknown level delays one second (spec: store §18).
  return store_ms + (level >= 1 && level <= delays_ms_.size() ? delays_ms_[level - 1] : 1000);
}

std::int64_t DelayTable::tags_code(const proto::MessageView& m) const noexcept {
  const std::uint32_t level = store::delay_level_of(m);
  return level > 0 ? deliver_ms(level, m.store_ms) : proto::tags_code_of(m.properties);
}

Result<Inspection> inspect(const Folder& folder, const InspectOptions& options) {
  Inspector inspector(folder, options);
  return inspector.run();
}

Inspector::Inspector(const Folder& folder, const InspectOptions& options)
    : folder_(folder),
      options_(options),
      findings_(options.sink, options.per_place),
      stream_(folder) {
  for (const SequenceFile& f : folder.log().files()) {
    total_bytes_ += f.bytes;
  }
  has_entries_ = !stream_.done();
  first_entry_ = has_entries_ ? stream_.head().phys : 0;
}

Result<Inspection> Inspector::run() {
  for (const Finding& finding : folder_.findings()) {
    add(finding);
    if (finding.file.starts_with("index/") && finding.severity == Severity::kError) {
      result_.index_wrong = true;
    }
    for (const QueueFiles& queue : folder_.queues()) {
      const std::string below = fmt::format("/{}/{}/", queue.topic, queue.id);
      if (finding.file.starts_with("consumequeue" + below) ||
          finding.file.starts_with("consumequeue_ext" + below)) {
        result_.queues[QueueKey(queue.topic, queue.id)].wrong = true;
      }
    }
  }
  TENON_TRY(walk_log());
  finish_index();
  check_chains();
  TENON_TRY(walk_queues());
  missing_queues();
  choose_cut();
  findings_.finish();
  result_.errors = findings_.errors();
  result_.warnings = findings_.warnings();
  return std::move(result_);
}

Finding Inspector::at_log(std::uint64_t pos, std::string_view kind, Severity severity) const {
  Finding f;
  f.severity = severity;
  f.kind = kind;
  f.file = folder_.relative(folder_.log().path_of(pos));
  const SequenceFile* file = folder_.log().file_of(pos);
  f.position = file == nullptr ? 0 : pos - file->base;
  f.phys = static_cast<std::int64_t>(pos);
  return f;
}

bool Inspector::is_damaged(std::uint64_t pos) const noexcept {
  const auto behind =
      std::upper_bound(damaged_.begin(), damaged_.end(), pos, [](std::uint64_t p, const Range& r) {
        return p < r.from;
      });
  return behind != damaged_.begin() && pos < (behind - 1)->to;
}

bool Inspector::report_progress(std::uint64_t done) {
  return !options_.progress || options_.progress(std::min(done, total_bytes_), total_bytes_);
}

Result<> Inspector::walk_log() {
  const Sequence& log = folder_.log();
  result_.log_min = log.first_base();
  LogWalk walk(log, log.first_base(), options_.check_crc);
  Frame frame;
  std::uint64_t frames = 0;
  while (walk.next(frame)) {
    if (++frames % kProgressFrames == 0 && !report_progress(frame.at - result_.log_min)) {
      return Error{Errc::kCancelled, "stopped"};
    }
    switch (frame.kind) {
      case Frame::Kind::kBlank:
        break;
      case Frame::Kind::kRecord:
        see_record(frame);
        break;
      default:
        see_bad(frame);
        break;
    }
  }
  result_.log_end = std::max(walk.end(), result_.log_min);
  return ok();
}

void Inspector::see_record(const Frame& frame) {
  const proto::MessageView& m = frame.record;
  if (!store::is_readable_topic(m.topic)) {
    Finding f = at_log(frame.at, "record-topic", Severity::kError);
    f.text = fmt::format("the topic \"{}\" can be no folder name", m.topic);
    add(std::move(f));
    return;
  }
  if (result_.records == 0) {
    result_.first_store_ms = m.store_ms;
  }
  ++result_.records;
  result_.record_bytes += frame.bytes;
  result_.last_store_ms = std::max(result_.last_store_ms, m.store_ms);
  match_index(m);
  if (store::has_queue_entry(m.sys_flag)) {
    see_queue(m);
  }
}

/// Offsets of a queue have to follow each other in the log.
void Inspector::see_queue(const proto::MessageView& m) {
  QueueState& queue =
      result_.queues[QueueKey(std::string(m.topic), static_cast<std::uint32_t>(m.queue_id))];
  ++queue.records;
  queue.last_store_ms = m.store_ms;
  if (!queue.in_log) {
    queue.in_log = true;
    queue.log_first = m.queue_offset;
    queue.log_next = m.queue_offset + 1;
    return;
  }
  if (m.queue_offset >= queue.log_next) {
    if (m.queue_offset > queue.log_next) {
      queue.gaps.emplace_back(queue.log_next, m.queue_offset);
      if (damaged_.empty()) {  // else the damage says why
        Finding f =
            at_log(static_cast<std::uint64_t>(m.phys_offset), "offset-gap", Severity::kWarning);
        f.topic = m.topic;
        f.queue_id = m.queue_id;
        f.queue_offset = m.queue_offset;
        f.text = fmt::format("queue offset {} follows {}", m.queue_offset, queue.log_next - 1);
        add(std::move(f));
      }
    }
    queue.log_next = m.queue_offset + 1;
    return;
  }
  Finding f = at_log(static_cast<std::uint64_t>(m.phys_offset), "offset-twice", Severity::kWarning);
  f.topic = m.topic;
  f.queue_id = m.queue_id;
  f.queue_offset = m.queue_offset;
  f.text = fmt::format("queue offset {} was there before; queues keep the first", m.queue_offset);
  add(std::move(f));
}

void Inspector::see_bad(const Frame& frame) {
  bad_at_.push_back(frame.at);
  const bool tail = frame.kind == Frame::Kind::kTail;
  if (frame.kind == Frame::Kind::kBadBody) {
    ++result_.bad_records;
    Finding f = at_log(frame.at, "record-crc", Severity::kError);
    f.topic = frame.record.topic;
    f.queue_id = frame.record.queue_id;
    f.queue_offset = frame.record.queue_offset;
    f.text = fmt::format("the body of {} bytes does not fit its CRC", frame.record.body.size());
    add(std::move(f));
    // The rest of it is whole: its unit and its keys are checked like others.
    see_record(frame);
    return;
  }
  if (tail) {
    if (folder_.snapshot()) {
      return;  // somebody is writing there
    }
  } else {
    ++result_.damages;
    damaged_.push_back({frame.at, frame.at + frame.bytes});
  }
  Finding f = at_log(
      frame.at, tail ? "log-tail" : "log-damage", tail ? Severity::kWarning : Severity::kError);
  f.text = frame.text;
  add(std::move(f));
}

/// The file that recovery begins with, as the plug-in chooses it: the third-last after a clean stop,
/// else the newest that the checkpoint covers; never behind what the queues know (spec: store §13.3).
std::uint64_t Inspector::recovery_start() const {
  const auto& files = folder_.log().files();
  std::size_t start = files.size() > 3 ? files.size() - 3 : 0;
  if (folder_.abort()) {
    for (start = files.size() - 1; start > 0; --start) {
      proto::MessageView m;
      if (read_record(folder_.log().at(files[start].base), files[start].base, m) &&
          m.store_ms != 0 && m.store_ms <= folder_.checkpoint().min_ms()) {
        break;
      }
    }
  }
  while (start > 0 && files[start].base > known_) {
    --start;
  }
  return files[start].base;
}

void Inspector::choose_cut() {
  if (folder_.log().empty() || bad_at_.empty() || folder_.snapshot()) {
    return;
  }
  const auto at = std::lower_bound(bad_at_.begin(), bad_at_.end(), recovery_start());
  if (at == bad_at_.end()) {
    return;
  }
  LogCut cut;
  cut.at = *at;
  LogWalk walk(folder_.log(), cut.at, false);
  Frame frame;
  while (walk.next(frame)) {
    const bool whole = frame.kind == Frame::Kind::kRecord;
    cut.records += whole && (frame.at > cut.at) ? 1 : 0;
    cut.bytes += frame.bytes;
  }
  result_.cut = cut;
}

}  // namespace tenon::store_tool
