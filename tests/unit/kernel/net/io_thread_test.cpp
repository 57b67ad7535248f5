#include "net_fixture.h"

#include <map>

using namespace tenon;
using namespace tenon::net;
using namespace tenon::net::test;

TEST_SUITE("net/io_pool") {
  TEST_CASE("posted functions run on their thread in the order of each poster") {
    auto pool = IoPool::start({.threads = 2}).value();
    Waiter waiter;
    std::map<int, std::vector<int>> seen;
    std::vector<std::thread> posters;
    for (int p = 0; p < 4; ++p) {
      posters.emplace_back([&, p] {
        for (int i = 0; i < 1000; ++i) {
          pool->at(1).post([&, p, i] {
            CHECK(pool->at(1).is_current());
            CHECK_FALSE(pool->at(0).is_current());
            waiter.change([&] { seen[p].push_back(i); });
          });
        }
      });
    }
    for (auto& t : posters) {
      t.join();
    }
    REQUIRE(waiter.wait(
        [&] { return seen[0].size() + seen[1].size() + seen[2].size() + seen[3].size() == 4000; }));
    for (int p = 0; p < 4; ++p) {
      CHECK(std::is_sorted(seen[p].begin(), seen[p].end()));
    }
  }

  TEST_CASE("timers fire in order of their delay, never early, repeated ones until cancelled") {
    auto pool = IoPool::start({}).value();
    IoThread& thread = pool->at(0);
    Waiter waiter;
    std::string order;
    int ticks = 0;
    const auto start = std::chrono::steady_clock::now();
    std::chrono::steady_clock::duration first{};
    thread.after(30ms, [&] { waiter.change([&] { order += 'b'; }); });
    thread.after(10ms, [&] {
      waiter.change([&] {
        first = std::chrono::steady_clock::now() - start;
        order += 'a';
      });
    });
    const TimerId never = thread.after(20ms, [&] { waiter.change([&] { order += 'x'; }); });
    thread.cancel(never);
    TimerId repeated = 0;
    waiter.change([&] {
      repeated = thread.every(2ms, [&] {
        waiter.change([&] {
          if (++ticks == 5) {
            thread.cancel(repeated);
          }
        });
      });
    });
    REQUIRE(waiter.wait([&] { return order.size() >= 2 && ticks >= 5; }));
    thread.after(10ms, [&] { waiter.change([&] { order += 'c'; }); });
    REQUIRE(waiter.wait([&] { return order.size() >= 3; }));
    CHECK(order == "abc");
    CHECK(first >= 10ms);
    CHECK(ticks == 5);
  }

  TEST_CASE("after stop nothing runs and everything is destroyed") {
    auto pool = IoPool::start({}).value();
    auto token = std::make_shared<int>(0);
    pool->at(0).after(1h, [token] { FAIL("a timer ran after stop"); });
    pool->stop();
    CHECK(token.use_count() == 1);
    pool->at(0).post([token] { FAIL("a function ran after stop"); });
    pool->at(0).after(1ms, [token] { FAIL("a timer ran after stop"); });
    CHECK(token.use_count() == 1);
    pool->stop();
  }

  TEST_CASE("a pool without threads is refused") {
    CHECK(IoPool::start({.threads = 0}).error().code == Errc::kInvalid);
  }
}
