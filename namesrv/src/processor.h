// Answers the requests of brokers, clients and tools (spec: remoting §8, broker §21).
#pragma once

#include "kv_config.h"
#include "route_table.h"

#include "tenon/namesrv/name_server.h"
#include "tenon/net/connection.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>

namespace tenon::namesrv {

/// Thread: the I/O threads; the tables are guarded by one reader/writer lock.
class Processor final : public net::ConnectionHandler {
 public:
  Processor(const NamesrvConfig& config, const Clock& clock);

  Result<> load() { return kv_.load(); }
  /// Drops brokers that have been silent for too long and closes their connections.
  void scan();
  std::size_t broker_count() const;
  void set_port(std::uint16_t port) noexcept { port_ = port; }

  void on_commands(const net::ConnectionPtr& connection,
                   std::span<const proto::CommandView> commands,
                   const net::BufferRef& keep) override;
  void on_close(const net::ConnectionPtr& connection, net::CloseReason reason) override;

 private:
  class Answer;
  using Request = const proto::CommandView&;

  void handle(const net::ConnectionPtr& connection, Request request, Answer& answer);
  bool handle_broker(const net::ConnectionPtr& connection, Request request, Answer& answer);
  bool handle_query(Request request, Answer& answer);
  bool handle_admin(Request request, Answer& answer);

  void register_broker(const net::ConnectionPtr& connection, Request request, Answer& answer);
  void unregister_broker(Request request, Answer& answer);
  void query_data_version(Request request, Answer& answer);
  void route(Request request, Answer& answer);
  void member_group(Request request, Answer& answer);
  void register_topic(Request request, Answer& answer);
  void put_kv(Request request, Answer& answer);
  void get_kv(Request request, Answer& answer);
  void delete_kv(Request request, Answer& answer);
  void list_kv(Request request, Answer& answer);
  void update_config(Request request, Answer& answer);
  void get_config(Answer& answer);

  const NamesrvConfig config_;
  std::atomic<bool> order_enabled_;
  std::uint16_t port_ = 0;
  KvConfig kv_;

  mutable std::shared_mutex mutex_{};
  RouteTable table_;  ///< guarded by mutex_
  std::map<ConnectionId, std::weak_ptr<net::Connection>>
      broker_connections_{};  ///< guarded by mutex_
};

}  // namespace tenon::namesrv
