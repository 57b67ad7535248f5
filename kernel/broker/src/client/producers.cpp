#include "client/producers.h"

#include <algorithm>
#include <utility>

namespace tenon::broker {

void Producers::heartbeat(std::string_view group, ClientChannel channel) {
  const std::scoped_lock lock(mutex_);
  auto it = groups_.find(group);
  if (it == groups_.end()) {
    it = groups_.emplace(std::string(group), std::vector<ClientChannel>{}).first;
  }
  for (ClientChannel& known : it->second) {
    if (known.connection == channel.connection) {
      known = std::move(channel);
      return;
    }
  }
  it->second.push_back(std::move(channel));
}

void Producers::leave(const net::ConnectionPtr& connection, std::string_view group) {
  const std::scoped_lock lock(mutex_);
  const auto it = groups_.find(group);
  if (it == groups_.end()) {
    return;
  }
  std::erase_if(it->second, [&](const ClientChannel& c) { return c.connection == connection; });
  if (it->second.empty()) {
    groups_.erase(it);
  }
}

void Producers::connection_closed(const net::ConnectionPtr& connection) {
  const std::scoped_lock lock(mutex_);
  for (auto it = groups_.begin(); it != groups_.end();) {
    std::erase_if(it->second, [&](const ClientChannel& c) { return c.connection == connection; });
    it = it->second.empty() ? groups_.erase(it) : std::next(it);
  }
}

std::vector<net::ConnectionPtr> Producers::expire(std::int64_t before_ms) {
  std::vector<net::ConnectionPtr> expired;
  const std::scoped_lock lock(mutex_);
  for (auto it = groups_.begin(); it != groups_.end();) {
    std::erase_if(it->second, [&](const ClientChannel& c) {
      if (c.last_update_ms >= before_ms) {
        return false;
      }
      expired.push_back(c.connection);
      return true;
    });
    it = it->second.empty() ? groups_.erase(it) : std::next(it);
  }
  return expired;
}

std::optional<std::vector<ClientChannel>> Producers::channels(std::string_view group) const {
  const std::scoped_lock lock(mutex_);
  const auto it = groups_.find(group);
  if (it == groups_.end()) {
    return std::nullopt;
  }
  return it->second;
}

std::optional<ClientChannel> Producers::find_client(std::string_view client_id) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [group, channels] : groups_) {
    for (const ClientChannel& c : channels) {
      if (c.client_id == client_id && c.connection->is_open()) {
        return c;
      }
    }
  }
  return std::nullopt;
}

std::map<std::string, std::vector<ClientChannel>> Producers::all() const {
  const std::scoped_lock lock(mutex_);
  return {groups_.begin(), groups_.end()};
}

}  // namespace tenon::broker
