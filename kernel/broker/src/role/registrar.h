// Registration with the name servers: at start, periodically, on every change of a topic, and the
// farewell (spec: broker §1.3, remoting §8.1).
#pragma once

#include "meta/topics.h"
#include "services.h"

#include "tenon/net/io_pool.h"
#include "tenon/net/rpc_client.h"

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace tenon::broker {

/// Life cycle: start() → stop() → destructor. Thread: any.
class Registrar {
 public:
  Registrar(const BrokerConfig& config,
            const Advertised& advertised,
            Topics& topics,
            net::IoPool& pool,
            net::RpcClient& rpc,
            Workers& workers);
  ~Registrar() { stop(); }
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

  /// Registers and waits for the answers, then repeats periodically. Not on an I/O thread. A name
  /// server that does not answer is not an error: the period repeats.
  void start();
  /// How often, in milliseconds: what is configured, but at least ten and at most sixty seconds.
  static std::int64_t period_ms(std::int64_t configured) noexcept;
  /// Registers soon; several calls in a row make one registration.
  void trigger();
  /// Unregisters everywhere and waits for the answers. Idempotent. Not on an I/O thread.
  void stop();

 private:
  using Done = std::function<void()>;
  proto::Command register_command() const;
  void register_all(const Done& done);
  void register_one(const std::string& address, const proto::Command& command, const Done& done);
  void answered(const std::string& address, const Result<net::RpcAnswer>& answer);

  const BrokerConfig& config_;
  const Advertised& advertised_;
  Topics& topics_;
  net::IoPool& pool_;
  net::RpcClient& rpc_;
  Workers& workers_;
  net::TimerId timer_ = 0;
  std::atomic<bool> triggered_{false};
  std::atomic<bool> running_{false};
  std::mutex mutex_;
  std::map<std::string, bool> reachable_{};  ///< by name server, for logging changes only
};

}  // namespace tenon::broker
