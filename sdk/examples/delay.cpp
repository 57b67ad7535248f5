// Messages for later: delay (name servers from NAMESRV_ADDR)
#include <chrono>
#include <cstdio>
#include <mutex>
#include <semaphore>
#include <set>
#include <string>

#include <tenon/sdk.h>

using namespace std::chrono_literals;

int main() {
  auto client = tenon::Client::connect().value();
  auto producer = tenon::Producer::open(client, {.group = "reminders"}).value();

  // [delay]
  // By level, which every broker understands: 1 is 1 s, 2 is 5 s … 18 is 2 h.
  auto soon = producer.send({.topic = "Reminders", .body = "soon", .delay_level = 1});
  // By time, which Tenon and RocketMQ 5 understand.
  auto then = producer.send({.topic = "Reminders", .body = "then", .delay = 1500ms});
  const auto tomorrow = std::chrono::system_clock::now() + 24h;
  auto never = producer.send({.topic = "Reminders", .body = "never", .deliver_at = tomorrow});
  if (!soon || !then || !never) {
    return 1;
  }
  // What is not delivered yet can be taken back, if the broker allows it (recall_message).
  auto recalled = producer.recall("Reminders", never->recall_handle);
  // [/delay]

  const auto begin = std::chrono::steady_clock::now();
  std::mutex mutex;
  std::multiset<std::string> bodies;
  std::counting_semaphore<> arrived(0);
  auto consumer =
      tenon::PushConsumer::concurrent(
          client,
          {.group = "reminded", .subscriptions = {{"Reminders", {}}}, .start = tenon::FromFirst{}},
          [&](std::span<const tenon::MessageView> batch) {
            const std::scoped_lock lock(mutex);
            bodies.emplace(batch[0].body());
            arrived.release();
            return tenon::Ack::success();
          })
          .value();
  const bool both = arrived.try_acquire_for(20s) && arrived.try_acquire_for(20s);
  const auto took = std::chrono::steady_clock::now() - begin;
  std::printf("%zu reminders after %lld ms, recalled: %s\n",
              bodies.size(),
              static_cast<long long>(took / 1ms),
              recalled ? recalled->c_str() : recalled.error().text().c_str());
  const std::scoped_lock lock(mutex);
  return both && recalled && took > 500ms && bodies == std::multiset<std::string>{"soon", "then"}
             ? 0
             : 1;
}
