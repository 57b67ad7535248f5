// An application that uses Boost.Asio and spdlog itself: foreign --namesrv HOST:PORT TOPIC
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/container/small_vector.hpp>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>

#include <tenon/sdk.h>

int main(int argc, char** argv) {
  if (argc != 4) {
    return 2;
  }
  auto logger = spdlog::create<spdlog::sinks::null_sink_mt>("app");
  boost::asio::io_context context;
  boost::container::small_vector<int, 4> order;
  boost::asio::steady_timer timer(context, std::chrono::milliseconds(1));
  bool stored = false;
  timer.async_wait([&](const auto&) { order.push_back(2); });
  boost::asio::post(context, [&] {
    auto client = tenon::Client::connect({.name_servers = argv[2]}).value();
    auto producer = tenon::Producer::open(client, {.group = "foreign"}).value();
    stored = producer.send({.topic = argv[3], .body = "hello"}).has_value();
    logger->info("stored {}", stored);
    order.push_back(1);
  });
  context.run();
  return stored && order.size() == 2 && order[0] == 1 && spdlog::get("app") == logger ? 0 : 1;
}
