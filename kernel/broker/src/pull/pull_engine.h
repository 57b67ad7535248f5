// Reads one queue for a consumer: index entries, filter, batch rules, views of the messages (spec:
// broker §8.2, store §15; plug-in ABI §11.3).
#pragma once

#include "append/log.h"
#include "pull/filter.h"

#include "tenon/abi/plugin.h"
#include "tenon/broker/config.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tenon::broker {

/// GetMessageStatus.
enum class PullStatus : std::uint8_t {
  kFound,
  kNoMatchedMessage,
  kMessageWasRemoving,
  kOffsetFoundNull,
  kOffsetOverflowBadly,
  kOffsetOverflowOne,
  kOffsetTooSmall,
  kNoMatchedLogicQueue,
  kNoMessageInQueue
};
std::string_view to_string(PullStatus status) noexcept;  ///< Java's name, the remark of the answer

struct PullRead {
  tenon_queue queue = 0;
  std::int64_t offset = 0;
  std::int32_t max_count = 0;
  std::int32_t max_bytes = 0;      ///< the client's own bound; 0 = none
  const Filter* filter = nullptr;  ///< null = everything
  bool may_block = false;          ///< true on worker threads: may read from the disk
};

/// Views stay valid until release() or destruction; move only.
class PullResult {
 public:
  PullResult() = default;
  ~PullResult() { release(); }
  PullResult(const PullResult&) = delete;
  PullResult& operator=(const PullResult&) = delete;

  PullStatus status = PullStatus::kNoMessageInQueue;
  bool failed = false;       ///< the store could not read
  bool need_worker = false;  ///< data not in memory: repeat with may_block
  bool suggest_slave = false;
  std::int64_t next_offset = 0;
  std::int64_t min_offset = 0;
  std::int64_t max_offset = 0;
  std::uint32_t count = 0;
  std::size_t bytes = 0;
  std::vector<tenon_view> views{};
  tenon_hold hold{};

  /// Hands the hold to the caller.
  tenon_hold take_hold() noexcept {
    const tenon_hold h = hold;
    hold = {};
    return h;
  }
  void release() noexcept;
};

/// Thread: any; scratch memory is per thread.
class PullEngine {
 public:
  PullEngine(const BrokerConfig& config, const Log& log);
  void read(const PullRead& request, PullResult& out) const;
  /// Whether a record at `phys` counts as "only on disk" (distance to the end of the log).
  bool is_cold(std::uint64_t phys) const noexcept;

 private:
  struct Scan;
  void scan(const PullRead& request, Scan& scan, PullResult& out) const;
  bool decide(const PullRead& request, Scan& scan, std::size_t begin, std::size_t end) const;
  bool take(const PullRead& request, Scan& scan, std::size_t i) const;
  void fetch(const PullRead& request, Scan& scan, PullResult& out) const;

  const BrokerConfig& config_;
  const Log& log_;
  std::uint64_t memory_bytes_;
};

}  // namespace tenon::broker
