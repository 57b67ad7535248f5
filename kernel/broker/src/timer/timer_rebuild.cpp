#include "timer/timer_rebuild.h"

#include "timer/timer_rules.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/proto/properties.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

namespace tenon::broker {
namespace {

constexpr std::uint32_t kReadBytes = 1u << 20;
constexpr std::uint32_t kReadBytesMax = 64u << 20;

/// Entries of the queue on the way to being pending.
class Collector {
 public:
  Collector(const std::optional<TimerCheck>& foreign, std::int64_t roll_ms)
      : foreign_(foreign),
        roll_ms_(roll_ms) {}

  void take(const TimerQueue::Item& item) {
    if (item.message == nullptr) {
      return;
    }
    const proto::MessageView& m = *item.message;
    const auto record = read_timer_record(m.properties, m.store_ms);
    if (!record) {
      log_warn("broker", "timer message without a time offset={}", item.offset);
      return;
    }
    if (foreign_) {
      // Trap: a 5.x broker stores a far message again every two days and leaves the older record
      // as it is (store §19): only the latest one counts.
      if (record->roll_times > 0 && !ended_entry(m.prepared_offset)) {
        if (const auto older = latest_.find(identity(m, *record)); older != latest_.end()) {
          ended.push_back(older->second);
        }
      }
      latest_[identity(m, *record)] = item.offset;
      if (item.offset < foreign_->queue_offset &&
          record->out_ms / kSlotMs * kSlotMs < foreign_->read_ms) {
        return;  // its slot is done
      }
    }
    entries.push_back({look_at_ms(*record, m.store_ms, roll_ms_), item.offset});
  }

  std::vector<TimerEntry> entries{};
  std::vector<std::int64_t> ended{};

 private:
  static std::size_t identity(const proto::MessageView& m, const TimerRecord& r) {
    const std::hash<std::string_view> hash;
    const auto text = [&](std::string_view name) {
      return hash(proto::find_property(m.properties, name).value_or(""));
    };
    return text(proto::prop::kUniqKey) * 31 + text(proto::prop::kRealTopic) * 17 +
           hash(r.recalled) + static_cast<std::size_t>(r.out_ms);
  }

  const std::optional<TimerCheck>& foreign_;
  const std::int64_t roll_ms_;
  std::unordered_map<std::size_t, std::int64_t> latest_{};
};

/// Walks the records of one piece of the log. @return bytes of whole records
std::size_t walk(std::span<const std::byte> bytes, std::vector<std::int64_t>& ended) {
  std::size_t at = 0;
  while (bytes.size() - at >= 8) {
    const auto size = load_be<std::uint32_t>(bytes.data() + at);
    const auto magic = load_be<std::int32_t>(bytes.data() + at + 4);
    if (magic == proto::kBlankMagic) {
      return size > bytes.size() - at ? bytes.size() : at + std::max(size, 8u);
    }
    if (size < 8 || size > bytes.size() - at) {
      return at;
    }
    if (const auto m = proto::decode_message(bytes.subspan(at, size)); m.has_value()) {
      if (const auto origin = ended_entry(m.value().prepared_offset)) {
        ended.push_back(*origin);
      }
    }
    at += size;
  }
  return at;
}

/// Collects the entries that records in [from, end of the log) end.
void scan_log(Log& log,
              std::uint64_t from,
              std::vector<std::int64_t>& ended,
              const std::atomic<bool>& cancel) {
  const auto& storage = log.storage();
  const tenon_log_bounds bounds = log.log_bounds();
  std::uint64_t at = std::max(from, bounds.min_phys);
  std::uint32_t wanted = kReadBytes;
  while (at < bounds.frame_end && !cancel.load(std::memory_order_relaxed)) {
    tenon_view view{};
    tenon_hold hold{};
    const tenon_status status =
        storage->read_log(storage.self, at, wanted, 0, &view, &hold, nullptr);
    std::size_t done = 0;
    std::size_t got = 0;
    if (status >= 0 && view.ptr != nullptr) {
      got = view.len;
      done = walk({reinterpret_cast<const std::byte*>(view.ptr), got}, ended);
    }
    if (hold.release != nullptr) {
      hold.release(hold.owner, hold.id);
    }
    if (done == 0 && got == wanted && wanted < kReadBytesMax) {
      wanted *= 2;  // a record longer than the piece
      continue;
    }
    if (done == 0) {
      log_error("broker",
                "the log is not readable, timer messages may come twice phys={} status={}",
                at,
                status);
      return;
    }
    wanted = kReadBytes;
    at += done;
  }
}

/// Removes the entries whose offset is in `ended`.
void subtract(std::vector<TimerEntry>& entries, std::vector<std::int64_t>& ended) {
  std::sort(ended.begin(), ended.end());
  std::erase_if(entries, [&](const TimerEntry& e) {
    return std::binary_search(ended.begin(), ended.end(), e.offset);
  });
}

std::uint64_t first_phys(TimerQueue& queue, std::int64_t min_offset) {
  std::uint64_t phys = 0;
  const std::int64_t at[] = {min_offset};
  queue.look_up(at, [&](std::span<const TimerQueue::Item> items) { phys = items[0].phys; });
  return phys;
}

}  // namespace

TimerRebuild rebuild_timers(Log& log,
                            TimerQueue& queue,
                            std::optional<TimerPending> snapshot,
                            const std::optional<TimerCheck>& check,
                            std::int64_t roll_ms,
                            const std::atomic<bool>& cancel) {
  const tenon_queue_bounds bounds = queue.bounds();
  const tenon_log_bounds log_bounds = log.log_bounds();
  TimerRebuild result;
  if (snapshot && check && !snapshot->matches(*check)) {
    log_info("broker", "another broker has run on this store, timer messages are searched anew");
    snapshot.reset();
  }
  if (snapshot && (snapshot->read_offset > bounds.max_offset ||
                   snapshot->log_position > log_bounds.frame_end)) {
    log_warn("broker", "config/timerPending is of another store, timer messages are searched anew");
    snapshot.reset();
  }
  result.foreign = !snapshot && check.has_value();
  const std::optional<TimerCheck> foreign = snapshot ? std::nullopt : check;
  Collector found(foreign, roll_ms);
  std::int64_t at = bounds.min_offset;
  std::uint64_t log_from = 0;
  if (snapshot) {
    found.entries = std::move(snapshot->entries);
    at = std::max(at, snapshot->read_offset);
    log_from = snapshot->log_position;
  } else if (bounds.max_offset > bounds.min_offset) {
    log_from = first_phys(queue, bounds.min_offset);
  }
  while (at < bounds.max_offset && !cancel.load(std::memory_order_relaxed)) {
    const std::int64_t next = queue.read(at, [&](std::span<const TimerQueue::Item> items) {
      std::for_each(items.begin(), items.end(), [&](const auto& item) { found.take(item); });
    });
    if (next == at) {
      break;
    }
    at = next;
  }
  result.read_offset = at;
  std::erase_if(found.entries, [&](const TimerEntry& e) { return e.offset < bounds.min_offset; });
  if (!found.entries.empty()) {
    scan_log(log, log_from, found.ended, cancel);
    subtract(found.entries, found.ended);
  }
  result.entries = std::move(found.entries);
  return result;
}

}  // namespace tenon::broker
