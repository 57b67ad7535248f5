// Sends a few messages and receives them again: the smallest complete use of the client library.
// tests/quickstart.sh runs it against `tenon dev`; it works against any RocketMQ cluster.
//
//   example_quickstart HOST:PORT [COUNT]     address of a name server
#include "tenon/sdk.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

using Clock = std::chrono::steady_clock;
namespace sdk = tenon::sdk;

namespace {

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// What both sides know: when which message was sent, and how many have arrived.
struct Board {
  std::mutex mutex{};
  std::condition_variable changed{};
  std::map<std::string, Clock::time_point> sent_at{};  ///< by the body of the message
  int received = 0;
};

int run(const std::string& name_server, int count) {
  sdk::ClientOptions options;
  options.name_servers = name_server;
  sdk::Client client = sdk::Client::connect(options).value();
  const std::string topic = "QuickstartTopic";
  const std::string run =
      std::to_string(std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1));
  Board board;

  // The topic does not exist on the first run: the broker makes it for the first message.
  sdk::Producer producer = sdk::Producer::open(client).value();
  for (int i = 1; i <= count; ++i) {
    sdk::Message message;
    message.topic = topic;
    message.tag = "hello";
    message.keys = {"greeting-" + run + "-" + std::to_string(i)};
    message.body = "hello " + std::to_string(i) + " of run " + run;
    const auto begin = Clock::now();
    {
      const std::scoped_lock lock(board.mutex);
      board.sent_at[message.body] = begin;
    }
    const sdk::Receipt receipt = producer.send(std::move(message)).value();
    std::printf("sent      %s  queue %d offset %lld  %6.2f ms\n",
                receipt.id.c_str(),
                receipt.queue.id,
                static_cast<long long>(receipt.queue_offset),
                milliseconds_since(begin));
  }

  // A consumer of a new group that starts at the first message; its listener runs on own threads.
  sdk::PushConsumerOptions consume;
  consume.group = "QuickstartGroup" + run;
  consume.subscriptions[topic] = {};
  consume.start = sdk::FromFirst{};
  const auto joined = Clock::now();
  auto consumer = sdk::PushConsumer::concurrent(
      client, std::move(consume), [&](std::span<const sdk::MessageView> batch) {
        const std::scoped_lock lock(board.mutex);
        for (const sdk::MessageView& message : batch) {
          if (!board.sent_at.contains(std::string(message.body()))) {
            continue;  // of an earlier run on the same store
          }
          std::printf("received  %s  queue %d offset %lld  %6.2f ms after joining  \"%.*s\"\n",
                      message.id().c_str(),
                      message.queue_id(),
                      static_cast<long long>(message.queue_offset()),
                      milliseconds_since(joined),
                      static_cast<int>(message.body().size()),
                      message.body().data());
          ++board.received;
        }
        board.changed.notify_all();
        return sdk::Ack::success();
      });
  if (!consumer) {
    std::fprintf(stderr, "consumer: %s\n", consumer.error().text().c_str());
    return 1;
  }
  bool complete = false;
  {
    std::unique_lock lock(board.mutex);
    complete = board.changed.wait_for(
        lock, std::chrono::seconds(30), [&] { return board.received >= count; });
  }
  if (const auto closed = consumer->close(); !closed) {
    std::fprintf(stderr, "close: %s\n", closed.error().text().c_str());
  }
  std::printf("%d of %d messages received\n", board.received, count);
  return complete ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: example_quickstart HOST:PORT [COUNT]\n");
    return 2;
  }
  try {
    return run(argv[1], argc > 2 ? std::atoi(argv[2]) : 5);
  } catch (const sdk::ResultError& problem) {  // of value()
    std::fprintf(stderr, "quickstart: %s\n", problem.what());
    return 1;
  }
}
