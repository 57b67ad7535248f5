#include "append/flush_waiters.h"

#include "tenon/base/clock.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

using namespace tenon;
using namespace tenon::broker;

TEST_SUITE("broker/flush_waiters") {
  TEST_CASE("the watermark releases exactly the puts it covers") {
    FlushWaiters waiters;
    std::string log;
    const auto note = [&](char name) {
      return [&log, name](bool durable) {
        log += name;
        log += durable ? '+' : '-';
      };
    };
    waiters.add(100, 1'000, note('a'));
    waiters.add(300, 1'000, note('c'));
    waiters.add(200, 1'000, note('b'));
    CHECK(waiters.size() == 3);
    waiters.durable_moved(99);
    CHECK(log.empty());
    waiters.durable_moved(200);
    CHECK(log == "a+b+");
    waiters.add(150, 1'000, note('d'));  // covered already
    CHECK(log == "a+b+d+");
    waiters.durable_moved(300);
    CHECK(log == "a+b+d+c+");
    CHECK(waiters.size() == 0);
  }

  TEST_CASE("a deadline ends the wait without the disk") {
    ManualClock clock;
    FlushWaiters waiters;
    std::vector<bool> done;
    const auto deadline = clock.mono_ns() + 5'000ull * 1'000'000;
    waiters.add(100, deadline, [&](bool durable) { done.push_back(durable); });
    clock.advance_ms(4'999);
    waiters.expire(clock.mono_ns());
    CHECK(done.empty());
    clock.advance_ms(1);
    waiters.expire(clock.mono_ns());
    CHECK(done == std::vector<bool>{false});
    waiters.durable_moved(100);
    CHECK(done.size() == 1);
  }

  TEST_CASE("nobody is lost between adding and the watermark") {
    FlushWaiters waiters;
    constexpr std::uint64_t kPuts = 20'000;
    std::atomic<std::uint64_t> released{0};
    std::atomic<std::uint64_t> end{0};
    std::thread disk([&] {
      while (released.load() < kPuts) {
        waiters.durable_moved(end.load(std::memory_order_acquire));
      }
    });
    for (std::uint64_t i = 1; i <= kPuts; ++i) {
      end.store(i, std::memory_order_release);
      waiters.add(i, ~0ull, [&](bool durable) { released += durable ? 1 : 0; });
    }
    disk.join();
    CHECK(released.load() == kPuts);
    CHECK(waiters.size() == 0);
  }
}
