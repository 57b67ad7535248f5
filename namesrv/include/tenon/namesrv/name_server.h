// The name server: which brokers there are and which topics they serve. Stateless but for the
// key-value configuration; any number of them, they do not know each other.
#pragma once

#include "tenon/base/clock.h"
#include "tenon/base/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace tenon::config {
class Visitor;
}
namespace tenon::net {
class ConnectionHandler;
class IoPool;
}  // namespace tenon::net

namespace tenon::namesrv {

/// Defaults are those of RocketMQ (spec: broker §2.5).
struct NamesrvConfig {
  std::string listen_host = "0.0.0.0";     ///< numeric IPv4 or IPv6 address; RocketMQ: none
  std::uint16_t listen_port = 9876;        ///< 0 = chosen by the system; RocketMQ: listenPort
  std::string kv_config_path{};            ///< file of the key-value configuration, empty = kept in
                                           ///< memory only; RocketMQ: kvConfigPath
  bool order_message_enable = false;       ///< give orderTopicConf in routes; may be changed at run
                                           ///< time by 318; RocketMQ: orderMessageEnable
  std::int64_t scan_interval_ms = 10'000;  ///< how often silent brokers are looked for, 1 to
                                           ///< 3 600 000; RocketMQ: scanNotActiveBrokerInterval
  std::int64_t scan_first_ms = 5'000;      ///< first time after the start
  std::int64_t broker_timeout_ms = 120'000;   ///< a broker that did not register for so long is
                                              ///< dropped; a 5.x broker brings its own
  std::int64_t idle_timeout_ms = 120'000;     ///< connections without traffic are closed; RocketMQ:
                                              ///< serverChannelMaxIdleTimeSeconds
  std::uint32_t connection_max = 100'000;     ///< further ones are closed at once
  std::uint32_t frame_max_bytes = 16u << 20;  ///< larger requests close the connection
  std::uint32_t io_threads = 1;               ///< if the server runs on threads of its own
};

/// Describes the keys of the `[namesrv]` table of a configuration file.
void describe(config::Visitor& visitor, NamesrvConfig& config);

/// What a program around the server may put in; all optional.
struct NamesrvHooks {
  /// Stands between the sockets and the server: gets all that happens on a connection and hands on
  /// what it likes. Called once; the result lives until the server has stopped.
  std::function<std::unique_ptr<net::ConnectionHandler>(net::ConnectionHandler&)> intercept{};
};

/// Life cycle: start() → stop() → destructor. Thread: any, but stop() and the destructor not on an
/// I/O thread.
class NameServer {
 public:
  /// Serves when it returns.
  /// @param shared_pool  threads to use instead of own ones; must outlive the server
  /// @return kInvalid for a bad address, kConflict if the port is taken, kCorrupt or kIo if the
  ///         key-value file cannot be read (it is not changed then)
  static Result<std::unique_ptr<NameServer>> start(NamesrvConfig config,
                                                   net::IoPool* shared_pool = nullptr,
                                                   const NamesrvHooks& hooks = {});
  ~NameServer();
  NameServer(const NameServer&) = delete;
  NameServer& operator=(const NameServer&) = delete;

  std::uint16_t port() const noexcept;
  /// Brokers that are registered and alive.
  std::size_t broker_count() const;
  void stop();

 private:
  struct Parts;
  explicit NameServer(std::unique_ptr<Parts> parts) noexcept;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tenon::namesrv
