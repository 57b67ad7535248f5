// What happens to one order is consumed in the order it was sent: order (name servers from NAMESRV_ADDR)
#include <chrono>
#include <cstdio>
#include <mutex>
#include <semaphore>
#include <string>
#include <utility>
#include <vector>

#include <tenon/sdk.h>

using namespace std::chrono_literals;

int main() {
  auto client = tenon::Client::connect().value();

  // [send in order]
  auto producer = tenon::Producer::open(client, {.group = "orders"}).value();
  for (const char* event : {"created", "paid", "shipped"}) {
    // All messages with one key go to one queue, in the order of sending; each is tried once.
    auto r = producer.send({.topic = "Orders", .body = event, .keys = {"o-17"}},
                           {.sharding_key = "o-17"});
    if (!r) {
      std::fprintf(stderr, "%s not sent: %s\n", event, r.error().text().c_str());
      return 1;
    }
  }
  // [/send in order]

  std::mutex mutex;
  std::vector<std::string> events;
  std::counting_semaphore<> arrived(0);
  bool failed_once = false;
  const auto apply = [&](const tenon::MessageView& message) {
    const std::scoped_lock lock(mutex);
    if (message.body() == "paid" && !std::exchange(failed_once, true)) {
      return false;
    }
    events.emplace_back(message.body());
    arrived.release();
    return true;
  };
  // [consume in order]
  auto consumer =
      tenon::PushConsumer::orderly(
          client,
          {.group = "shipping", .subscriptions = {{"Orders", {}}}, .start = tenon::FromFirst{}},
          [&](std::span<const tenon::MessageView> batch) {
            // While this runs nothing else of the queue does. After suspend() the queue
            // pauses and this message comes again: nothing overtakes it.
            return apply(batch[0]) ? tenon::OrderAck::success() : tenon::OrderAck::suspend(100ms);
          })
          .value();
  // [/consume in order]
  for (int i = 0; i < 3; ++i) {
    if (!arrived.try_acquire_for(20s)) {
      std::fprintf(stderr, "only %d of 3 arrived\n", i);
      return 1;
    }
  }
  const std::scoped_lock lock(mutex);
  for (const std::string& event : events) {
    std::printf("%s\n", event.c_str());
  }
  return events == std::vector<std::string>{"created", "paid", "shipped"} ? 0 : 1;
}
