#include "tenon/sdk.h"

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

using namespace tenon::sdk;

namespace {

Result<int> half(int n) {
  if (n % 2 != 0) {
    Error e;
    e.code = make_error_code(Errc::kInvalidArgument);
    e.remark = "odd";
    return e;
  }
  return n / 2;
}

std::shared_ptr<detail::TaskState<int>> new_state() {
  return std::make_shared<detail::TaskState<int>>();
}

Task<int> add_one(Task<int> t) {
  const int n = co_await t;
  co_return n + 1;
}
Task<int> fails() {
  throw std::runtime_error("broken");
  co_return 0;
}
Task<> nothing(bool* ran) {
  *ran = true;
  co_return;
}

}  // namespace

TEST_SUITE("sdk/result") {
  TEST_CASE("a value or an error") {
    CHECK(half(4).value() == 2);
    CHECK(*half(4) == 2);
    const auto r = half(3);
    CHECK_FALSE(r);
    CHECK(r.error().is(Errc::kInvalidArgument));
    CHECK(r.error().text() == "illegal argument: odd");
    CHECK_THROWS_AS(static_cast<void>(half(3).value()), ResultError);
    CHECK(Result<void>().has_value());
    CHECK_FALSE(Result<void>(r.error()).has_value());
    Result<std::unique_ptr<int>> moved = std::make_unique<int>(5);
    const std::unique_ptr<int> out = std::move(moved).value();
    CHECK(*out == 5);
  }

  TEST_CASE("codes compare with error codes") {
    const std::error_code code = Errc::kTimeout;
    CHECK(code == make_error_code(Errc::kTimeout));
    CHECK(code.value() == 10002);
    CHECK(std::string(code.category().name()) == "tenon");
    CHECK(code.message() == "no answer in time");
  }
}

TEST_SUITE("sdk/task") {
  TEST_CASE("a result that is there at once, and one that comes later") {
    auto state = new_state();
    state->complete(1);
    CHECK(add_one(Task<int>(state)).get() == 2);

    auto later = new_state();
    Task<int> sum = add_one(Task<int>(later));
    CHECK_FALSE(sum.ready());
    std::thread t([later] { later->complete(41); });
    CHECK(sum.get() == 42);
    t.join();
  }

  TEST_CASE("exceptions arrive at the one who waits") {
    Task<int> t = fails();
    CHECK_THROWS_AS(t.get(), std::runtime_error);
  }

  TEST_CASE("a dropped task runs to its end") {
    bool ran = false;
    { static_cast<void>(nothing(&ran)); }
    CHECK(ran);
    auto state = new_state();
    { static_cast<void>(add_one(Task<int>(state))); }
    state->complete(1);  // nobody looks, nothing leaks
  }
}

TEST_SUITE("sdk/function") {
  TEST_CASE("small and large captures, moved and called") {
    int called = 0;
    Function<int(int)> small = [&called](int x) {
      ++called;
      return x + 1;
    };
    char big[200] = {7};
    Function<int(int)> large = [big](int x) { return x + big[0]; };
    Function<int(int)> moved = std::move(small);
    CHECK_FALSE(static_cast<bool>(small));
    CHECK(moved(1) == 2);
    CHECK(large(1) == 8);
    moved = std::move(large);
    CHECK(moved(2) == 9);
    auto owner = std::make_shared<int>(1);
    {
      Function<void()> holds = [owner] {};
      CHECK(owner.use_count() == 2);
      holds.reset();
      CHECK(owner.use_count() == 1);
      Function<void()> only_moves = [p = std::make_unique<int>(3)] { static_cast<void>(*p); };
      only_moves();
    }
  }

  TEST_CASE("acknowledgements say how many are done") {
    CHECK(Ack::success().done(4) == 4);
    CHECK(Ack::retry().done(4) == 0);
    CHECK(Ack::partial(2).done(4) == 2);
    CHECK(Ack::partial(9).done(4) == 4);
    CHECK(Ack::dead_letter().delay_level() == -1);
    CHECK(Ack::retry(5).delay_level() == 5);
  }
}
