#include "inspector.h"

#include "tenon/proto/properties.h"
#include "tenon/store/record.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::store_tool {

using store_format::kUnitBytes;
using store_format::Unit;

namespace {

constexpr std::string_view kLightPrefix = "%LMQ%";
/// Queues whose files stay mapped: a process has a limited number of mappings.
constexpr std::size_t kMappedQueues = 256;

/// Light queues have further units of records of other topics (spec: store §21).
bool is_light_unit(const QueueFiles& files, const proto::MessageView& m) {
  if (!files.topic.starts_with(kLightPrefix)) {
    return false;
  }
  const auto names = proto::find_property(m.properties, proto::prop::kInnerMultiDispatch);
  return names && names->find(files.topic) != std::string_view::npos;
}

}  // namespace

Finding Inspector::at_unit(const QueueFiles& files,
                           std::int64_t offset,
                           std::string_view kind) const {
  Finding f;
  f.kind = kind;
  const std::uint64_t pos = static_cast<std::uint64_t>(offset) * kUnitBytes;
  f.file = folder_.relative(files.units.path_of(pos));
  const SequenceFile* file = files.units.file_of(pos);
  f.position = file == nullptr ? 0 : pos - file->base;
  f.topic = files.topic;
  f.queue_id = files.id;
  f.queue_offset = offset;
  return f;
}

Result<> Inspector::walk_queues() {
  std::size_t seen = 0;
  std::size_t mapped_from = 0;
  for (const QueueFiles& files : folder_.queues()) {
    if (folder_.is_batch_queue(files.topic)) {
      continue;
    }
    QueueState& state = result_.queues[QueueKey(files.topic, files.id)];
    walk_queue(files, state);
    if (++seen % kMappedQueues == 0) {
      for (; mapped_from < seen && mapped_from < folder_.queues().size(); ++mapped_from) {
        folder_.queues()[mapped_from].units.unmap();
        folder_.queues()[mapped_from].ext.unmap();
      }
      if (!report_progress(total_bytes_)) {
        return Error{Errc::kCancelled, "stopped"};
      }
    }
  }
  return ok();
}

void Inspector::walk_queue(const QueueFiles& files, QueueState& state) {
  const Severity behind = lag();
  state.has_files = !files.units.empty();
  state.file_begin = queue_begin(files);
  state.file_end = state.expired_end = state.file_begin;
  previous_phys_ = -1;
  std::uint64_t pos = files.units.first_base();
  bool ended = false;
  for (const SequenceFile& file : files.units.files()) {
    if (file.base != pos || ended) {
      break;  // a hole: told already
    }
    const auto content = files.units.at(file.base);
    const std::uint64_t count = content.size() / kUnitBytes;
    for (std::uint64_t i = 0; i < count; ++i) {
      const Unit unit = store_format::load_unit(content.data() + i * kUnitBytes);
      if (unit.is_end()) {
        ended = true;
        break;
      }
      const auto offset = static_cast<std::int64_t>((file.base + i * kUnitBytes) / kUnitBytes);
      ++result_.units;
      state.file_end = offset + 1;
      check_unit(files, state, offset, unit);
    }
    pos = file.base + files.units.file_bytes();
    ended = ended || content.size() < files.units.file_bytes();
  }
  check_end(files, state);
  if (state.in_log && state.file_end < state.log_next) {
    Finding f = at_unit(files, state.file_end, "units-missing");
    f.severity = behind;
    f.text = fmt::format("the queue ends before offset {}, the log has messages to {}",
                         state.file_end,
                         state.log_next - 1);
    add(std::move(f));
    state.wrong = true;
  }
}

/// Why the unit does not belong to the record; empty if it does.
std::string Inspector::differs(const QueueFiles& files,
                               std::int64_t offset,
                               const Unit& unit,
                               const proto::MessageView& m) const {
  if (is_light_unit(files, m)) {
    return {};
  }
  if (m.topic != files.topic || m.queue_id != static_cast<std::int32_t>(files.id) ||
      m.queue_offset != offset) {
    return fmt::format("points at {}, the record of {}/{} offset {}",
                       unit.phys,
                       m.topic,
                       m.queue_id,
                       m.queue_offset);
  }
  if (static_cast<std::int32_t>(unit.bytes) != m.total_bytes) {
    return fmt::format(
        "says {} bytes, the record at {} has {}", unit.bytes, unit.phys, m.total_bytes);
  }
  const std::int64_t tags_code = options_.delays.tags_code(m);
  if (!store_format::is_ext_address(unit.tags_code)) {
    return unit.tags_code == tags_code
               ? std::string()
               : fmt::format("has tags code {}, that of the record at {} is {}",
                             unit.tags_code,
                             unit.phys,
                             tags_code);
  }
  const std::uint64_t at = store_format::ext_position_of(unit.tags_code);
  const auto ext = store_format::parse_ext_unit(files.ext.at(at));
  if (!ext) {
    return fmt::format("points at {} of the extension, where no unit is", at);
  }
  return ext->tags_code == tags_code && ext->store_ms == m.store_ms
             ? std::string()
             : fmt::format("points at {} of the extension, the unit of another message", at);
}

void Inspector::check_unit(const QueueFiles& files,
                           QueueState& state,
                           std::int64_t offset,
                           const Unit& unit) {
  const bool log_has_it = state.in_log && offset >= state.log_first && offset < state.log_next;
  const auto wrong = [&](std::string_view kind, Severity severity, std::string text) {
    Finding f = at_unit(files, offset, kind);
    f.severity = severity;
    f.phys = unit.is_filler() ? -1 : static_cast<std::int64_t>(unit.phys);
    f.text = std::move(text);
    add(std::move(f));
    state.wrong = true;
  };
  const bool so_far = state.expired_end == offset;
  if (unit.is_filler()) {
    const bool in_gap = std::any_of(state.gaps.begin(), state.gaps.end(), [&](const auto& gap) {
      return offset >= gap.first && offset < gap.second;
    });
    if (log_has_it && !in_gap) {
      wrong("unit-wrong", Severity::kError, "is filler, the log has the message");
    } else if (so_far && !log_has_it) {
      state.expired_end = offset + 1;
    }
    return;
  }
  if (static_cast<std::int64_t>(unit.phys) <= previous_phys_) {
    wrong("unit-order",
          Severity::kError,
          fmt::format("points at {}, not behind the unit before it", unit.phys));
  }
  previous_phys_ = static_cast<std::int64_t>(unit.phys);
  if (unit.phys < result_.log_min) {
    if (log_has_it) {
      wrong("unit-wrong",
            Severity::kError,
            fmt::format("points at {}, before the log begins; the log has the message", unit.phys));
    } else if (so_far) {
      state.expired_end = offset + 1;
    }
    return;
  }
  if (unit.phys >= result_.log_end) {
    if (!folder_.snapshot()) {
      wrong(
          "unit-beyond",
          lag(),
          fmt::format("points at {}, behind the end of the log at {}", unit.phys, result_.log_end));
    }
    return;
  }
  if (is_damaged(unit.phys)) {
    return;  // told where it is
  }
  proto::MessageView m;
  if (!read_record(folder_.log().at(unit.phys), unit.phys, m)) {
    wrong("unit-wrong",
          Severity::kError,
          fmt::format("points at {}, where no record begins", unit.phys));
    return;
  }
  std::string text = differs(files, offset, unit, m);
  if (text.empty()) {
    known_ = std::max(known_, unit.phys + unit.bytes);
    return;
  }
  // Delay levels are configured: with others the delivery times only look wrong.
  if (store::delay_level_of(m) > 0 && text.starts_with("has tags code")) {
    known_ = std::max(known_, unit.phys + unit.bytes);
    const bool was_wrong = state.wrong;
    wrong("delay-level", Severity::kWarning, text + " with these delay levels");
    state.wrong = was_wrong;
    return;
  }
  wrong("unit-wrong", Severity::kError, std::move(text));
}

/// Behind the end there must be nothing: after a crash it would come back (spec: store §13.3).
void Inspector::check_end(const QueueFiles& files, QueueState& state) {
  const std::uint64_t end = static_cast<std::uint64_t>(state.file_end) * kUnitBytes;
  if (files.units.empty() || folder_.snapshot() || files.units.file_of(end) == nullptr) {
    return;
  }
  const std::uint64_t data = files.units.data_end(end);
  if (data > end) {
    Finding f = at_unit(files, state.file_end, "units-stale");
    f.severity = Severity::kWarning;
    f.text = fmt::format("{} bytes of earlier units lie behind the end of the queue", data - end);
    add(std::move(f));
    state.wrong = true;
  }
}

void Inspector::missing_queues() {
  for (auto& entry : result_.queues) {
    const QueueKey& key = entry.first;
    QueueState& state = entry.second;
    if (folder_.find_queue(key.first, key.second) != nullptr || folder_.is_batch_queue(key.first)) {
      continue;
    }
    Finding f;
    f.severity = lag();
    f.kind = "queue-missing";
    f.file = fmt::format("consumequeue/{}/{}", key.first, key.second);
    f.topic = key.first;
    f.queue_id = key.second;
    f.queue_offset = state.log_first;
    f.text = fmt::format("the queue is missing; the log has {} messages of it", state.records);
    add(std::move(f));
    state.wrong = true;
  }
}

}  // namespace tenon::store_tool
