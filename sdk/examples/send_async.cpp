// Sends with callbacks and in a coroutine: send_async --namesrv HOST:PORT TOPIC
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>

#include <tenon/sdk.h>

using namespace std::chrono_literals;

namespace {

// [coroutine]
tenon::Task<bool> greet(tenon::Producer& producer, std::string topic) {
  tenon::Message first{.topic = topic, .body = "from a coroutine"};  // named, then moved in
  auto a = co_await producer.async_send(std::move(first));
  if (!a) {
    co_return false;
  }
  tenon::Message second{.topic = topic, .body = "the next, after " + a->id};
  auto b = co_await producer.async_send(std::move(second), {.timeout = 2s});
  co_return b.has_value();
}
// [/coroutine]

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || std::string(argv[1]) != "--namesrv") {
    std::fprintf(stderr, "usage: %s --namesrv HOST:PORT TOPIC\n", argv[0]);
    return 2;
  }
  const std::string topic = argv[3];
  auto client = tenon::Client::connect({.name_servers = argv[2]}).value();
  auto producer = tenon::Producer::open(client, {.group = "example_send_async"}).value();

  const bool greeted = greet(producer, topic).get();
  // [callback]
  std::atomic<int> stored{0};
  for (int i = 0; i < 1000; ++i) {
    producer.async_send({.topic = topic, .body = "number " + std::to_string(i)},
                        [&](tenon::Result<tenon::Receipt> r) {
                          if (r) {
                            ++stored;
                          } else {
                            std::fprintf(stderr, "%s\n", r.error().text().c_str());
                          }
                        });
  }
  auto drained = producer.close(10s);  // every callback has been called when this returns
  // [/callback]
  std::printf("%d of 1000 stored, coroutine %s\n", stored.load(), greeted ? "ok" : "failed");
  return drained && greeted && stored == 1000 ? 0 : 1;
}
