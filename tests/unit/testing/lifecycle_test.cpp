// Handles that come and go: nothing is left behind, and destructors may run anywhere.
#include "fixture.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <malloc.h>

using namespace tenon::sdk;
using namespace std::chrono_literals;
using fixture::eventually;
using fixture::message;
using fixture::Rig;
using tenon::testing::Call;
using tenon::testing::Fault;
using tenon::testing::FaultKind;

namespace {

/// 200, or TENON_LIFE_CYCLES for a longer look.
int cycles() {
  const char* text = std::getenv("TENON_LIFE_CYCLES");
  return text == nullptr ? 200 : std::atoi(text);
}

std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

PushConsumerOptions group(std::string name) {
  PushConsumerOptions options;
  options.group = std::move(name);
  options.subscriptions["T"] = Subscription();
  options.start = FromFirst{};
  return options;
}

struct Always {
  TxState execute(const Message&, const Receipt&) { return TxState::kCommit; }
  TxState check(const MessageView&) { return TxState::kCommit; }
};

/// One of everything, used once.
void one_life(const tenon::testing::Broker& broker, int i) {
  Client client = Client::connect({.name_servers = broker.name_servers()}).value();
  Producer producer = Producer::open(client, {.group = "g"}).value();
  const auto listener = [](std::span<const MessageView>) { return Ack::success(); };
  PushConsumer consumer = PushConsumer::concurrent(client, group("c"), listener).value();
  if (i % 4 == 0) {
    CHECK(producer.send(message("T")).has_value());
    auto pull = PullConsumer::open(client, {.group = "pull", .subscriptions = {{"T", {}}}});
    CHECK(pull.has_value());
    auto transactions = TransactionProducer::open(client, {.producer = {.group = "tx"}}, Always());
    CHECK(transactions->send(message("T")).has_value());
  }
}

}  // namespace

TEST_SUITE("sdk/lifecycle") {
  TEST_CASE("many lives leave no thread, no descriptor and no memory behind") {
    Rig rig;
    for (int i = 0; i < 8; ++i) {  // what is made once for all
      one_life(rig.broker, i);
    }
    const auto threads = entries("/proc/self/task");
    const auto descriptors = entries("/proc/self/fd");
    const std::size_t memory = ::mallinfo2().uordblks;
    for (int i = 0; i < cycles(); ++i) {
      one_life(rig.broker, i);
    }
    // The broker sees closed connections a moment later.
    CHECK(eventually([&] { return entries("/proc/self/fd") <= descriptors; }));
    CHECK(eventually([&] { return entries("/proc/self/task") <= threads; }));
    const std::size_t after = ::mallinfo2().uordblks;
    // The broker keeps the messages: one for four lives, and a transaction's three records.
    const std::size_t kept = static_cast<std::size_t>(cycles()) * 1024 + (2u << 20);
    CHECK(after < memory + kept);
    MESSAGE(cycles() << " lives, bytes in use before " << memory << ", after " << after);
  }

  TEST_CASE("handles are destroyed on other threads, the client first or last") {
    Rig rig;
    for (int i = 0; i < 20; ++i) {
      auto client = std::make_unique<Client>(
          Client::connect({.name_servers = rig.broker.name_servers()}).value());
      auto producer =
          std::make_unique<Producer>(Producer::open(*client, {.group = "other"}).value());
      auto consumer = std::make_unique<PushConsumer>(
          PushConsumer::concurrent(*client, group("other"), [](std::span<const MessageView>) {
            return Ack::success();
          }).value());
      std::vector<std::thread> threads;
      threads.emplace_back([&] { producer.reset(); });
      threads.emplace_back([&] { consumer.reset(); });
      if (i % 2 == 0) {
        threads.emplace_back([&] { client.reset(); });
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
    }
  }

  TEST_CASE("calls in flight: each callback once, before the destructor returns") {
    Rig rig;
    REQUIRE(rig.producer.send(message("T")).has_value());
    Fault ignore;
    ignore.kind = FaultKind::kIgnore;
    ignore.times = -1;
    rig.broker.inject(ignore);
    std::atomic<int> called{0};
    auto producer =
        std::make_unique<Producer>(Producer::open(rig.client, {.group = "flight"}).value());
    for (int i = 0; i < 100; ++i) {
      producer->async_send(message("T"), [&](Result<Receipt> r) {
        CHECK(r.error().is(Errc::kCancelled));
        ++called;
      });
    }
    std::thread([&] { producer.reset(); }).join();
    CHECK(called.load() == 100);
  }

  TEST_CASE("a blocking send is cancelled by the destructor of another thread's handle") {
    Rig rig;
    REQUIRE(rig.producer.send(message("T")).has_value());
    Fault ignore;
    ignore.kind = FaultKind::kIgnore;
    rig.broker.inject(ignore);
    const auto before = rig.broker.requests(Call::kSend);
    auto producer = Producer::open(rig.client, {.group = "blocked", .send_timeout = 60s}).value();
    std::optional<Result<Receipt>> result;
    std::thread sender([&] { result = producer.send(message("T")); });
    CHECK(eventually([&] { return rig.broker.requests(Call::kSend) > before; }));
    (void)producer.close(0ms);
    sender.join();
    REQUIRE(result.has_value());
    CHECK(result->error().is(Errc::kCancelled));
    CHECK(result->error().outcome_unknown);
  }

  TEST_CASE("a push consumer is destroyed inside its listener, concurrent and orderly") {
    for (const bool orderly : {false, true}) {
      Rig rig;
      REQUIRE(rig.producer.send(message("T")).has_value());
      std::mutex mutex;
      std::optional<PushConsumer> consumer;
      std::atomic<bool> gone{false};
      const auto end = [&] {
        const std::scoped_lock lock(mutex);  // until it is where it is destroyed
        consumer.reset();
        gone = true;
      };
      {
        const std::scoped_lock lock(mutex);
        auto opened = orderly ? PushConsumer::orderly(rig.client,
                                                      group("inside"),
                                                      [&](std::span<const MessageView>) {
                                                        end();
                                                        return OrderAck::success();
                                                      })
                              : PushConsumer::concurrent(
                                    rig.client, group("inside"), [&](std::span<const MessageView>) {
                                      end();
                                      return Ack::success();
                                    });
        consumer.emplace(std::move(opened).value());
      }
      CHECK(eventually([&] { return gone.load(); }));
    }
  }

  TEST_CASE("the destructor of a consumer waits for the listener that runs") {
    Rig rig;
    REQUIRE(rig.producer.send(message("T")).has_value());
    std::atomic<bool> inside{false};
    std::atomic<bool> let_go{false};
    std::atomic<bool> left{false};
    auto consumer = std::make_unique<PushConsumer>(
        PushConsumer::concurrent(rig.client, group("slow"), [&](std::span<const MessageView>) {
          inside = true;
          while (!let_go) {
            std::this_thread::yield();
          }
          left = true;
          return Ack::success();
        }).value());
    REQUIRE(eventually([&] { return inside.load(); }));
    std::atomic<bool> destroyed{false};
    std::thread destroyer([&] {
      consumer.reset();
      destroyed = true;
    });
    CHECK_FALSE(destroyed.load());
    let_go = true;
    destroyer.join();
    CHECK(left.load());
  }

  TEST_CASE("a transaction producer is destroyed in the callback of its send") {
    Rig rig;
    std::optional<TransactionProducer> producer;
    std::atomic<bool> gone{false};
    producer.emplace(
        TransactionProducer::open(rig.client, {.producer = {.group = "tx"}}, Always()).value());
    producer->async_send(message("T"), [&](Result<TransactionReceipt> r) {
      CHECK(r.has_value());
      producer.reset();
      gone = true;
    });
    CHECK(eventually([&] { return gone.load(); }));
  }

  TEST_CASE("everything goes while the broker is away") {
    auto rig = std::make_unique<Rig>();
    auto consumer = std::make_unique<PushConsumer>(
        PushConsumer::concurrent(rig->client, group("away"), [](std::span<const MessageView>) {
          return Ack::success();
        }).value());
    auto pull = std::make_unique<PullConsumer>(
        PullConsumer::open(rig->client, {.group = "away_pull", .subscriptions = {{"T", {}}}})
            .value());
    rig->broker.stop();
    rig->broker.stop_name_server();
    const auto begin = std::chrono::steady_clock::now();
    consumer.reset();
    pull.reset();
    rig.reset();
    CHECK(std::chrono::steady_clock::now() - begin < 15s);
  }
}
