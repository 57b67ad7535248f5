#include "peer_log.h"

#include <utility>

namespace tenon::net {

std::optional<std::uint64_t> PeerLog::may_write(const proto::HostAddr& peer, std::int64_t now_ms) {
  const std::scoped_lock lock(mutex_);
  auto found = peers_.find(peer.ip);
  if (found == peers_.end()) {
    if (peers_.size() >= peers_max_) {
      std::erase_if(peers_, [now_ms](const auto& p) { return p.second.next_ms <= now_ms; });
      if (peers_.size() >= peers_max_) {
        return std::nullopt;
      }
    }
    found = peers_.emplace(peer.ip, Entry{}).first;
  }
  Entry& entry = found->second;
  if (now_ms < entry.next_ms) {
    ++entry.left_out;
    return std::nullopt;
  }
  entry.next_ms = now_ms + interval_ms_;
  return std::exchange(entry.left_out, 0);
}

}  // namespace tenon::net
