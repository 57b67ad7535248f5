#include "txn/txn_checker.h"

#include "tenon/base/log.h"
#include "tenon/host/thread_tag.h"

#include <algorithm>

namespace tenon::broker {
namespace {

constexpr std::int64_t kRoundMinMs = 1'000;
constexpr std::int64_t kRoundMaxMs = 3'600'000;

}  // namespace

Result<std::unique_ptr<TxnChecker>> TxnChecker::open(const BrokerConfig& config,
                                                     host::PluginRegistry& registry,
                                                     const PluginSlot& slot,
                                                     const Clock& clock) {
  auto checker = std::make_unique<TxnChecker>();
  host::InstanceOptions options;
  options.name = "txn_check";
  options.options = slot.options;
  options.store_root = config.store_root;
  options.private_dir = config.store_root / "plugins" / slot.plugin;
  options.temp_dir = config.store_root / "tmp";
  options.clock = &clock;
  TENON_TRY(checker->instance_, registry.create(slot.plugin, options));
  TENON_TRY(checker->instance_->init());
  TENON_TRY(checker->instance_->activate());
  TENON_TRY(checker->check_, checker->instance_->interface<tenon_txn_check>(TENON_TXN_CHECK_IID));
  return checker;
}

std::int64_t TxnChecker::next_round(std::int64_t now_ms, const std::atomic<bool>& give_up) {
  const host::ControlScope control(give_up);
  if (!control.owns()) {
    return 0;
  }
  return std::clamp(
      check_->next_round(check_.self, now_ms), now_ms + kRoundMinMs, now_ms + kRoundMaxMs);
}

bool TxnChecker::decide(const tenon_txn_round& round,
                        std::span<const tenon_half> halves,
                        std::span<tenon_half_verdict> out) {
  const host::ThreadTag worker(TENON_AT_WORKER);
  std::fill(out.begin(), out.end(), tenon_half_verdict{});
  host::ErrorBuffer error;
  const tenon_status status = check_->decide(check_.self,
                                             &round,
                                             halves.data(),
                                             sizeof(tenon_half),
                                             halves.size(),
                                             out.data(),
                                             sizeof(tenon_half_verdict),
                                             error.raw());
  const bool failed = status < 0;
  if (failed && !failing_) {
    log_error("broker",
              "undecided transactions are not checked plugin={} reason=\"{}\"",
              instance_->id(),
              error.make_error(status).detail);
  }
  failing_ = failed;
  return !failed;
}

std::uint32_t TxnChecker::exhausted(const tenon_half& half) {
  const host::ThreadTag worker(TENON_AT_WORKER);
  return check_->exhausted(check_.self, &half);
}

void TxnChecker::resolved(const tenon_half& half, std::uint32_t how) {
  if (check_->resolved != nullptr) {
    const host::ThreadTag worker(TENON_AT_WORKER);
    check_->resolved(check_.self, &half, sizeof half, 1, &how);
  }
}

}  // namespace tenon::broker
