#include "scheduler.h"

#include "serial_worker.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>

using namespace tenon::sdk;
using namespace std::chrono_literals;

TEST_SUITE("sdk/scheduler") {
  TEST_CASE("functions run in order of time, periodic ones again and again") {
    tenon::ManualClock clock;
    Scheduler s(clock, false);
    std::string seen;
    s.add(30ms, [&] { seen += 'c'; });
    s.add(10ms, [&] { seen += 'a'; });
    s.add(
        20ms, [&] { seen += 'p'; }, 20ms);
    CHECK(s.run_due() == 0);
    clock.advance_ms(10);
    s.run_due();
    CHECK(seen == "a");
    clock.advance_ms(20);
    s.run_due();
    CHECK(seen == "apc");
    clock.advance_ms(10);
    s.run_due();
    CHECK(seen == "apcp");
  }

  TEST_CASE("what was missed is not made up for") {
    tenon::ManualClock clock;
    Scheduler s(clock, false);
    int n = 0;
    s.add(
        10ms, [&] { ++n; }, 10ms);
    clock.advance_ms(1000);
    s.run_due();
    CHECK(n <= 2);
  }

  TEST_CASE("a cancelled function does not run, also when it cancels itself") {
    tenon::ManualClock clock;
    Scheduler s(clock, false);
    int n = 0;
    const auto a = s.add(10ms, [&] { ++n; });
    s.cancel(a);
    Scheduler::Id b = 0;
    b = s.add(
        10ms,
        [&] {
          ++n;
          s.cancel(b);
        },
        10ms);
    clock.advance_ms(10);
    s.run_due();
    clock.advance_ms(100);
    s.run_due();
    CHECK(n == 1);
  }

  TEST_CASE("cancel from another thread waits for the running function") {
    Scheduler s(tenon::system_clock(), true);
    std::atomic<bool> entered{false};
    std::atomic<bool> release{false};
    std::atomic<bool> left{false};
    const auto id = s.add(0ms, [&] {
      entered = true;
      entered.notify_all();
      release.wait(false);
      left = true;
    });
    entered.wait(false);
    std::thread helper([&] {
      release = true;
      release.notify_all();
    });
    s.cancel(id);
    CHECK(left.load());
    helper.join();
  }

  TEST_CASE("the worker runs functions one after another and drops what waits at the end") {
    std::atomic<int> n{0};
    std::atomic<bool> done{false};
    SerialWorker w;
    for (int i = 0; i < 10; ++i) {
      w.post([&] { ++n; });
    }
    w.post([&] {
      done = true;
      done.notify_all();
    });
    done.wait(false);
    CHECK(n.load() == 10);
    w.stop();
    w.post([&] { ++n; });
    CHECK(n.load() == 10);
  }
}
