// What is undecided after a start: op records and halves from the saved positions on, and committed
// messages whose op record was lost with the process.
#include "txn/txn_service.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/proto/properties.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace tenon::broker {
namespace {

using namespace std::chrono_literals;

constexpr auto kIndexWait = 60s;
/// How far back a commit can lie whose op record was still to be written.
constexpr std::uint64_t kWalkBytes = 64u * 1024 * 1024;
constexpr std::uint32_t kPieceBytes = 1u * 1024 * 1024;
constexpr std::uint32_t kRecordBytesMin = 91;
constexpr std::uint32_t kBlankBytesMin = 8;

proto::TopicConfig one_queue(std::string_view name) {
  proto::TopicConfig config;
  config.name = name;
  config.read_queue_count = 1;
  config.write_queue_count = 1;
  return config;
}

}  // namespace

Result<> TxnService::load() {
  half_topic_owner_ = d_.topics.add_if_absent(one_queue(kHalfTopic));
  half_topic_ = half_topic_owner_.get();
  d_.topics.add_if_absent(one_queue(kOpTopic));
  TENON_TRY(wait_for_index());

  const tenon_queue_bounds halves = d_.log.bounds(d_.log.open_queue(kHalfTopic, 0));
  const tenon_queue_bounds ops = d_.log.bounds(d_.log.open_queue(kOpTopic, 0));
  const auto saved = [this](std::string_view topic, const tenon_queue_bounds& bounds) {
    return std::clamp(
        d_.offsets.query(kTransactionGroup, topic, 0), bounds.min_offset, bounds.max_offset);
  };
  const std::int64_t half_from = saved(kHalfTopic, halves);
  const std::int64_t op_from = saved(kOpTopic, ops);
  const std::scoped_lock lock(mutex_);
  table_.reset(half_from, op_from);
  waiting_ops_.clear();
  due_ = saved_ = {};
  load_ops(op_from);
  const ByPhys undecided = load_halves(half_from, halves.max_offset);
  table_.linked();
  loaded_ = true;
  if (!undecided.empty()) {
    find_commits_without_op(undecided);
    log_info("broker",
             "records of undecided transactions read count={} floor={} op_floor={}",
             undecided.size(),
             table_.floor(),
             table_.op_floor());
  }
  return ok();
}

/// The index of the queues may follow the log for a while after a recovery.
Result<> TxnService::wait_for_index() const {
  const auto deadline = std::chrono::steady_clock::now() + kIndexWait;
  for (;;) {
    const tenon_log_bounds bounds = d_.log.log_bounds();
    if (bounds.dispatched >= std::min(bounds.end, bounds.visible_limit)) {
      return ok();
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return Error{Errc::kTimeout,
                   "the queues of the store do not catch up with its log, so it is unknown which "
                   "transactions are undecided; look for disk errors in the log and start again"};
    }
    std::this_thread::sleep_for(1ms);
  }
}

void TxnService::load_ops(std::int64_t from) {
  const tenon_queue queue = d_.log.open_queue(kOpTopic, 0);
  QueueSlice slice;
  Records records(d_.log);
  std::array<tenon_extent, QueueSlice::kMax> extents{};
  std::vector<std::int64_t> offsets;
  while (read_entries(d_.log, queue, from, slice)) {
    for (std::size_t i = 0; i < slice.n; ++i) {
      extents[i] = {slice.entries[i].phys, slice.entries[i].bytes, 0};
    }
    records.fetch({extents.data(), slice.n});
    for (std::size_t i = 0; i < slice.n; ++i) {
      const std::int64_t at = slice.first + static_cast<std::int64_t>(i);
      offsets.clear();
      if (const auto op = records.record(i);
          op && proto::find_property(op->properties, proto::prop::kTags) == "d" &&
          !parse_op_body(as_text(op->body), offsets)) {
        log_warn("broker", "op record of a transaction is damaged queue_offset={}", at);
      }
      table_.op_read(at, offsets);
    }
    from = slice.first + static_cast<std::int64_t>(slice.n);
  }
}

TxnService::ByPhys TxnService::load_halves(std::int64_t from, std::int64_t end) {
  const tenon_queue queue = d_.log.open_queue(kHalfTopic, 0);
  ByPhys undecided;
  QueueSlice slice;
  Records records(d_.log);
  std::array<tenon_extent, QueueSlice::kMax> extents{};
  while (from < end && read_entries(d_.log, queue, from, slice)) {
    for (std::size_t i = 0; i < slice.n; ++i) {
      extents[i] = {slice.entries[i].phys, slice.entries[i].bytes, 0};
    }
    records.fetch({extents.data(), slice.n});
    for (std::size_t i = 0; i < slice.n; ++i) {
      const auto record = records.record(i);
      const auto half = record ? read_half(*record) : std::nullopt;
      if (!half) {
        continue;  // the next round reports it
      }
      const std::int64_t at = slice.first + static_cast<std::int64_t>(i);
      table_.half_read(at, half->root, half->checks > 0 ? half->uniq_key : std::string_view{});
      if (table_.undecided(at)) {
        undecided[record->phys_offset] = half->root;
      }
    }
    from = slice.first + static_cast<std::int64_t>(slice.n);
  }
  return undecided;
}

std::uint64_t TxnService::walk_start(std::uint64_t end) const {
  const std::uint64_t wanted = end > kWalkBytes ? end - kWalkBytes : 0;
  std::uint64_t start = end;
  for (const std::string_view topic : {kHalfTopic, kOpTopic}) {
    const tenon_queue queue = d_.log.open_queue(topic, 0);
    const tenon_queue_bounds bounds = d_.log.bounds(queue);
    std::int64_t low = bounds.min_offset;
    std::int64_t high = bounds.max_offset;
    QueueSlice slice;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (!read_entries(d_.log, queue, middle, slice)) {
        high = middle;
      } else if (slice.entries[0].phys < wanted) {
        low = middle + 1;
      } else {
        start = std::min(start, slice.entries[0].phys);
        high = middle;
      }
    }
  }
  return start;
}

void TxnService::find_commits_without_op(const ByPhys& undecided) {
  const std::uint64_t end = d_.log.log_bounds().end;
  for (std::uint64_t phys = walk_start(end); phys < end;) {
    const std::uint64_t next = walk(phys, undecided);
    if (next <= phys) {
      return;
    }
    phys = next;
  }
}

/// Looks at the whole records of one piece of the log. @return where the next piece begins
std::uint64_t TxnService::walk(std::uint64_t phys, const ByPhys& undecided) {
  Records piece(d_.log);
  std::span<const std::byte> bytes = piece.fetch_raw(phys, kPieceBytes);
  if (bytes.size() >= 4) {
    const auto first = load_be<std::uint32_t>(bytes.data());
    if (first > bytes.size() && first <= 64 * kPieceBytes) {
      bytes = piece.fetch_raw(phys, first);
    }
  }
  while (bytes.size() >= kBlankBytesMin) {
    const auto size = load_be<std::uint32_t>(bytes.data());
    const auto magic = load_be<std::int32_t>(bytes.data() + 4);
    if (size < kBlankBytesMin || size > bytes.size()) {
      // A filler reaches to the end of its file, which may lie behind this piece.
      return magic == proto::kBlankMagic && size > bytes.size() ? phys + size : phys;
    }
    if (magic != proto::kBlankMagic && size >= kRecordBytesMin) {
      const auto flag = load_be<std::int32_t>(bytes.data() + proto::kRecordSysFlagAt);
      if ((flag & proto::sys_flag::kTransactionMask) == proto::sys_flag::kTransactionCommit) {
        const auto record = proto::decode_message(bytes.first(size));
        const auto half =
            record.has_value() ? undecided.find(record.value().prepared_offset) : undecided.end();
        const auto latest =
            half == undecided.end() ? std::optional<std::int64_t>{} : table_.latest(half->second);
        if (latest) {
          log_info("broker",
                   "committed message found without its op record half_offset={} phys={}",
                   *latest,
                   phys);
          static_cast<void>(write_ops({*latest}));
          table_.resolve(half->second, *latest);
        }
      }
    }
    bytes = bytes.subspan(size);
    phys += size;
  }
  return phys;
}

}  // namespace tenon::broker
