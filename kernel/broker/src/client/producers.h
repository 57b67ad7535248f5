// Who produces: groups and their connections as heartbeats tell them (spec: broker §10.3).
#pragma once

#include "client/consumers.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker {

/// Thread: any. Not on the path of messages.
class Producers {
 public:
  void heartbeat(std::string_view group, ClientChannel channel);
  void leave(const net::ConnectionPtr& connection, std::string_view group);
  void connection_closed(const net::ConnectionPtr& connection);
  /// Drops channels without heartbeat since `before_ms`. @return them, for closing
  std::vector<net::ConnectionPtr> expire(std::int64_t before_ms);
  std::optional<std::vector<ClientChannel>> channels(std::string_view group) const;
  std::map<std::string, std::vector<ClientChannel>> all() const;
  /// The open connection of a client, in whatever group it produces.
  std::optional<ClientChannel> find_client(std::string_view client_id) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<ClientChannel>, std::less<>> groups_{};
};

}  // namespace tenon::broker
