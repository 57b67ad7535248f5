#include "loaded.h"

#include "tenon/abi/entry.h"
#include "tenon/abi/queue_selector.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

extern "C" {
extern const tenon_entry tenon_entry_selector_round_robin;
extern const tenon_entry tenon_entry_selector_hash;
extern const tenon_entry tenon_entry_selector_random;
extern const tenon_entry tenon_entry_selector_latency;
extern const tenon_entry tenon_entry_selector_least_in_flight;
}

namespace {

using Selector = tenon::test::Loaded<tenon_selector>;

/// Four queues on broker a, two on broker b.
class Queues {
 public:
  explicit Queues(const Selector& selector)
      : selector_(selector) {
    for (std::uint32_t i = 0; i < 6; ++i) {
      refs_[i] = {{i < 4 ? "a" : "b", 1}, i < 4 ? i : i - 4, 0};
    }
    set.size = sizeof set;
    set.count = 6;
    set.queues = refs_.data();
    set.stride = sizeof refs_[0];
    if (selector->set_queues != nullptr) {
      REQUIRE(selector->set_queues(selector.self(), &set) == TENON_OK);
    }
  }
  ~Queues() {
    if (selector_->drop_queues != nullptr) {
      selector_->drop_queues(selector_.self(), &set);
    }
  }
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

  std::int32_t select(std::string_view avoid = {}, std::string_view key = {}) const {
    tenon_select how{};
    how.size = sizeof how;
    how.last_broker = {avoid.data(), avoid.size()};
    how.sharding_key = {key.data(), key.size()};
    return selector_->select(selector_.self(), &set, &how);
  }
  std::int32_t select_one_way() const {
    tenon_select how{};
    how.size = sizeof how;
    how.flags = TENON_SELECT_ONE_WAY;
    return selector_->select(selector_.self(), &set, &how);
  }
  /// How many of the next selections go to broker b, which has two of the six queues.
  int to_b(int count) const {
    int n = 0;
    for (int i = 0; i < count; ++i) {
      n += select() >= 4 ? 1 : 0;
    }
    return n;
  }
  void report(std::string_view broker, std::uint32_t latency_ms, std::uint32_t outcome = 0) const {
    tenon_send_report r{};
    r.broker = {broker.data(), broker.size()};
    r.latency_ms = latency_ms;
    r.outcome = outcome;
    selector_->report(selector_.self(), &r, sizeof r, 1);
  }
  std::int32_t select_hash(std::uint64_t hash) const {
    tenon_select how{};
    how.size = sizeof how;
    how.flags = TENON_SELECT_HAS_HASH;
    how.user_hash = hash;
    return selector_->select(selector_.self(), &set, &how);
  }

  tenon_queue_set set{};

 private:
  const Selector& selector_;
  std::array<tenon_queue_ref, 6> refs_{};
};

Selector load(const tenon_entry& entry, std::string_view id) {
  return Selector(entry, id, TENON_QUEUE_SELECTOR_IID);
}

}  // namespace

TEST_SUITE("plugins/selectors") {
  TEST_CASE("latency: the faster broker gets nearly all, the other is looked at now and then") {
    const auto selector = load(tenon_entry_selector_latency, "tenon.selector.latency");
    const Queues queues(selector);
    for (int i = 0; i < 20; ++i) {
      queues.report("a", 40);
      queues.report("b", 2);
    }
    const int fast = queues.to_b(3'200);
    CHECK(fast >= 3'100);
    CHECK(fast < 3'200);
    for (int i = 0; i < 40; ++i) {
      queues.report("b", 300);
    }
    CHECK(queues.to_b(3'200) <= 100);
    for (int i = 0; i < 60; ++i) {  // it has recovered
      queues.report("b", 1);
    }
    CHECK(queues.to_b(3'200) >= 3'100);
  }

  TEST_CASE("latency: a failure is slow however quick it was; a retry avoids the failed broker") {
    const auto selector = load(tenon_entry_selector_latency, "tenon.selector.latency");
    const Queues queues(selector);
    for (int i = 0; i < 20; ++i) {
      queues.report("a", 40);
      queues.report("b", 0, TENON_SEND_CONNECT_FAILED);
    }
    CHECK(queues.to_b(3'200) <= 100);
    for (int i = 0; i < 100; ++i) {
      CHECK(queues.select("a") >= 4);
      CHECK(queues.select("b") < 4);
    }
  }

  TEST_CASE("least in flight: the broker with fewer open sends; its queues in turn") {
    const auto selector =
        load(tenon_entry_selector_least_in_flight, "tenon.selector.least-in-flight");
    const Queues queues(selector);
    CHECK(queues.to_b(100) == 50);  // nothing is answered: both fill alike
    for (int i = 0; i < 30; ++i) {
      queues.report("b", 1);
    }
    CHECK(queues.to_b(30) == 30);
    for (int i = 0; i < 100; ++i) {
      CHECK(queues.select("b") < 4);
      queues.report("a", 1, TENON_SEND_TIMEOUT);
    }
    CHECK(queues.to_b(100) == 50);
  }

  TEST_CASE("least in flight: one-way sends and sends to a given queue count for nothing") {
    const auto selector =
        load(tenon_entry_selector_least_in_flight, "tenon.selector.least-in-flight");
    const Queues queues(selector);
    std::set<std::int32_t> seen;
    for (int i = 0; i < 60; ++i) {
      seen.insert(queues.select_one_way());
      queues.report("b", 1);  // somebody chose a queue of b
    }
    CHECK(seen.size() == 6);
    CHECK(queues.to_b(100) == 50);
  }

  TEST_CASE("selectors that look at brokers need a queue set: else the host's round robin") {
    for (const auto& [entry, id] :
         {std::pair(&tenon_entry_selector_latency, "tenon.selector.latency"),
          std::pair(&tenon_entry_selector_least_in_flight, "tenon.selector.least-in-flight")}) {
      const auto selector = load(*entry, id);
      tenon_queue_set none{};
      none.size = sizeof none;
      tenon_select how{};
      how.size = sizeof how;
      CHECK(selector->select(selector.self(), &none, &how) < 0);
    }
  }

  TEST_CASE("round robin visits every queue in turn") {
    const auto selector = load(tenon_entry_selector_round_robin, "tenon.selector.round-robin");
    const Queues queues(selector);
    const std::int32_t first = queues.select();
    for (std::int32_t i = 1; i <= 12; ++i) {
      CHECK(queues.select() == (first + i) % 6);
    }
  }
  TEST_CASE("round robin avoids the failed broker, unless there is no other") {
    const auto selector = load(tenon_entry_selector_round_robin, "tenon.selector.round-robin");
    Queues queues(selector);
    std::set<std::int32_t> seen;
    for (int i = 0; i < 12; ++i) {
      seen.insert(queues.select("a"));
    }
    CHECK(seen == std::set<std::int32_t>{4, 5});
    queues.set.count = 4;
    CHECK(queues.select("a") >= 0);
    queues.set.count = 0;
    CHECK(queues.select() == TENON_EMPTY);
  }
  TEST_CASE("round robin of several threads gives every queue equally often") {
    const auto selector = load(tenon_entry_selector_round_robin, "tenon.selector.round-robin");
    const Queues queues(selector);
    std::array<std::atomic<int>, 6> hits{};
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 600; ++i) {
          ++hits[static_cast<std::size_t>(queues.select())];
        }
      });
    }
    threads.clear();
    for (const auto& h : hits) {
      CHECK(h == 400);
    }
  }
  TEST_CASE("hash chooses as Java's SelectMessageQueueByHash (client.md §4.10)") {
    const auto selector = load(tenon_entry_selector_hash, "tenon.selector.hash");
    Queues queues(selector);
    queues.set.count = 4;
    CHECK(queues.select({}, "order-1001") == 3);
    CHECK(queues.select("a", "order-1001") == 3);
    CHECK(queues.select({}, "TagA") == 2598919 % 4);
    // Trap: the hash is -2^31, whose absolute value does not exist; -2^31 % 6 = -2.
    queues.set.count = 6;
    REQUIRE(tenon::proto::java_hash("polygenelubricants") ==
            std::numeric_limits<std::int32_t>::min());
    CHECK(queues.select({}, "polygenelubricants") == 2);
    CHECK(queues.select_hash(1001) == 1001 % 6);
    // Long.hashCode of -1 is 0, of 2^32 is 1.
    CHECK(queues.select_hash(~std::uint64_t{0}) == 0);
    CHECK(queues.select_hash(std::uint64_t{1} << 32) == 1);
    CHECK(queues.select() == TENON_UNSUPPORTED);
    queues.set.count = 0;
    CHECK(queues.select({}, "k") == TENON_EMPTY);
  }
  TEST_CASE("random reaches every queue about equally and avoids the failed broker") {
    const auto selector = load(tenon_entry_selector_random, "tenon.selector.random");
    Queues queues(selector);
    std::array<int, 6> hits{};
    for (int i = 0; i < 60'000; ++i) {
      ++hits[static_cast<std::size_t>(queues.select())];
    }
    for (const int h : hits) {
      CHECK(h > 9'000);  // ten standard deviations below 10000
      CHECK(h < 11'000);
    }
    std::set<std::int32_t> seen;
    for (int i = 0; i < 200; ++i) {
      seen.insert(queues.select("a"));
    }
    CHECK(seen == std::set<std::int32_t>{4, 5});
    queues.set.count = 4;
    CHECK(queues.select("a") >= 0);
    queues.set.count = 0;
    CHECK(queues.select() == TENON_EMPTY);
  }
}
