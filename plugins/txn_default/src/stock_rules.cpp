#include "stock_rules.h"

#include <limits>

namespace tenon::txn_default {

std::uint32_t decide(const Settings& s,
                     const tenon_txn_round& round,
                     const tenon_half& half) noexcept {
  const std::int64_t age_ms = round.now_ms - half.born_ms;
  // Trap: 4.9.8 counts every visit, and so discards a message with a long immunity without ever
  // asking (broker §13.3).
  const std::uint32_t checks = s.count_visits ? half.visits : half.checks_sent;
  if (checks >= s.max_checks || age_ms > s.reserved_ms) {
    return TENON_TXN_EXHAUSTED;
  }
  if (half.store_ms >= round.round_start_ms) {
    return TENON_TXN_STOP;
  }
  std::int64_t immunity_ms = s.timeout_ms;
  if (half.immunity_s >= 0) {
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max() / 1000;
    immunity_ms = (half.immunity_s < kMax ? half.immunity_s : kMax) * 1000;
    if (age_ms < immunity_ms) {
      return TENON_TXN_LATER;
    }
  } else if (age_ms >= 0 && age_ms < immunity_ms) {
    return TENON_TXN_STOP;
  }
  const bool ops_known = (round.flags & TENON_ROUND_OP_EXHAUSTED) != 0;
  if ((ops_known && age_ms > immunity_ms) ||
      half.op_newest_born_ms - round.round_start_ms > s.timeout_ms || age_ms <= -1) {
    return TENON_TXN_CHECK;
  }
  return TENON_TXN_NEED_OP;
}

}  // namespace tenon::txn_default
