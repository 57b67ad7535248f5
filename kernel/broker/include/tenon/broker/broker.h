// The broker: accepts RocketMQ clients, stores and serves messages over a storage plug-in.
#pragma once

#include "tenon/base/clock.h"
#include "tenon/base/config_node.h"
#include "tenon/base/result.h"
#include "tenon/broker/config.h"
#include "tenon/host/plugin_registry.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::net {
class ConnectionHandler;
}

namespace tenon::broker {

/// One plug-in and its own options.
struct PluginSlot {
  std::string plugin{};                 ///< plug-in id, or absolute path of a file
  const ConfigNode* options = nullptr;  ///< must outlive the broker; null = defaults
};

/// Which plug-ins a broker uses.
struct PluginSlots {
  PluginSlot storage{"tenon.store.file", nullptr};  ///< tenon.storage/1, required
  std::vector<PluginSlot> filters{};  ///< tenon.filter/1; tags work without any plug-in
  PluginSlot txn_check{};  ///< tenon.txn-check/1; empty: undecided transactions stay undecided
};

/// What tests and embedding programs may replace.
struct BrokerHooks {
  const Clock* clock = nullptr;  ///< null = system clock; must outlive the broker
  std::function<void(std::string_view)> on_fault{};  ///< the storage failed for good: the program
                                                     ///< should stop. Thread: any
  /// Makes what stands between a listener and the broker, which it gets: sees every connection and
  /// request first, hands on what it likes, calls on the connection's I/O thread. Empty: nothing.
  std::function<std::unique_ptr<net::ConnectionHandler>(net::ConnectionHandler&)> intercept{};
};

/// Life cycle: start() → serving → stop() → destructor (which stops if nobody did).
class Broker {
 public:
  /// Recovers the store, opens the ports, registers with the name servers. Blocks until it serves.
  /// The registry must outlive the broker. Thread: any but an I/O thread.
  /// @return kInvalid for settings, kConflict (port taken, store locked), kDenied, kIo, kCorrupt …;
  /// the text names the object and the remedy. Nothing keeps running after an error.
  static Result<std::unique_ptr<Broker>> start(const BrokerConfig& config,
                                               host::PluginRegistry& registry,
                                               const PluginSlots& slots,
                                               BrokerHooks hooks = {});
  virtual ~Broker() = default;

  virtual std::uint16_t port() const noexcept = 0;          ///< Thread: any
  virtual std::string advertised_address() const = 0;       ///< "ip:port" told to clients
  virtual const BrokerConfig& config() const noexcept = 0;  ///< with all defaults filled in
  /// Registers with the name servers now instead of at the next period; does not wait. Thread: any.
  virtual void register_now() = 0;
  /// Tells the name servers, stops accepting, answers what is running, writes offsets and topics,
  /// closes the store. Idempotent. Thread: any but an I/O thread; blocks up to some seconds.
  virtual void stop() = 0;
};

}  // namespace tenon::broker
