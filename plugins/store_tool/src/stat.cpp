#include "tenon/store_tool/stat.h"

#include "tenon/store_format/names.h"
#include "tenon/store_tool/log_walk.h"

#include <algorithm>

#include <sys/stat.h>

namespace tenon::store_tool {

namespace {

std::uint64_t blocks_of(const Sequence& sequence, std::uint64_t& bytes) {
  std::uint64_t blocks = 0;
  for (const SequenceFile& f : sequence.files()) {
    bytes += f.bytes;
    struct stat st {};
    const std::string path = sequence.path_of(f);
    if (::stat(path.c_str(), &st) == 0) {
      blocks += static_cast<std::uint64_t>(st.st_blocks) * 512;
    }
  }
  return blocks;
}

/// First unit in [begin, end) of a record at or behind log_min. Filler counts as what follows it.
std::int64_t first_readable(const QueueFiles& queue,
                            std::int64_t begin,
                            std::int64_t end,
                            std::uint64_t log_min) {
  std::int64_t low = begin;
  std::int64_t high = end;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    std::int64_t seen = middle;
    std::uint64_t phys = ~std::uint64_t{0};
    for (; seen < high; ++seen) {
      const auto unit = unit_at(queue, seen);
      if (unit && !unit->is_filler()) {
        phys = unit->phys;
        break;
      }
    }
    if (phys < log_min) {
      low = seen + 1;
    } else {
      high = middle;
    }
  }
  // Filler has no message.
  for (; low < end; ++low) {
    const auto unit = unit_at(queue, low);
    if (unit && !unit->is_filler()) {
      break;
    }
  }
  return low;
}

void stat_log(const Folder& folder, Stat& stat) {
  const Sequence& log = folder.log();
  stat.log_min = stat.log_end = log.first_base();
  proto::MessageView m;
  if (!log.empty() && read_record(log.at(log.first_base()), log.first_base(), m)) {
    stat.first_store_ms = m.store_ms;
  }
  const auto& files = log.files();
  for (auto f = files.rbegin(); f != files.rend(); ++f) {
    if (!read_record(log.at(f->base), f->base, m)) {
      continue;
    }
    LogWalk walk(log, f->base, false);
    Frame frame;
    while (walk.next(frame)) {
      if (frame.kind == Frame::Kind::kRecord) {
        stat.last_store_ms = frame.record.store_ms;
      }
    }
    stat.log_end = walk.end();
    return;
  }
}

}  // namespace

std::uint64_t TopicStat::messages() const noexcept {
  std::uint64_t n = 0;
  for (const QueueStat& queue : queues) {
    n += static_cast<std::uint64_t>(queue.max_offset - queue.min_offset);
  }
  return n;
}

Stat stat_of(const Folder& folder) {
  Stat stat;
  std::uint64_t log_bytes = 0;
  stat.disk_bytes = blocks_of(folder.log(), log_bytes);
  stat_log(folder, stat);
  for (const QueueFiles& queue : folder.queues()) {
    if (stat.topics.empty() || stat.topics.back().topic != queue.topic) {
      stat.topics.push_back({queue.topic, {}});
    }
    QueueStat q;
    q.id = queue.id;
    q.max_offset = queue_end(queue);
    q.min_offset = first_readable(queue, queue_begin(queue), q.max_offset, stat.log_min);
    stat.topics.back().queues.push_back(q);
    stat.disk_bytes += blocks_of(queue.units, stat.queue_bytes);
    stat.disk_bytes += blocks_of(queue.ext, stat.ext_bytes);
    queue.units.unmap();
  }
  for (const IndexFileView& view : folder.index()) {
    stat.index_items += view.items();
    stat.index_bytes += view.file->bytes().size();
    struct stat st {};
    const std::string path = store_format::index_folder(folder.root()) + "/" + view.name;
    if (::stat(path.c_str(), &st) == 0) {
      stat.disk_bytes += static_cast<std::uint64_t>(st.st_blocks) * 512;
    }
  }
  return stat;
}

}  // namespace tenon::store_tool
