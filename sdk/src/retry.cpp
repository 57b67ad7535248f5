#include "retry.h"

#include "tenon/proto/codes.h"

namespace tenon::sdk {
namespace {

bool is_retried_code(std::int32_t code, bool retry_busy) noexcept {
  using Code = proto::ResponseCode;
  switch (code) {
    case Code::kSystemError:
    case Code::kServiceNotAvailable:
    case Code::kNoPermission:
    case Code::kTopicNotExist:
    case Code::kNoBuyerId:
    case Code::kNotInCurrentUnit:
      return true;
    case Code::kSystemBusy:
      return retry_busy;
    default:
      return false;
  }
}

}  // namespace

bool should_retry(const RetryRules& rules,
                  const Error& failure,
                  int attempt,
                  std::int64_t remaining_ms) {
  if (rules.fixed_queue || attempt >= rules.attempts_max) {
    return false;
  }
  if (rules.form == SendForm::kOneway && !(rules.may_switch && failure.is(Errc::kConnect))) {
    return false;
  }
  // Trap: an answer that did not come in time has used up the budget; a full time-out per attempt
  // would block for a multiple of what the caller asked for and duplicate more (client §4.7).
  if (remaining_ms < 1) {
    return false;
  }
  if (failure.response >= 0) {
    // The asynchronous forms of Java do not retry what a broker answered.
    return rules.form == SendForm::kBlocking && is_retried_code(failure.response, rules.retry_busy);
  }
  // Trap: no answer in time, although the attempt was given all the time there was, even if clocks
  // of different resolution leave a millisecond: the message may be stored (client §11 D1).
  return failure.is(Errc::kConnect) || failure.is(Errc::kClosed) ||
         failure.is(Errc::kBrokerNotExist);
}

}  // namespace tenon::sdk
