#include "latency_faults.h"

#include "fake_cluster.h"
#include "producer_core.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
namespace proto = tenon::proto;
using detail::LatencyFaults;
using proto::RequestCode;

namespace {

constexpr std::uint64_t kMs = 1'000'000;

struct Sender {
  explicit Sender(FaultTolerance how) {
    cluster.add_topic("T", {"a", "b"}, 4);
    client = cluster.client(&clock);
    ProducerOptions options;
    options.fault_tolerance = how;
    options.retries = 0;
    producer = detail::ProducerCore::create(*client, options).value();
  }
  ~Sender() { producer->stop(); }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  Result<Receipt> send() {
    Message m;
    m.topic = "T";
    m.body = "body";
    return producer->send(std::move(m), {});
  }
  std::set<std::string> brokers_of(int sends) {
    std::set<std::string> out;
    for (int i = 0; i < sends; ++i) {
      out.insert(send().value().queue.broker);
    }
    return out;
  }
  tenon::ManualClock clock;
  FakeCluster cluster;
  std::shared_ptr<detail::ClientCore> client;
  std::shared_ptr<detail::ProducerCore> producer;
};

}  // namespace

TEST_SUITE("sdk/latency_faults") {
  TEST_CASE("how long a broker is avoided after a latency") {  // client §4.9, the table, §14.24
    const std::pair<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> cases[] = {
        {0, {0, 0}},
        {40, {0, 0}},
        {549, {0, 0}},
        {550, {30'000, 2'000}},
        {1'500, {60'000, 2'000}},
        {2'999, {120'000, 5'000}},
        {3'000, {180'000, 6'000}},
        {15'000, {600'000, 30'000}}};
    for (const auto& [latency, wanted] : cases) {
      CAPTURE(latency);
      CHECK(LatencyFaults(FaultTolerance::kClassic).unavailable_ms(latency) == wanted.first);
      CHECK(LatencyFaults(FaultTolerance::kQuick).unavailable_ms(latency) == wanted.second);
    }
  }

  TEST_CASE("a failure isolates for 600 s, in the quick table for 10 s, however fast it was") {
    for (const auto& [table, seconds] :
         {std::pair(FaultTolerance::kClassic, 600u), std::pair(FaultTolerance::kQuick, 10u)}) {
      LatencyFaults faults(table);
      faults.update("a", 1, true, 0);
      CHECK_FALSE(faults.available("a", (seconds * 1000 - 1) * kMs));
      CHECK(faults.available("a", seconds * 1000 * kMs));
      CHECK(faults.available("unknown", 0));
    }
  }

  TEST_CASE("the quick table only extends, the classic one forgets after a good send") {
    LatencyFaults classic(FaultTolerance::kClassic);
    classic.update("a", 1, true, 0);
    classic.update("a", 1, false, kMs);
    CHECK(classic.available("a", 2 * kMs));
    LatencyFaults quick(FaultTolerance::kQuick);
    quick.update("a", 1, true, 0);
    quick.update("a", 1, false, kMs);
    CHECK_FALSE(quick.available("a", 2 * kMs));
  }

  TEST_CASE("an isolated broker is unused for 600 s, then used again") {  // client §14.24
    Sender s(FaultTolerance::kClassic);
    bool broken = true;
    s.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      return broken && r.command.code == RequestCode::kSendMessageV2 && r.address == "a:10911"
                 ? std::optional(Outcome::fail(tenon::Errc::kNotReady))
                 : std::nullopt;
    });
    while (s.send()) {
    }
    broken = false;
    CHECK(s.brokers_of(40) == std::set<std::string>{"b"});
    s.clock.advance_ms(599'999);
    CHECK(s.brokers_of(40) == std::set<std::string>{"b"});
    s.clock.advance_ms(1);
    CHECK(s.brokers_of(40) == std::set<std::string>{"a", "b"});
  }

  TEST_CASE("with all brokers isolated it still sends") {  // client §14.24
    Sender s(FaultTolerance::kClassic);
    bool broken = true;
    s.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      return broken && r.command.code == RequestCode::kSendMessageV2
                 ? std::optional(Outcome::code(1, "broken"))
                 : std::nullopt;
    });
    for (int i = 0; i < 20; ++i) {
      CHECK_FALSE(s.send().has_value());
    }
    broken = false;
    CHECK(s.send().has_value());
  }
}
