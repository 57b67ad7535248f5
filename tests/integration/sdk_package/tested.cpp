// A test program of an application.
#include <cstdio>

#include <tenon/sdk.h>
#include <tenon/testing.h>

int main() {
  auto broker = tenon::testing::Broker::start({.topics = {{"Orders"}}}).value();
  auto client = tenon::Client::connect({.name_servers = broker.name_servers()}).value();
  auto producer = tenon::Producer::open(client, {.group = "app", .retries = 0}).value();
  broker.fail_next(1, 14);
  const auto refused = producer.send({.topic = "Orders", .body = "x"});
  const auto stored = producer.send({.topic = "Orders", .body = "x"});
  // Errors made in one library are those of the other.
  const auto wrong = tenon::testing::Broker::start({.delay_levels = "soon"});
  const bool fine = !refused && refused.error().response == 14 && stored && !wrong &&
                    wrong.error().is(tenon::Errc::kInvalidArgument);
  std::puts(fine ? "ok" : "failed");
  return fine ? 0 : 1;
}
