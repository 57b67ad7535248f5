// Log lines about peers that misbehave: the first of an address at once, then one per interval with
// the number of those left out, so that a hostile peer cannot fill the log.
#pragma once

#include "tenon/proto/message.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace tenon::net {

/// Thread: any.
class PeerLog {
 public:
  explicit PeerLog(std::int64_t interval_ms = 10'000, std::size_t peers_max = 1024) noexcept
      : interval_ms_(interval_ms),
        peers_max_(peers_max) {}

  /// The number of lines left out since the last one if a line may be written now, nullopt if this
  /// one is to be left out.
  std::optional<std::uint64_t> may_write(const proto::HostAddr& peer, std::int64_t now_ms);

 private:
  struct Entry {
    std::int64_t next_ms = 0;
    std::uint64_t left_out = 0;
  };
  const std::int64_t interval_ms_;
  const std::size_t peers_max_;
  std::mutex mutex_{};
  std::map<std::array<std::uint8_t, 16>, Entry> peers_{};
};

}  // namespace tenon::net
