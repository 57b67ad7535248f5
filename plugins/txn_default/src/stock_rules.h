// When an undecided transaction is asked about, as RocketMQ decides it (plug-in ABI §17, spec: broker
// §13.3, TransactionalMessageServiceImpl.check).
#pragma once

#include "tenon/abi/txn_check.h"

#include <cstdint>

namespace tenon::txn_default {

struct Settings {
  std::int64_t timeout_ms = 6'000;         ///< transactionTimeOut
  std::int64_t interval_ms = 60'000;       ///< transactionCheckInterval
  std::uint32_t max_checks = 15;           ///< transactionCheckMax
  std::int64_t reserved_ms = 259'200'000;  ///< fileReservedTime: 72 h
  bool count_visits = false;               ///< count as 4.9.8 does: also visits that do not ask
};

/// TENON_TXN_... for one half. Pure. Thread: any.
std::uint32_t decide(const Settings& s,
                     const tenon_txn_round& round,
                     const tenon_half& half) noexcept;

}  // namespace tenon::txn_default
