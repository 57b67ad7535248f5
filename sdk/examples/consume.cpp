// Prints what a topic holds until nothing has come for some seconds, five unless told:
// consume --namesrv HOST:PORT TOPIC [SECONDS]
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <tenon/sdk.h>

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5 || std::string(argv[1]) != "--namesrv") {
    std::fprintf(stderr, "usage: %s --namesrv HOST:PORT TOPIC [SECONDS]\n", argv[0]);
    return 2;
  }
  const std::chrono::seconds silence(argc == 5 ? std::atoi(argv[4]) : 5);
  auto client = tenon::Client::connect({.name_servers = argv[2]}).value();

  std::atomic<int> received{0};
  // [consume]
  auto listener = [&](std::span<const tenon::MessageView> batch) {
    for (const auto& m : batch) {
      std::printf("%s %s/%d@%lld [%.*s] %.*s\n",
                  m.id().c_str(),
                  std::string(m.broker()).c_str(),
                  m.queue_id(),
                  static_cast<long long>(m.queue_offset()),
                  static_cast<int>(m.tag().size()),
                  m.tag().data(),
                  static_cast<int>(m.body().size()),
                  m.body().data());
      ++received;
    }
    return tenon::Ack::success();  // or retry(), partial(n), dead_letter()
  };
  auto consumer = tenon::PushConsumer::concurrent(client,
                                                  {.group = "example_consume",
                                                   .subscriptions = {{argv[3], {"*"}}},
                                                   .start = tenon::FromFirst{}},
                                                  listener)
                      .value();
  // [/consume]

  for (int before = -1; before != received.load();) {
    before = received.load();
    std::this_thread::sleep_for(silence);
  }
  if (auto r = consumer.close(); !r) {  // waits for listeners, commits, leaves the group
    std::fprintf(stderr, "%s\n", r.error().text().c_str());
  }
  std::printf("%d messages\n", received.load());
}
