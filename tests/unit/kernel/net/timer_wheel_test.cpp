#include "timer_wheel.h"

#include "../../../support/seed.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

using tenon::net::TimerId;
using tenon::net::TimerWheel;

namespace {

std::size_t run_due(TimerWheel& wheel) {
  std::size_t n = 0;
  while (auto due = wheel.pop_due()) {
    due->run();
    ++n;
  }
  return n;
}

}  // namespace

TEST_SUITE("net/timer_wheel") {
  TEST_CASE("a timer fires at its tick, not before, once") {
    TimerWheel wheel(1000);
    int fired = 0;
    wheel.add(1005, [&] { ++fired; });
    wheel.advance(1004);
    CHECK(run_due(wheel) == 0);
    wheel.advance(1005);
    CHECK(run_due(wheel) == 1);
    wheel.advance(100'000);
    CHECK(run_due(wheel) == 0);
    CHECK(fired == 1);
    CHECK(wheel.size() == 0);
  }

  TEST_CASE("what is due in the past is due at the next tick") {
    TimerWheel wheel(77);
    wheel.add(3, [] {});
    CHECK(wheel.next_tick() == 78);
    wheel.advance(78);
    CHECK(run_due(wheel) == 1);
  }

  TEST_CASE("an empty wheel needs no wake-up") {
    TimerWheel wheel(5);
    CHECK_FALSE(wheel.next_tick().has_value());
    const TimerId id = wheel.add(5000, [] {});
    CHECK(wheel.next_tick().has_value());
    CHECK(wheel.cancel(id).has_value());
    CHECK_FALSE(wheel.next_tick().has_value());
  }

  TEST_CASE("due timers come in order of their tick, equal ones in order of adding") {
    TimerWheel wheel;
    std::string order;
    wheel.add(70'000, [&] { order += 'd'; });
    wheel.add(64, [&] { order += 'b'; });
    wheel.add(63, [&] { order += 'a'; });
    wheel.add(64, [&] { order += 'c'; });
    wheel.advance(1'000'000);
    CHECK(run_due(wheel) == 4);
    CHECK(order == "abcd");
  }

  TEST_CASE("a cancelled timer does not fire, also when it is already due") {
    TimerWheel wheel;
    int fired = 0;
    const TimerId a = wheel.add(10, [&] { ++fired; });
    const TimerId b = wheel.add(10, [&] { ++fired; });
    CHECK(wheel.cancel(a).has_value());
    CHECK_FALSE(wheel.cancel(a).has_value());
    wheel.advance(10);
    CHECK(wheel.cancel(b).has_value());
    CHECK(run_due(wheel) == 0);
    CHECK(fired == 0);
    CHECK_FALSE(wheel.cancel(0).has_value());
    CHECK_FALSE(wheel.cancel(12345).has_value());
  }

  TEST_CASE("the id of a finished timer does not cancel its successor") {
    TimerWheel wheel;
    const TimerId first = wheel.add(1, [] {});
    wheel.advance(1);
    run_due(wheel);
    const TimerId second = wheel.add(5, [] {});
    CHECK(first != second);
    CHECK_FALSE(wheel.cancel(first).has_value());
    CHECK(wheel.size() == 1);
  }

  TEST_CASE("a repeated timer keeps its rhythm, leaves out what was missed and can be cancelled") {
    TimerWheel wheel;
    std::vector<std::uint64_t> at;
    TimerId id = 0;
    id = wheel.add(
        10,
        [&] {
          at.push_back(wheel.now());
          if (at.size() == 4) {
            CHECK(wheel.cancel(id).has_value());
          }
        },
        10);
    for (const std::uint64_t now : {10u, 20u, 55u, 59u, 60u, 70u, 80u}) {
      wheel.advance(now);
      run_due(wheel);
    }
    CHECK(at == std::vector<std::uint64_t>{10, 20, 55, 60});
    CHECK(wheel.size() == 0);
  }

  TEST_CASE("random timers behave like a sorted list") {
    std::mt19937 random(tenon::test::seed_of_run());
    TimerWheel wheel(random() % 1'000'000);
    std::multimap<std::uint64_t, int> model;
    std::map<int, std::pair<TimerId, std::multimap<std::uint64_t, int>::iterator>> live;
    std::vector<int> fired;
    int next = 0;
    for (int step = 0; step < 20'000; ++step) {
      const auto what = random() % 10;
      if (what < 5) {
        const std::uint64_t due = wheel.now() + 1 + random() % (1u << (random() % 25));
        const int name = next++;
        live[name] = {wheel.add(due, [&fired, name] { fired.push_back(name); }),
                      model.emplace(due, name)};
      } else if (what < 7 && !live.empty()) {
        auto it = live.lower_bound(static_cast<int>(random() % static_cast<unsigned>(next)));
        if (it != live.end()) {
          REQUIRE(wheel.cancel(it->second.first).has_value());
          model.erase(it->second.second);
          live.erase(it);
        }
      } else {
        if (!model.empty()) {
          REQUIRE(wheel.next_tick().value() <= model.begin()->first);
        }
        const std::uint64_t now = wheel.now() + random() % (1u << (random() % 20));
        wheel.advance(now);
        run_due(wheel);
        std::vector<int> expected;
        while (!model.empty() && model.begin()->first <= now) {
          expected.push_back(model.begin()->second);
          live.erase(model.begin()->second);
          model.erase(model.begin());
        }
        REQUIRE(fired == expected);
        fired.clear();
      }
      REQUIRE(wheel.size() == model.size());
    }
    CHECK(wheel.clear().size() == model.size());
  }
}
