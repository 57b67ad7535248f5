// tenon.txn.default: undecided transactions are asked about as RocketMQ does it (plug-in ABI §17).
#include "stock_rules.h"

#include "tenon/plugin.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace {

using std::chrono::milliseconds;
using tenon::plugin::key;
using tenon::txn_default::Settings;

struct Word {
  const char* name;
  std::uint32_t choice;
};
constexpr Word kChoices[] = {{"topic", TENON_EXHAUSTED_TOPIC},
                             {"rollback", TENON_EXHAUSTED_ROLLBACK},
                             {"keep", TENON_EXHAUSTED_KEEP},
                             {"drop", TENON_EXHAUSTED_DROP},
                             {"commit", TENON_EXHAUSTED_COMMIT}};

std::int64_t duration(const tenon::plugin::Config& config,
                      const char* name,
                      std::int64_t fallback_ms,
                      std::int64_t least_ms) {
  const std::int64_t ms = config.get(name, milliseconds(fallback_ms)).count();
  if (ms < least_ms) {
    config.reject(name, "must be at least " + std::to_string(least_ms) + " ms");
  }
  return ms;
}

struct TxnDefault {
  static constexpr tenon::plugin::About kAbout{
      .id = "tenon.txn.default",
      .version = "1.0.0",
      .name = "stock transaction check",
      .vendor = "Tenon",
      .doc = "asks producers about undecided transactions as RocketMQ does"};
  static constexpr tenon_config_key kKeys[] = {
      key("timeout",
          TENON_TYPE_DURATION,
          "6s",
          "age of the first question unless the message says otherwise; transactionTimeOut"),
      key("interval",
          TENON_TYPE_DURATION,
          "60s",
          "between two rounds, 1s to 1h; transactionCheckInterval"),
      key("max_checks", TENON_TYPE_INT, "15", "questions; transactionCheckMax"),
      key("reserved",
          TENON_TYPE_DURATION,
          "72h",
          "older transactions are given up; fileReservedTime"),
      key("count_visits",
          TENON_TYPE_BOOL,
          "false",
          "count every look at a transaction, as 4.9.8 does, not only questions"),
      key("on_exhausted",
          TENON_TYPE_STRING,
          "topic",
          "after the last question: topic (TRANS_CHECK_MAX_TIME_TOPIC), rollback, keep (ask on), "
          "drop, or commit (which the broker must allow too)")};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::TxnCheck>;

  explicit TxnDefault(tenon::plugin::Host& host) {
    const tenon::plugin::Config config = host.config();
    settings.timeout_ms = duration(config, "timeout", settings.timeout_ms, 0);
    settings.interval_ms = duration(config, "interval", settings.interval_ms, 1'000);
    settings.reserved_ms = duration(config, "reserved", settings.reserved_ms, 1'000);
    settings.max_checks = config.get("max_checks", settings.max_checks);
    settings.count_visits = config.get("count_visits", settings.count_visits);
    const std::string word = config.get("on_exhausted", "topic");
    bool known = false;
    for (const Word& w : kChoices) {
      if (word == w.name) {
        choice = w.choice;
        known = true;
      }
    }
    if (!known) {
      config.reject("on_exhausted", "must be topic, rollback, keep, drop or commit");
    }
  }

  std::int64_t next_round(std::int64_t now_ms) noexcept { return now_ms + settings.interval_ms; }

  tenon_status decide(const tenon_txn_round* round,
                      const tenon_half* first,
                      std::size_t stride,
                      std::size_t n,
                      tenon_half_verdict* out,
                      std::size_t out_stride,
                      tenon_error*) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
      const tenon_half* half = TENON_AT(tenon_half, first, stride, i);
      TENON_AT_MUT(tenon_half_verdict, out, out_stride, i)->action =
          tenon::txn_default::decide(settings, *round, *half);
    }
    return TENON_OK;
  }

  std::uint32_t exhausted(const tenon_half*) noexcept { return choice; }

  Settings settings{};
  std::uint32_t choice = TENON_EXHAUSTED_TOPIC;
};

}  // namespace

TENON_PLUGINS(TxnDefault);
