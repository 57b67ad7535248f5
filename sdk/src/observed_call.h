// What sees the calls of a listener: hooks of the program and the trace (spec: client §4.15, §4.16).
#pragma once

#include "tenon/base/clock.h"
#include "tenon/sdk/hooks.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon::sdk::detail {

class ConsumerCore;
class TraceLog;

/// Around one call: begins with the constructor; end() exactly once. Costs nothing where nobody
/// looks.
class ObservedCall {
 public:
  ObservedCall(const ConsumerCore& core, const Queue& queue, std::span<const MessageView> messages);
  /// @param done  so many messages, from the first on
  void end(ConsumeOutcome outcome, std::size_t done);

 private:
  // The client may be gone when the call ends: nothing of it is touched then.
  const ConsumerCore& core_;
  const Clock& clock_;
  const Queue queue_;  ///< as the program calls it; empty where nobody looks
  const ConsumeCall call_;
  std::shared_ptr<TraceLog> log_{};  ///< null: not traced
  bool seen_ = false;
  std::string request_{};
  std::uint64_t begin_ns_ = 0;
};

/// Takes out what a hook does not want.
void filter_by_hooks(const std::vector<ConsumeHook>& hooks, std::vector<MessageView>& messages);

}  // namespace tenon::sdk::detail
