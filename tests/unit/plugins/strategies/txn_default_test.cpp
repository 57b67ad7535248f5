// tenon.txn.default: the table of the plug-in ABI §17, row by row.
#include "loaded.h"
#include "stock_rules.h"

#include "tenon/abi/entry.h"
#include "tenon/abi/txn_check.h"

#include <doctest/doctest.h>

#include <string>

extern "C" {
extern const tenon_entry tenon_entry_txn_default;
}

using tenon::txn_default::decide;
using tenon::txn_default::Settings;

namespace {

constexpr std::int64_t kNow = 1'700'000'000'000;

tenon_txn_round round_now(std::uint32_t flags = TENON_ROUND_OP_EXHAUSTED) {
  tenon_txn_round r{};
  r.size = sizeof r;
  r.flags = flags;
  r.now_ms = kNow;
  r.round_start_ms = kNow;
  return r;
}

tenon_half half_of(std::int64_t age_ms) {
  tenon_half h{};
  h.born_ms = kNow - age_ms;
  h.store_ms = kNow - 1;
  h.immunity_s = -1;
  return h;
}

}  // namespace

TEST_SUITE("plugins/txn_default") {
  TEST_CASE("the stock decisions, in their order") {
    const Settings s;
    tenon_half h = half_of(10'000);
    CHECK(decide(s, round_now(), h) == TENON_TXN_CHECK);
    SUBCASE("1: asked often enough, or too old") {
      h.checks_sent = 14;
      CHECK(decide(s, round_now(), h) == TENON_TXN_CHECK);
      h.checks_sent = 15;
      CHECK(decide(s, round_now(), h) == TENON_TXN_EXHAUSTED);
      h = half_of(s.reserved_ms + 1);
      CHECK(decide(s, round_now(), h) == TENON_TXN_EXHAUSTED);
      h.store_ms = kNow;  // before row 2
      CHECK(decide(s, round_now(), h) == TENON_TXN_EXHAUSTED);
    }
    SUBCASE("2: stored since the round began") {
      h.store_ms = kNow;
      CHECK(decide(s, round_now(), h) == TENON_TXN_STOP);
    }
    SUBCASE("3: its own immunity") {
      h.immunity_s = 11;
      CHECK(decide(s, round_now(), h) == TENON_TXN_LATER);
      h.immunity_s = 9;
      CHECK(decide(s, round_now(), h) == TENON_TXN_CHECK);
      h.immunity_s = 0;
      h.born_ms = kNow - 1;
      CHECK(decide(s, round_now(), h) == TENON_TXN_CHECK);
      h.immunity_s = 9'223'372'036'854'775'807;
      CHECK(decide(s, round_now(), h) == TENON_TXN_LATER);
    }
    SUBCASE("4: too young") {
      CHECK(decide(s, round_now(), half_of(5'999)) == TENON_TXN_STOP);
      CHECK(decide(s, round_now(), half_of(0)) == TENON_TXN_STOP);
    }
    SUBCASE("5: due; newer op records read; born in the future") {
      CHECK(decide(s, round_now(), half_of(6'001)) == TENON_TXN_CHECK);
      h.op_newest_born_ms = kNow + 6'001;
      CHECK(decide(s, round_now(0), h) == TENON_TXN_CHECK);
      CHECK(decide(s, round_now(0), half_of(-1)) == TENON_TXN_CHECK);
    }
    SUBCASE("6: otherwise more op records are needed") {
      CHECK(decide(s, round_now(0), h) == TENON_TXN_NEED_OP);
      h.op_newest_born_ms = kNow + 6'000;
      CHECK(decide(s, round_now(0), h) == TENON_TXN_NEED_OP);
      CHECK(decide(s, round_now(), half_of(6'000)) == TENON_TXN_NEED_OP);
    }
  }

  TEST_CASE("options are read and checked, the interval is the next round") {
    tenon::test::Loaded<tenon_txn_check> defaults(
        tenon_entry_txn_default, "tenon.txn.default", TENON_TXN_CHECK_IID);
    CHECK(defaults->next_round(defaults.self(), kNow) == kNow + 60'000);
    tenon_half h = half_of(10'000);
    CHECK(defaults->exhausted(defaults.self(), &h) == TENON_EXHAUSTED_TOPIC);
    tenon::test::Loaded<tenon_txn_check> own(
        tenon_entry_txn_default,
        "tenon.txn.default",
        TENON_TXN_CHECK_IID,
        "timeout = \"20s\"\ninterval = \"5s\"\nmax_checks = 1\non_exhausted = \"rollback\"");
    CHECK(own->next_round(own.self(), kNow) == kNow + 5'000);
    CHECK(own->exhausted(own.self(), &h) == TENON_EXHAUSTED_ROLLBACK);
    const tenon_half halves[] = {half_of(30'000), half_of(10'000)};
    tenon_half_verdict verdicts[2] = {};
    const tenon_txn_round round = round_now();
    CHECK(own->decide(own.self(),
                      &round,
                      halves,
                      sizeof halves[0],
                      2,
                      verdicts,
                      sizeof verdicts[0],
                      nullptr) == TENON_OK);
    CHECK(verdicts[0].action == TENON_TXN_CHECK);
    CHECK(verdicts[1].action == TENON_TXN_STOP);
    for (const char* bad : {"on_exhausted = \"explode\"", "interval = \"10ms\""}) {
      tenon::test::Loaded<tenon_txn_check> refused(
          tenon_entry_txn_default, "tenon.txn.default", TENON_TXN_CHECK_IID, bad);
      CHECK(refused.failure().find("must be") != std::string::npos);
    }
  }

  TEST_CASE("visits count only where the configuration says so") {
    Settings s;
    tenon_half h = half_of(10'000);
    h.visits = 15;
    CHECK(decide(s, round_now(), h) == TENON_TXN_CHECK);
    s.count_visits = true;
    CHECK(decide(s, round_now(), h) == TENON_TXN_EXHAUSTED);
  }

  TEST_CASE("twenty minutes of immunity: asked at least once") {
    const Settings s;
    tenon_half h = half_of(0);
    h.immunity_s = 1'200;
    bool asked = false;
    for (int minute = 1; minute <= 30 && !asked; ++minute) {
      h.born_ms = kNow - minute * 60'000;
      h.visits = static_cast<std::uint32_t>(minute);
      const std::uint32_t verdict = decide(s, round_now(), h);
      CHECK((minute >= 20 || verdict == TENON_TXN_LATER));
      CHECK(verdict != TENON_TXN_EXHAUSTED);
      asked = verdict == TENON_TXN_CHECK;
    }
    CHECK(asked);
  }
}
