// Messages when the program asks for them: pull (name servers from NAMESRV_ADDR)
#include <chrono>
#include <cstdio>
#include <string>

#include <tenon/sdk.h>

using namespace std::chrono_literals;

int main() {
  auto client = tenon::Client::connect().value();
  auto producer = tenon::Producer::open(client, {.group = "orders"}).value();
  for (int i = 0; i < 5; ++i) {
    if (!producer.send({.topic = "Orders", .body = std::to_string(i)})) {
      return 1;
    }
  }
  int archived = 0;
  const auto archive = [&](const tenon::MessageView& message) {
    std::printf("%s\n", std::string(message.body()).c_str());
    ++archived;
  };
  const auto deadline = std::chrono::steady_clock::now() + 20s;

  // [pull]
  auto consumer =
      tenon::PullConsumer::open(
          client,
          {.group = "audit", .subscriptions = {{"Orders", {}}}, .start = tenon::FromFirst{}})
          .value();
  while (archived < 5 && std::chrono::steady_clock::now() < deadline) {
    for (const auto& message : consumer.poll(1s)) {  // of one queue, in its order
      archive(message);
    }
    if (auto done = consumer.commit(); !done) {  // what was polled does not come again
      std::fprintf(stderr, "%s\n", done.error().text().c_str());
    }
  }
  // [/pull]
  return archived == 5 && consumer.close() ? 0 : 1;
}
