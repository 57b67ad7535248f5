#include "pull/pull_engine.h"

#include "tenon/proto/message.h"

#include <algorithm>
#include <array>

#include <unistd.h>

namespace tenon::broker {
namespace {

/// Index entries looked at by one pull: max(16000, 20 * wanted) bytes of 20-byte units, and no more
/// than this however much a client wants.
constexpr std::int64_t kEntriesMin = 800;
constexpr std::int64_t kEntriesMax = 16'384;
/// Entries whose messages are read together to ask an expression filter.
constexpr std::size_t kDecideChunk = 64;

std::uint64_t physical_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page <= 0) {
    return 24ull << 30;
  }
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
}

void release_hold(tenon_hold& hold) noexcept {
  if (hold.release != nullptr) {
    hold.release(hold.owner, hold.id);
  }
  hold = {};
}

/// Releases on scope exit.
struct HoldGuard {
  tenon_hold hold{};
  HoldGuard() = default;
  HoldGuard(const HoldGuard&) = delete;
  HoldGuard& operator=(const HoldGuard&) = delete;
  ~HoldGuard() { release_hold(hold); }
};

PullStatus status_of(tenon_status code) noexcept {
  switch (static_cast<Errc>(code)) {
    case Errc::kNotFound:
      return PullStatus::kNoMatchedLogicQueue;
    case Errc::kEmpty:
      return PullStatus::kNoMessageInQueue;
    case Errc::kRangeLow:
      return PullStatus::kOffsetTooSmall;
    case Errc::kRangeEnd:
      return PullStatus::kOffsetOverflowOne;
    case Errc::kRangeHigh:
      return PullStatus::kOffsetOverflowBadly;
    default:
      return PullStatus::kOffsetFoundNull;
  }
}

bool is_range_code(tenon_status code) noexcept {
  return code >= static_cast<tenon_status>(Errc::kGap) &&
         code <= static_cast<tenon_status>(Errc::kNotFound);
}

}  // namespace

std::string_view to_string(PullStatus status) noexcept {
  switch (status) {
    case PullStatus::kFound:
      return "FOUND";
    case PullStatus::kNoMatchedMessage:
      return "NO_MATCHED_MESSAGE";
    case PullStatus::kMessageWasRemoving:
      return "MESSAGE_WAS_REMOVING";
    case PullStatus::kOffsetFoundNull:
      return "OFFSET_FOUND_NULL";
    case PullStatus::kOffsetOverflowBadly:
      return "OFFSET_OVERFLOW_BADLY";
    case PullStatus::kOffsetOverflowOne:
      return "OFFSET_OVERFLOW_ONE";
    case PullStatus::kOffsetTooSmall:
      return "OFFSET_TOO_SMALL";
    case PullStatus::kNoMatchedLogicQueue:
      return "NO_MATCHED_LOGIC_QUEUE";
    case PullStatus::kNoMessageInQueue:
      return "NO_MESSAGE_IN_QUEUE";
  }
  return "";
}

void PullResult::release() noexcept {
  release_hold(hold);
}

/// Scratch of one read; the arrays keep their memory from call to call.
struct PullEngine::Scan {
  std::vector<tenon_index_entry> entries{};
  std::vector<std::uint8_t> verdicts{};
  std::vector<tenon_extent> extents{};
  std::vector<tenon_extent> asked{};
  std::vector<tenon_view> views{};
  std::vector<tenon_bytes> properties{};
  std::vector<std::size_t> asked_at{};
  std::size_t n = 0;
  std::size_t looked_at = 0;  ///< entries consumed
  std::size_t bytes = 0;
  std::uint64_t end = 0;        ///< of the log
  std::uint64_t last_phys = 0;  ///< of the last entry looked at, the one that did not fit included
  bool full = false;
  bool cold = false;  ///< a filter needs messages that are not in memory
};

PullEngine::PullEngine(const BrokerConfig& config, const Log& log)
    : config_(config),
      log_(log),
      memory_bytes_((config.memory_bytes != 0 ? config.memory_bytes : physical_memory()) / 100 *
                    config.memory_ratio_pct) {}

bool PullEngine::is_cold(std::uint64_t phys) const noexcept {
  const std::uint64_t end = log_.log_bounds().end;
  return end > phys && end - phys > memory_bytes_;
}

void PullEngine::read(const PullRead& request, PullResult& out) const {
  const tenon_queue_bounds bounds = log_.bounds(request.queue);
  out.min_offset = bounds.min_offset;
  out.max_offset = bounds.max_offset;

  thread_local Scan scan_memory;
  Scan& scan = scan_memory;
  const auto cap = static_cast<std::size_t>(
      std::clamp<std::int64_t>(request.max_count, kEntriesMin, kEntriesMax));
  if (scan.entries.size() < cap) {
    scan.entries.resize(cap);
    scan.verdicts.resize(cap);
  }
  HoldGuard index_hold;
  std::int64_t gap_next = request.offset;
  scan.n = 0;
  const auto& storage = log_.storage();
  const tenon_status code = request.queue == 0 ? static_cast<tenon_status>(Errc::kNotFound)
                                               : storage->index_read(storage.self,
                                                                     request.queue,
                                                                     request.offset,
                                                                     scan.entries.data(),
                                                                     sizeof(tenon_index_entry),
                                                                     cap,
                                                                     &scan.n,
                                                                     &gap_next,
                                                                     &index_hold.hold);
  if (code >= 0 && scan.n > 0) {
    this->scan(request, scan, out);
    return;
  }
  if (code < 0 && !is_range_code(code)) {
    out.failed = true;
    return;
  }
  out.status = code >= 0 ? PullStatus::kOffsetOverflowOne : status_of(code);
  switch (out.status) {
    case PullStatus::kNoMatchedLogicQueue:
    case PullStatus::kNoMessageInQueue:
      out.next_offset = 0;
      break;
    case PullStatus::kOffsetTooSmall:
      out.next_offset = out.min_offset;
      break;
    case PullStatus::kOffsetOverflowBadly:
      out.next_offset = out.max_offset;
      break;
    case PullStatus::kOffsetFoundNull:
      out.next_offset = std::max(gap_next, request.offset);
      break;
    default:
      out.next_offset = request.offset;
      break;
  }
}

void PullEngine::scan(const PullRead& request, Scan& scan, PullResult& out) const {
  scan.extents.clear();
  scan.looked_at = 0;
  scan.bytes = 0;
  scan.full = false;
  scan.cold = false;
  scan.end = log_.log_bounds().end;
  scan.last_phys = scan.entries[0].phys;
  if (request.filter != nullptr) {
    request.filter->match_index(scan.entries.data(), scan.n, scan.verdicts.data());
  } else {
    std::fill_n(scan.verdicts.begin(), scan.n, std::uint8_t{Filter::kYes});
  }

  for (std::size_t begin = 0; begin < scan.n && !scan.full; begin += kDecideChunk) {
    const std::size_t end = std::min(begin + kDecideChunk, scan.n);
    if (request.filter != nullptr && !decide(request, scan, begin, end)) {
      out.need_worker = true;
      return;
    }
    for (std::size_t i = begin; i < end && take(request, scan, i); ++i) {
      ++scan.looked_at;
    }
  }
  out.next_offset = request.offset + static_cast<std::int64_t>(scan.looked_at);
  out.max_offset = std::max(out.max_offset, out.next_offset);
  out.suggest_slave = scan.end > scan.last_phys && scan.end - scan.last_phys > memory_bytes_;
  if (scan.extents.empty()) {
    out.status = PullStatus::kNoMatchedMessage;
    return;
  }
  fetch(request, scan, out);
}

/// Asks the filter about messages it could not judge by the index. False: not in memory.
bool PullEngine::decide(const PullRead& request,
                        Scan& scan,
                        std::size_t begin,
                        std::size_t end) const {
  scan.asked.clear();
  scan.asked_at.clear();
  for (std::size_t i = begin; i < end; ++i) {
    if (scan.verdicts[i] == Filter::kUndecided) {
      scan.asked.push_back({scan.entries[i].phys, scan.entries[i].bytes, 0});
      scan.asked_at.push_back(i);
    }
  }
  if (scan.asked.empty()) {
    return true;
  }
  scan.views.assign(scan.asked.size(), tenon_view{});
  scan.properties.assign(scan.asked.size(), tenon_bytes{});
  HoldGuard guard;
  std::uint64_t next_file = 0;
  const auto& storage = log_.storage();
  const tenon_status code =
      storage->fetch(storage.self,
                     scan.asked.data(),
                     scan.asked.size(),
                     request.may_block ? 0u : std::uint32_t{TENON_FETCH_NO_FAULT},
                     scan.views.data(),
                     sizeof(tenon_view),
                     &next_file,
                     &guard.hold,
                     nullptr);
  for (std::size_t k = 0; k < scan.asked.size(); ++k) {
    const tenon_view& view = scan.views[k];
    if (!request.may_block && (view.flags & TENON_COLD) != 0) {
      return false;
    }
    if (code < 0 || view.ptr == nullptr) {
      continue;
    }
    const auto record = proto::decode_message(
        {reinterpret_cast<const std::byte*>(view.ptr), std::size_t{view.len}});
    if (record.has_value()) {
      scan.properties[k] = {reinterpret_cast<const std::uint8_t*>(record.value().properties.data()),
                            record.value().properties.size()};
    }
  }
  std::array<std::uint8_t, kDecideChunk> verdicts{};
  request.filter->match_properties(scan.properties.data(), scan.properties.size(), verdicts.data());
  for (std::size_t k = 0; k < scan.asked_at.size(); ++k) {
    scan.verdicts[scan.asked_at[k]] =
        verdicts[k] == Filter::kYes ? std::uint8_t{Filter::kYes} : std::uint8_t{Filter::kNo};
  }
  return true;
}

/// False if the batch is full: the entry is not consumed. The first message always fits.
bool PullEngine::take(const PullRead& request, Scan& scan, std::size_t i) const {
  const tenon_index_entry& entry = scan.entries[i];
  scan.last_phys = entry.phys;
  const std::size_t count = scan.extents.size();
  if (count > 0) {
    const bool cold = scan.end > entry.phys && scan.end - entry.phys > memory_bytes_;
    const std::size_t count_max = cold ? config_.pull_count_disk : config_.pull_count_memory;
    std::size_t bytes_max = cold ? config_.pull_bytes_disk : config_.pull_bytes_memory;
    if (request.max_bytes > 0) {
      bytes_max = std::min(bytes_max, static_cast<std::size_t>(request.max_bytes));
    }
    if (static_cast<std::int64_t>(count) >= request.max_count || count >= count_max ||
        scan.bytes + entry.bytes > bytes_max) {
      scan.full = true;
      return false;
    }
  }
  if (scan.verdicts[i] == Filter::kYes) {
    scan.extents.push_back({entry.phys, entry.bytes, 0});
    scan.bytes += entry.bytes;
  }
  return true;
}

void PullEngine::fetch(const PullRead& request, Scan& scan, PullResult& out) const {
  out.views.assign(scan.extents.size(), tenon_view{});
  std::uint64_t next_file = 0;
  const auto& storage = log_.storage();
  const tenon_status code =
      storage->fetch(storage.self,
                     scan.extents.data(),
                     scan.extents.size(),
                     request.may_block ? 0u : std::uint32_t{TENON_FETCH_NO_FAULT},
                     out.views.data(),
                     sizeof(tenon_view),
                     &next_file,
                     &out.hold,
                     nullptr);
  if (code < 0) {
    out.failed = true;
    return;
  }
  std::size_t kept = 0;
  for (const tenon_view& view : out.views) {
    if (!request.may_block && (view.flags & TENON_COLD) != 0) {
      out.release();
      out.need_worker = true;
      return;
    }
    if (view.ptr == nullptr) {
      continue;
    }
    out.bytes += view.len;
    out.views[kept++] = view;
  }
  out.views.resize(kept);
  out.count = static_cast<std::uint32_t>(kept);
  out.status = kept > 0 ? PullStatus::kFound : PullStatus::kMessageWasRemoving;
}

}  // namespace tenon::broker
