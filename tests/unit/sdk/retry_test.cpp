#include "retry.h"

#include "errors.h"

#include <doctest/doctest.h>

using namespace tenon::sdk;

namespace {
Error answered(int code) {
  return from_answer(code, "", "broker");
}
RetryRules blocking() {
  return {};
}
}  // namespace

TEST_SUITE("sdk/retry") {
  TEST_CASE("a blocking send is tried again after 1, 14, 16, 17, 204 and 205 only") {
    for (int code = 1; code < 300; ++code) {  // client §14.20
      const bool expected =
          code == 1 || code == 14 || code == 16 || code == 17 || code == 204 || code == 205;
      CAPTURE(code);
      CHECK(should_retry(blocking(), answered(code), 1, 1000) == expected);
    }
    RetryRules busy;
    busy.retry_busy = true;
    CHECK(should_retry(busy, answered(2), 1, 1000));
    CHECK_FALSE(should_retry(busy, answered(13), 1, 1000));
  }

  TEST_CASE("connection errors are tried again in every form that waits for an answer") {
    for (const SendForm form : {SendForm::kBlocking, SendForm::kAsync}) {
      RetryRules rules;
      rules.form = form;
      CHECK(should_retry(rules, make_error(Errc::kConnect, ""), 1, 1000));
      CHECK(should_retry(rules, make_error(Errc::kClosed, ""), 1, 1000));
      CHECK(should_retry(rules, make_error(Errc::kBrokerNotExist, ""), 1, 1000));
      CHECK_FALSE(should_retry(rules, make_error(Errc::kBusy, ""), 1, 1000));
      CHECK_FALSE(should_retry(rules, make_error(Errc::kCancelled, ""), 1, 1000));
    }
    RetryRules oneway;
    oneway.form = SendForm::kOneway;
    CHECK_FALSE(should_retry(oneway, make_error(Errc::kConnect, ""), 1, 1000));
  }

  TEST_CASE("the asynchronous form does not try again what a broker answered") {
    RetryRules rules;  // client §14.21
    rules.form = SendForm::kAsync;
    CHECK_FALSE(should_retry(rules, answered(1), 1, 1000));
    CHECK_FALSE(should_retry(rules, answered(14), 1, 1000));
  }

  TEST_CASE("neither more attempts than allowed nor beyond the deadline") {
    CHECK(should_retry(blocking(), answered(1), 2, 1000));
    CHECK_FALSE(should_retry(blocking(), answered(1), 3, 1000));
    CHECK_FALSE(should_retry(blocking(), answered(1), 1, 0));
    // A time-out has used up the budget, also if a rounded clock says that something is left.
    for (const std::int64_t left : {0, 1, 1000}) {
      CHECK_FALSE(should_retry(blocking(), make_error(Errc::kTimeout, ""), 1, left));
    }
  }

  TEST_CASE("a given queue gets exactly one attempt") {  // client §14.22
    RetryRules rules;
    rules.fixed_queue = true;
    CHECK_FALSE(should_retry(rules, answered(1), 1, 1000));
    CHECK_FALSE(should_retry(rules, make_error(Errc::kConnect, ""), 1, 1000));
  }

  TEST_CASE("which failures leave the outcome open") {  // client §14.13
    CHECK(from_call({tenon::Errc::kTimeout, ""}, "b").outcome_unknown);
    CHECK(from_call({tenon::Errc::kClosed, ""}, "b").outcome_unknown);
    CHECK(from_call({tenon::Errc::kCancelled, ""}, "b").outcome_unknown);
    CHECK_FALSE(from_call({tenon::Errc::kNotReady, ""}, "b").outcome_unknown);
    CHECK(from_call({tenon::Errc::kNotReady, ""}, "b").is(Errc::kConnect));
    CHECK_FALSE(from_call({tenon::Errc::kBusy, ""}, "b").outcome_unknown);
    CHECK_FALSE(answered(13).outcome_unknown);
  }
}
