// The test of a function that sends, with a broker inside the test: test_your_code
#include <cstdio>
#include <string>

#include <tenon/sdk.h>
#include <tenon/testing.h>

namespace {

// [code under test]
enum class Placed { kYes, kNo, kMaybe };

Placed place(tenon::Producer& producer, const std::string& order) {
  auto r = producer.send({.topic = "Orders", .body = order, .keys = {order}});
  if (r) {
    return Placed::kYes;
  }
  return r.error().outcome_unknown ? Placed::kMaybe : Placed::kNo;
}
// [/code under test]

int failures = 0;
void check(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "failed: %s\n", what);
    ++failures;
  }
}

}  // namespace

int main() {
  // [test]
  using tenon::testing::FaultKind;
  auto broker = tenon::testing::Broker::start({.topics = {{"Orders"}}}).value();  // about 10 ms
  auto client = tenon::Client::connect({.name_servers = broker.name_servers()}).value();
  auto producer = tenon::Producer::open(client, {.group = "shop", .retries = 0}).value();

  check(place(producer, "o-1") == Placed::kYes, "it works");

  broker.fail_next(1, 14, "service not available");
  check(place(producer, "o-2") == Placed::kNo, "a refusal is a no");

  broker.inject({.kind = FaultKind::kCutAfter});  // stored, and the connection is gone
  check(place(producer, "o-3") == Placed::kMaybe, "a lost answer is no answer");

  broker.stop();
  check(place(producer, "o-4") == Placed::kNo, "nobody listens");
  check(broker.restart().has_value(), "the broker is back");
  check(place(producer, "o-5") == Placed::kYes, "and is found again");
  // [/test]
  return failures == 0 ? 0 : 1;
}
