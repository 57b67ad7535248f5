// The plug-in that decides when an undecided transaction is asked about again (plug-in ABI §17).
#pragma once

#include "tenon/abi/plugin.h"
#include "tenon/base/clock.h"
#include "tenon/base/result.h"
#include "tenon/broker/broker.h"
#include "tenon/host/plugin_registry.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

namespace tenon::broker {

/// Thread: as each function says.
class TxnChecker {
 public:
  static Result<std::unique_ptr<TxnChecker>> open(const BrokerConfig& config,
                                                  host::PluginRegistry& registry,
                                                  const PluginSlot& slot,
                                                  const Clock& clock);

  /// Wall time of the next round: what the plug-in says, between one second and one hour from now.
  /// Thread: the service's. @return 0 when `give_up` was set meanwhile
  std::int64_t next_round(std::int64_t now_ms, const std::atomic<bool>& give_up);
  /// One verdict for each half, in order. Thread: the service's. @return false: the plug-in failed
  bool decide(const tenon_txn_round& round,
              std::span<const tenon_half> halves,
              std::span<tenon_half_verdict> out);
  std::uint32_t exhausted(const tenon_half& half);           ///< Thread: the service's
  void resolved(const tenon_half& half, std::uint32_t how);  ///< Thread: a worker

  host::Instance& instance() noexcept { return *instance_; }

 private:
  std::unique_ptr<host::Instance> instance_{};
  host::Interface<tenon_txn_check> check_{};
  bool failing_ = false;
};

}  // namespace tenon::broker
