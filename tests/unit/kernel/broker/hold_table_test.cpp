// Long polling without lost wake-ups: the real hold table under a race of arrivals and parking
// (spec: broker §8.5, trap "between the failed read and parking").
#include "pull/hold_table.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

using namespace tenon;
using namespace tenon::broker;

namespace {

ParkedPtr parked(tenon_queue queue, std::int64_t offset, FilterPtr filter = nullptr) {
  auto pull = std::make_shared<ParkedPull>();
  pull->queue = queue;
  pull->asked_offset = offset;
  pull->offset = offset;
  pull->filter = std::move(filter);
  return pull;
}

void arrive(HoldTable& table, tenon_queue queue, std::int64_t offset, std::int64_t tags = 0) {
  tenon_arrival a{};
  a.queue = queue;
  a.queue_offset = offset;
  a.tags_code = tags;
  table.arrived(a);
  table.arrivals_end();
}

}  // namespace

TEST_SUITE("broker/hold_table") {
  TEST_CASE("an arrival takes the pulls of its queue that it can satisfy") {
    std::vector<ParkedPtr> woken;
    HoldTable table([&](std::vector<ParkedPtr>& w) { woken = w; });
    const auto at_end = parked(7, 5);
    const auto ahead = parked(7, 6);
    const auto other = parked(8, 5);
    for (const auto& p : {at_end, ahead, other}) {
      table.park(p);
    }
    arrive(table, 7, 5);
    CHECK(woken == std::vector<ParkedPtr>{at_end});
    CHECK(table.size() == 2);
    CHECK_FALSE(table.take(at_end));  // taken once
    CHECK(table.take(ahead));
    CHECK_FALSE(table.take(ahead));
    CHECK(table.take(other));
    CHECK(table.size() == 0);
    arrive(table, 7, 6);
    CHECK(woken.size() == 1);
  }

  TEST_CASE("a filter is asked before the wake-up, and judged entries are not judged again") {
    Filters filters;
    auto filter = filters.compile("TAG", "Aa");  // hash 2112
    REQUIRE(filter.has_value());
    std::vector<ParkedPtr> woken;
    HoldTable table([&](std::vector<ParkedPtr>& w) { woken = w; });
    const auto pull = parked(7, 5, filter.value());
    table.park(pull);
    arrive(table, 7, 5, 1);
    arrive(table, 7, 6, 2);
    CHECK(woken.empty());
    CHECK(pull->offset == 7);
    arrive(table, 7, 9, 3);  // a gap: entry 7 was not judged
    CHECK(pull->offset == 7);
    arrive(table, 7, 10, 2112);
    CHECK(woken.size() == 1);
  }

  TEST_CASE("a million races of arrival and parking lose no wake-up") {
    // One message per round: the producer publishes it and notifies; the consumer reads (nothing),
    // parks, and looks again. Whoever takes the pull counts the round; if nobody does, it hangs and
    // the deadline of the spin fails the test.
    constexpr std::int64_t kRounds = 1'000'000;
    std::atomic<std::int64_t> max_offset{0};  // of the queue
    std::atomic<std::int64_t> answered{0};
    HoldTable table([&](std::vector<ParkedPtr>& woken) {
      answered.fetch_add(static_cast<std::int64_t>(woken.size()), std::memory_order_acq_rel);
    });
    std::atomic<std::int64_t> round{0};
    std::thread producer([&] {
      for (std::int64_t i = 0; i < kRounds; ++i) {
        while (round.load(std::memory_order_acquire) <= i) {
          std::this_thread::yield();
        }
        max_offset.store(i + 1, std::memory_order_release);
        arrive(table, 7, i);
      }
    });
    bool stuck = false;
    for (std::int64_t i = 0; i < kRounds && !stuck; ++i) {
      round.store(i + 1, std::memory_order_release);
      if (max_offset.load(std::memory_order_acquire) > i) {
        answered.fetch_add(1, std::memory_order_acq_rel);  // the first look found it
      } else {
        const auto pull = parked(7, i);
        table.park(pull);
        if (max_offset.load(std::memory_order_acquire) > i && table.take(pull)) {
          answered.fetch_add(1, std::memory_order_acq_rel);
        }
      }
      std::int64_t spins = 0;
      while (answered.load(std::memory_order_acquire) != i + 1) {
        if (++spins > 50'000'000) {
          stuck = true;
          break;
        }
        std::this_thread::yield();
      }
    }
    round.store(kRounds, std::memory_order_release);
    producer.join();
    CHECK_FALSE(stuck);
    CHECK(answered.load() == kRounds);
    CHECK(table.size() == 0);
  }
}
