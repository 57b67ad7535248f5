// Whether a failed attempt of a send is followed by another one (spec: client §4.7).
#pragma once

#include "tenon/sdk/result.h"

#include <cstdint>

namespace tenon::sdk {

enum class SendForm : std::uint8_t { kBlocking, kAsync, kOneway };

struct RetryRules {
  SendForm form = SendForm::kBlocking;
  bool fixed_queue = false;  ///< the caller chose the queue: exactly one attempt
  int attempts_max = 3;
  bool retry_busy = false;
  bool may_switch = false;  ///< a failed connection is left for another broker, one-way too
};

/// @param attempt       attempts made so far, at least 1
/// @param remaining_ms  of the caller's time
bool should_retry(const RetryRules& rules,
                  const Error& failure,
                  int attempt,
                  std::int64_t remaining_ms);

}  // namespace tenon::sdk
