#include "tenon/store_tool/dump.h"

#include "tenon/store/record.h"

#include <algorithm>
#include <set>
#include <vector>

namespace tenon::store_tool {

namespace {

constexpr std::uint64_t kProgressFrames = 4096;

bool queue_wanted(const Filter& filter, const QueueFiles& queue) {
  return (filter.topic.empty() || queue.topic == filter.topic) &&
         (!filter.queue_id || *filter.queue_id == queue.id);
}

/// Calls use(offset, unit) for the units of a queue in the wanted range until it returns false.
template <class Use>
bool for_each_unit(const QueueFiles& queue, const Filter& filter, Use&& use) {
  const std::int64_t end = queue_end(queue);
  const std::int64_t stop = filter.to_offset < end ? filter.to_offset + 1 : end;
  for (std::int64_t offset = std::max(filter.from_offset, queue_begin(queue)); offset < stop;
       ++offset) {
    const auto unit = unit_at(queue, offset);
    if (unit && !use(offset, *unit)) {
      return false;
    }
  }
  return true;
}

/// Passes on what is wanted, up to the limit.
class Taker {
 public:
  Taker(const Filter& filter, const MessageSink& sink)
      : filter_(filter),
        sink_(sink) {}
  /// False: no more.
  bool take(const proto::MessageView& m) {
    if (count_ >= filter_.max) {
      return false;
    }
    if (!matches(filter_, m)) {
      return true;
    }
    ++count_;
    return sink_(m) && count_ < filter_.max;
  }
  std::uint64_t count() const { return count_; }

 private:
  const Filter& filter_;
  const MessageSink& sink_;
  std::uint64_t count_ = 0;
};

void by_index(const Folder& folder, const Filter& filter, Taker& taker) {
  std::set<std::uint64_t> places;
  dump_index(folder, filter, [&](const IndexLine& line) {
    places.insert(line.item.phys);
    return true;
  });
  for (const std::uint64_t phys : places) {
    proto::MessageView m;
    if (read_record(folder.log().at(phys), phys, m) && !taker.take(m)) {
      return;
    }
  }
}

void by_queues(const Folder& folder, const Filter& filter, Taker& taker) {
  for (const QueueFiles& queue : folder.queues()) {
    if (!queue_wanted(filter, queue)) {
      continue;
    }
    const bool more =
        for_each_unit(queue, filter, [&](std::int64_t, const store_format::Unit& unit) {
          proto::MessageView m;
          return unit.is_filler() || !read_record(folder.log().at(unit.phys), unit.phys, m) ||
                 taker.take(m);
        });
    queue.units.unmap();
    if (!more) {
      return;
    }
  }
}

void by_log(const Folder& folder, const ProgressSink& progress, Taker& taker) {
  const Sequence& log = folder.log();
  LogWalk walk(log, log.first_base(), false);
  Frame frame;
  std::uint64_t frames = 0;
  while (walk.next(frame)) {
    if (frame.kind == Frame::Kind::kRecord && !taker.take(frame.record)) {
      return;
    }
    if (++frames % kProgressFrames == 0 && progress &&
        !progress(frame.at - log.first_base(), log.last_end() - log.first_base())) {
      return;
    }
  }
}

}  // namespace

bool matches(const Filter& filter, const proto::MessageView& m) {
  if ((!filter.topic.empty() && m.topic != filter.topic) ||
      (filter.queue_id && m.queue_id != static_cast<std::int32_t>(*filter.queue_id)) ||
      m.queue_offset < filter.from_offset || m.queue_offset > filter.to_offset ||
      m.store_ms < filter.from_ms || m.store_ms > filter.to_ms) {
    return false;
  }
  if (filter.key.empty()) {
    return true;
  }
  bool found = false;
  store::for_each_key(m, [&](std::string_view key) { found = found || key == filter.key; });
  return found;
}

std::uint64_t dump_messages(const Folder& folder,
                            const Filter& filter,
                            const MessageSink& sink,
                            const ProgressSink& progress) {
  Taker taker(filter, sink);
  if (!filter.scan && !filter.topic.empty() && !filter.key.empty() && !folder.index().empty()) {
    by_index(folder, filter, taker);
  } else if (!filter.scan && !filter.topic.empty()) {
    by_queues(folder, filter, taker);
  } else {
    by_log(folder, progress, taker);
  }
  return taker.count();
}

std::uint64_t dump_units(const Folder& folder,
                         const Filter& filter,
                         const std::function<bool(const UnitLine&)>& sink) {
  std::uint64_t count = 0;
  for (const QueueFiles& queue : folder.queues()) {
    if (!queue_wanted(filter, queue)) {
      continue;
    }
    const bool more =
        for_each_unit(queue, filter, [&](std::int64_t offset, const store_format::Unit& unit) {
          if (count >= filter.max) {
            return false;
          }
          UnitLine line{&queue, offset, unit, std::nullopt};
          if (store_format::is_ext_address(unit.tags_code)) {
            line.ext = store_format::parse_ext_unit(
                queue.ext.at(store_format::ext_position_of(unit.tags_code)));
          }
          ++count;
          return sink(line);
        });
    queue.units.unmap();
    queue.ext.unmap();
    if (!more) {
      break;
    }
  }
  return count;
}

std::uint64_t dump_index(const Folder& folder,
                         const Filter& filter,
                         const std::function<bool(const IndexLine&)>& sink) {
  std::string scratch;
  const bool by_key = !filter.topic.empty() && !filter.key.empty();
  const std::int32_t hash = by_key ? store::key_hash(filter.topic, filter.key, scratch) : 0;
  const store_format::IndexShape shape = folder.index_shape();
  std::uint64_t count = 0;
  for (const IndexFileView& view : folder.index()) {
    const std::uint8_t* content = view.file->bytes().data();
    for (std::uint32_t i = 1; i < view.header.next_item; ++i) {
      const auto item = store_format::load_index_item(content + shape.item_at(i));
      const std::int64_t ms = view.header.begin_ms + std::int64_t{item.seconds} * 1000;
      // Times are rounded down to seconds and the first of a file may be off: wider than asked.
      const bool in_time = by_key || (ms + 1000 >= filter.from_ms && ms <= filter.to_ms);
      if ((by_key && item.hash != hash) || !in_time) {
        continue;
      }
      if (count >= filter.max && !by_key) {
        return count;
      }
      ++count;
      const std::uint32_t slot = item.hash < 0 ? 0 : shape.slot_of(item.hash);
      if (!sink({&view, i, slot, item, ms})) {
        return count;
      }
    }
  }
  return count;
}

}  // namespace tenon::store_tool
