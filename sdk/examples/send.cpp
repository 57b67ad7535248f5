// Sends three messages, one after another: send --namesrv HOST:PORT TOPIC
#include <cstdio>
#include <string>

#include <tenon/sdk.h>

int main(int argc, char** argv) {
  if (argc != 4 || std::string(argv[1]) != "--namesrv") {
    std::fprintf(stderr, "usage: %s --namesrv HOST:PORT TOPIC\n", argv[0]);
    return 2;
  }
  // [send]
  auto client = tenon::Client::connect({.name_servers = argv[2]}).value();
  auto producer = tenon::Producer::open(client, {.group = "example_send"}).value();

  for (int i = 1; i <= 3; ++i) {
    auto r = producer.send({.topic = argv[3],
                            .body = "hello " + std::to_string(i),
                            .tag = "greeting",
                            .keys = {"hello-" + std::to_string(i)}});
    if (!r) {
      // outcome_unknown: it may be stored, so sending it again may duplicate it
      std::fprintf(stderr,
                   "not sent: %s%s\n",
                   r.error().text().c_str(),
                   r.error().outcome_unknown ? " (may be stored)" : "");
      return 1;
    }
    std::printf("sent %s to %s/%d at offset %lld%s\n",
                r->id.c_str(),
                r->queue.broker.c_str(),
                r->queue.id,
                static_cast<long long>(r->queue_offset),
                r->durable() ? "" : " (stored, not as safe as promised)");
  }
  // [/send]
}
