// A question and its answer over two topics: request_reply (name servers from NAMESRV_ADDR)
#include <chrono>
#include <cstdio>
#include <string>

#include <tenon/sdk.h>

using namespace std::chrono_literals;

int main() {
  auto client = tenon::Client::connect().value();

  // [reply]
  auto answers = tenon::Producer::open(client, {.group = "prices_answers"}).value();
  auto service =
      tenon::PushConsumer::concurrent(
          client,
          {.group = "prices", .subscriptions = {{"Prices", {}}}, .start = tenon::FromFirst{}},
          [&](std::span<const tenon::MessageView> batch) {
            const std::string what(batch[0].body());
            auto sent = answers.reply(batch[0], {.body = "42 EUR for " + what});
            return sent ? tenon::Ack::success() : tenon::Ack::retry();
          })
          .value();
  // [/reply]

  // [request]
  auto producer = tenon::Producer::open(client, {.group = "shop"}).value();
  auto reply = producer.request({.topic = "Prices", .body = "tea"}, {.timeout = 10s});
  if (!reply) {  // kRequestTimeout: it was sent, nobody answered in time
    std::fprintf(stderr, "%s\n", reply.error().text().c_str());
    return 1;
  }
  std::printf("%s\n", std::string(reply->body()).c_str());
  // [/request]
  return reply->body() == "42 EUR for tea" ? 0 : 1;
}
