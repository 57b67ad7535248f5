#include "tenon/base/worker_pool.h"

#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

TEST_SUITE("base/worker_pool") {
  TEST_CASE("every accepted task runs before stop returns") {
    std::atomic<int> ran{0};
    tenon::WorkerPool pool({.name = "test", .threads = 3});
    for (int i = 0; i < 1000; ++i) {
      REQUIRE(pool.try_post([&] { ++ran; }));
    }
    pool.stop();
    CHECK(ran == 1000);
    CHECK_FALSE(pool.try_post([&] { ++ran; }));
    CHECK(ran == 1000);
  }

  TEST_CASE("a full queue refuses, and takes again when there is room") {
    tenon::WorkerPool pool({.name = "test", .threads = 1, .queued_max = 1});
    std::latch started{1};
    std::latch release{1};
    std::latch second_ran{1};
    REQUIRE(pool.try_post([&] {
      started.count_down();
      release.wait();
    }));
    started.wait();  // the worker is busy, the queue is empty
    REQUIRE(pool.try_post([&] { second_ran.count_down(); }));
    CHECK_FALSE(pool.try_post([] {}));
    CHECK(pool.queued() == 1);
    release.count_down();
    second_ran.wait();
    CHECK(pool.try_post([] {}));
  }

  TEST_CASE("tasks run on other threads, several at a time") {
    tenon::WorkerPool pool({.name = "test", .threads = 2});
    std::latch both{2};  // each task waits for the other: one thread alone would never finish
    const auto meet = [&] { both.arrive_and_wait(); };
    REQUIRE(pool.try_post(meet));
    REQUIRE(pool.try_post(meet));
    pool.stop();
    CHECK(both.try_wait());
  }

  TEST_CASE("what waited too long is told so, oldest first, and does not run") {
    tenon::WorkerPool pool({.name = "test", .threads = 1});
    std::latch started{1};
    std::latch release{1};
    REQUIRE(pool.try_post([&] {
      started.count_down();
      release.wait();
    }));
    started.wait();
    std::vector<std::uint64_t> told;  // by the tasks, in their order
    std::atomic<int> ran{0};
    const auto task = [&](const tenon::WorkerPool::Overdue* overdue) {
      if (overdue == nullptr) {
        ++ran;
        return;
      }
      told.push_back(overdue->waited_ns * 10 + overdue->queued);
    };
    for (const std::uint64_t since : {100u, 150u, 200u}) {
      REQUIRE(pool.try_post_ageing(task, since));
    }
    pool.expire(199, 100);
    CHECK(told.empty());
    pool.expire(250, 100);
    CHECK(told == std::vector<std::uint64_t>{1502, 1001});
    CHECK(pool.queued() == 1);
    REQUIRE(pool.try_post([] {}));  // has no age: ends a look
    REQUIRE(pool.try_post_ageing(task, 0));
    pool.expire(1'000, 100);
    CHECK(told.size() == 3);
    CHECK(pool.queued() == 2);
    pool.expire(1'000, 100);
    CHECK(told.size() == 3);
    release.count_down();
    pool.stop();
    CHECK(ran == 1);
    pool.expire(10'000, 100);
    CHECK(told.size() == 3);
  }
}
