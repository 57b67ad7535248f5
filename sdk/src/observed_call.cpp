#include "observed_call.h"

#include "client_core.h"
#include "consumer_core.h"
#include "guarded_hook.h"
#include "trace.h"

#include "tenon/base/log.h"

#include <algorithm>

namespace tenon::sdk::detail {
namespace {

bool wanted_by(const ConsumeHook& hook, const MessageView& message) noexcept {
  bool wants = true;
  guarded_hook([&] { wants = hook.wants(message); });
  return wants;
}

bool looked_at(const ConsumerCore& core) noexcept {
  return core.client().tracer() != nullptr || !core.options().hooks.empty();
}

}  // namespace

ObservedCall::ObservedCall(const ConsumerCore& core,
                           const Queue& queue,
                           std::span<const MessageView> messages)
    : core_(core),
      clock_(core.client().clock()),
      queue_(looked_at(core) ? core.client().names().unwrap(queue) : Queue()),
      call_{core.shown_group(), queue_, messages} {
  if (Tracer* const tracer = core_.client().tracer();
      tracer != nullptr && tracer->log->traces(queue.topic)) {
    log_ = tracer->log;
  }
  seen_ = log_ || !core_.options().hooks.empty();
  if (!seen_) {
    return;
  }
  begin_ns_ = clock_.mono_ns();
  if (log_) {
    request_ = log_->new_id();
    log_->consuming(request_, call_.group, messages);
  }
  for (const ConsumeHook& hook : core_.options().hooks) {
    if (hook.before) {
      guarded_hook([&] { hook.before(call_); });
    }
  }
}

void ObservedCall::end(ConsumeOutcome outcome, std::size_t done) {
  if (!seen_) {
    return;
  }
  ConsumeResult result;
  result.cost = std::chrono::milliseconds((clock_.mono_ns() - begin_ns_) / 1'000'000);
  result.done = done;
  result.outcome = outcome;
  if (outcome != ConsumeOutcome::kException && result.cost >= core_.options().consume_timeout) {
    result.outcome = ConsumeOutcome::kTimeout;
  } else if (outcome == ConsumeOutcome::kSuccess && done == 0) {
    result.outcome = ConsumeOutcome::kFailed;
  }
  if (log_) {
    log_->consumed(request_, call_, result);
  }
  for (const ConsumeHook& hook : core_.options().hooks) {
    if (hook.after) {
      guarded_hook([&] { hook.after(call_, result); });
    }
  }
}

void filter_by_hooks(const std::vector<ConsumeHook>& hooks, std::vector<MessageView>& messages) {
  for (const ConsumeHook& hook : hooks) {
    if (hook.wants) {
      std::erase_if(messages, [&](const MessageView& m) { return !wanted_by(hook, m); });
    }
  }
}

}  // namespace tenon::sdk::detail
