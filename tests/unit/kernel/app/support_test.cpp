#include "support/histogram.h"
#include "support/json.h"
#include "support/process_stats.h"
#include "support/stop_signal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace tenon::app;

TEST_SUITE("app/histogram") {
  TEST_CASE("percentiles of known values are exact to 1/128") {
    const auto h = std::make_unique<Histogram>();
    std::mt19937_64 random(20261130);
    std::vector<std::uint64_t> all;
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t v = random() >> (23 + random() % 40);
      all.push_back(v);
      h->record(v);
    }
    std::sort(all.begin(), all.end());
    for (const double p : {1.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
      const auto rank = static_cast<std::size_t>(std::ceil(p / 100 * double(all.size())));
      const std::uint64_t exact = all[std::max<std::size_t>(rank, 1) - 1];
      CAPTURE(p);
      CHECK(h->percentile(p) >= exact);
      CHECK(h->percentile(p) <= exact + exact / 128);
    }
    CHECK(h->count() == 20'000);
    CHECK(h->max() == all.back());
  }
  TEST_CASE("nothing recorded, one value, and a value beyond the range") {
    const auto h = std::make_unique<Histogram>();
    CHECK(h->percentile(50) == 0);
    CHECK(h->mean() == 0);
    h->record(7);
    CHECK(h->percentile(0) == 7);
    CHECK(h->percentile(100) == 7);
    h->record(std::uint64_t{1} << 50);
    CHECK(h->percentile(100) == (std::uint64_t{1} << 42) - 1);
    CHECK(h->max() == std::uint64_t{1} << 50);
  }
  TEST_CASE("two add up, and threads may record at the same time") {
    const auto a = std::make_unique<Histogram>();
    const auto b = std::make_unique<Histogram>();
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
          for (std::uint64_t i = 1; i <= 10'000; ++i) {
            a->record(i);
          }
        });
      }
    }
    b->record(1'000'000);
    b->add(*a);
    CHECK(b->count() == 40'001);
    CHECK(b->max() == 1'000'000);
    CHECK(a->mean() == 5000.5);
  }
}

TEST_SUITE("app/json") {
  TEST_CASE("objects, arrays and values with their commas") {
    Json json;
    json.begin_object().field("a", 1).field("b", "x\"\\\n\x01").field("c", true);
    json.key("d").begin_array().value(1.5).value("y").begin_object().end_object().end_array();
    json.key("e").begin_array().end_array().field("f", -7);
    CHECK(json.end_object().text() ==
          "{\"a\":1,\"b\":\"x\\\"\\\\\\n\\u0001\",\"c\":true,\"d\":[1.5,\"y\",{}],\"e\":[],\"f\":-"
          "7}");
  }
  TEST_CASE("what is no UTF-8 becomes U+FFFD") {
    CHECK(quote_json("订单 \xf0\x9f\x98\x80") == "\"订单 \xf0\x9f\x98\x80\"");
    CHECK(quote_json("a\xff") == "\"a\xef\xbf\xbd\"");
    CHECK(is_utf8("订单"));
    for (const char* bad : {"\x80", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe8\xae"}) {
      CHECK_FALSE(is_utf8(bad));
    }
  }
  TEST_CASE("numbers that JSON does not have are null") {
    CHECK(Json().value(std::nan("")).text() == "null");
  }
}

TEST_SUITE("app/process_stats") {
  TEST_CASE("this process has memory, an unknown one is an error") {
    const auto own = process_stats();
    REQUIRE(own.has_value());
    CHECK(own.value().rss_anon_bytes > 0);
    CHECK(process_stats(getpid()).has_value());
    CHECK_FALSE(process_stats(1 << 30).has_value());
  }
}

TEST_SUITE("app/stop_signal") {
  /// Runs in a child, because it changes the signals of the process.
  int in_child(int (*body)()) {
    const pid_t child = fork();
    if (child == 0) {
      _exit(body());
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  TEST_CASE("a signal ends the wait, and is remembered") {
    CHECK(in_child([] {
            StopSignal stop;
            if (stop.wait(std::chrono::milliseconds(0))) {
              return 1;
            }
            kill(getpid(), SIGTERM);
            return stop.wait() && stop.wait(std::chrono::milliseconds(0)) && stop.fault().empty()
                       ? 0
                       : 2;
          }) == 0);
  }
  TEST_CASE("a request of the program ends the wait with its reason") {
    CHECK(in_child([] {
            StopSignal stop;
            std::jthread other([&] {
              stop.request("disk gone");
              stop.request("later");
            });
            return stop.wait() && stop.fault() == "disk gone" ? 0 : 1;
          }) == 0);
  }
  TEST_CASE("a second signal ends a program that hangs while stopping") {
    CHECK(in_child([] {
            StopSignal stop;
            kill(getpid(), SIGINT);
            stop.wait();
            kill(getpid(), SIGINT);
            return 1;
          }) == 130);
  }
}
