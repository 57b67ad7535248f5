#include "fake_cluster.h"
#include "producer_core.h"

#include "tenon/base/endian.h"
#include "tenon/proto/message.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;
namespace proto = tenon::proto;
using detail::ProducerCore;
using proto::RequestCode;
using proto::ResponseCode;

namespace {

Message to(std::string topic, std::string body = "body") {
  Message m;
  m.topic = std::move(topic);
  m.body = std::move(body);
  return m;
}

/// A producer of a cluster with topic T on the given brokers.
struct Fixture {
  explicit Fixture(const std::vector<std::string>& brokers = {"a", "b"},
                   std::int32_t queues = 4,
                   ProducerOptions options = {}) {
    cluster.add_topic("T", brokers, queues);
    client = cluster.client(&clock);
    producer = ProducerCore::create(*client, std::move(options)).value();
  }
  ~Fixture() { producer->stop(); }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  /// Answers the first `n` sends so.
  void script(std::vector<Outcome> outcomes) {
    auto left = std::make_shared<std::vector<Outcome>>(std::move(outcomes));
    cluster.set_hook([left](const Request& r) -> std::optional<Outcome> {
      if ((r.command.code != RequestCode::kSendMessageV2 &&
           r.command.code != RequestCode::kSendBatchMessage) ||
          left->empty()) {
        return std::nullopt;
      }
      Outcome o = std::move(left->front());
      left->erase(left->begin());
      return o;
    });
  }
  std::vector<Request> sends() { return cluster.requests(RequestCode::kSendMessageV2); }
  Result<Receipt> send_async(Message m) {
    std::optional<Result<Receipt>> result;
    std::atomic<bool> done{false};
    producer->start(
        std::move(m),
        [&](Result<Receipt> r) {
          result.emplace(std::move(r));
          done = true;
          done.notify_all();
        },
        {},
        SendForm::kAsync);
    done.wait(false);
    return std::move(*result);
  }

  tenon::ManualClock clock;
  FakeCluster cluster;
  std::shared_ptr<detail::ClientCore> client;
  std::shared_ptr<ProducerCore> producer;
};

std::string broker_of(const Request& r) {
  return r.address.substr(0, r.address.find(':'));
}

}  // namespace

TEST_SUITE("sdk/producer") {
  TEST_CASE("options are checked") {
    FakeCluster cluster;
    const auto client = cluster.client();
    const auto refused = [&](ProducerOptions o) {
      const auto r = ProducerCore::create(*client, std::move(o));
      return !r && r.error().is(Errc::kInvalidArgument);
    };
    CHECK(refused({.group = "a b"}));
    CHECK(refused({.group = "DEFAULT_PRODUCER"}));
    CHECK(refused({.send_timeout = 0ms}));
    CHECK(refused({.retries = -1}));
    CHECK(refused({.default_topic_queues = 0}));
    CHECK(refused({.in_flight_max = 0}));
    CHECK(refused({.in_flight_max_bytes = 0}));
    CHECK(ProducerCore::create(*client, {.selector = "no.such"}).error().is(Errc::kNotFound));
    CHECK(ProducerCore::create(*client, {}).has_value());
  }

  TEST_CASE("round robin covers all queues evenly") {  // client §14.23
    Fixture f({"a", "b"}, 4);
    std::map<Queue, int> count;
    for (int i = 0; i < 80; ++i) {
      const auto r = f.producer->send(to("T"), {});
      REQUIRE(r.has_value());
      ++count[r->queue];
    }
    CHECK(count.size() == 8);
    for (const auto& [queue, n] : count) {
      CHECK(n == 10);
    }
  }

  TEST_CASE("a receipt shows what the broker said") {
    Fixture f({"a"}, 1);
    const auto r = f.producer->send(to("T"), {});
    REQUIRE(r.has_value());
    CHECK(r->status == SendStatus::kOk);
    CHECK(r->durable());
    CHECK(r->id.size() == 32);
    CHECK(r->offset_id == "0A00000100002A9F0000000000000000");
    CHECK(r->queue == Queue{"T", "a", 0});
    CHECK(r->queue_offset == 0);
    CHECK(r->region == "DefaultRegion");
    CHECK(proto::find_property(f.cluster.stored({"T", "a", 0})[0].properties, "UNIQ_KEY") == r->id);
  }

  TEST_CASE("10, 11 and 12 are receipts with a weaker status") {  // client §9.8, §11 D2, §14.19
    const std::pair<int, SendStatus> cases[] = {{10, SendStatus::kFlushDiskTimeout},
                                                {11, SendStatus::kSlaveNotAvailable},
                                                {12, SendStatus::kFlushSlaveTimeout}};
    for (const auto& [code, status] : cases) {
      Fixture f;
      f.script({Outcome::code(code)});
      const auto r = f.producer->send(to("T"), {});
      REQUIRE(r.has_value());
      CHECK(r->status == status);
      CHECK_FALSE(r->durable());
      CHECK(f.sends().size() == 1);
    }
    ProducerOptions again;
    again.retry_not_stored_ok = true;
    Fixture f({"a", "b"}, 1, again);
    f.script({Outcome::code(10)});
    CHECK(f.producer->send(to("T"), {})->durable());
    CHECK(f.sends().size() == 2);
  }

  TEST_CASE(
      "a refused code is tried again at another broker, with the same bytes") {  // client §11 L9, §14.16, §14.20
    for (const int code : {1, 14, 16, 17, 204, 205}) {
      CAPTURE(code);
      Fixture f({"a", "b"}, 4);
      f.script({Outcome::code(code, "no")});
      const auto r = f.producer->send(to("T", std::string(5000, 'x')), {});
      REQUIRE(r.has_value());
      const auto sends = f.sends();
      REQUIRE(sends.size() == 2);
      CHECK(broker_of(sends[0]) != broker_of(sends[1]));
      CHECK(sends[0].command.field("i") == sends[1].command.field("i"));  // the id is kept
      CHECK(sends[0].command.body == sends[1].command.body);              // compressed once
      CHECK(sends[1].command.field("f") == "769");
      CHECK(sends[1].command.field("n") == std::string_view(r->queue.broker));
      CHECK(proto::decompress(tenon::as_bytes(sends[1].command.body), 769).value() ==
            std::string(5000, 'x'));
    }
  }

  TEST_CASE("13 and 2 are reported at once, with code and remark") {  // client §14.20
    for (const int code : {2, 13}) {
      Fixture f;
      f.script({Outcome::code(code, "because")});
      const auto r = f.producer->send(to("T"), {});
      REQUIRE_FALSE(r.has_value());
      CHECK(r.error().is(Errc::kRefused));
      CHECK(r.error().response == code);
      CHECK(r.error().remark == "because");
      CHECK_FALSE(r.error().outcome_unknown);
      CHECK(f.sends().size() == 1);
    }
    ProducerOptions o;
    o.retry_busy = true;
    Fixture f({"a", "b"}, 1, o);
    f.script({Outcome::code(2)});
    CHECK(f.producer->send(to("T"), {}).has_value());
  }

  TEST_CASE("attempts end after 1 + retries") {
    Fixture f;
    f.script({Outcome::code(14), Outcome::code(14), Outcome::code(14, "last"), Outcome::code(14)});
    const auto r = f.producer->send(to("T"), {});
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().response == 14);
    CHECK(r.error().remark.find("last (Send [3] times, still failed") == 0);
    CHECK(f.sends().size() == 3);
  }

  TEST_CASE(
      "asynchronous: a broker's error is not tried again, a lost connection is") {  // client §11 D10, §14.21
    Fixture f({"a", "b"}, 4);
    f.script({Outcome::code(1, "x")});
    CHECK(f.send_async(to("T")).error().response == 1);
    CHECK(f.sends().size() == 1);

    f.script({Outcome::fail(tenon::Errc::kClosed)});
    const auto r = f.send_async(to("T"));
    REQUIRE(r.has_value());
    const auto sends = f.sends();
    REQUIRE(sends.size() == 3);
    CHECK(broker_of(sends[1]) != broker_of(sends[2]));
    // Trap D10: queue and broker of the new attempt, not of the old one
    CHECK(sends[2].command.field("n") == std::string_view(broker_of(sends[2])));
    CHECK(r->queue.broker == broker_of(sends[2]));
  }

  TEST_CASE("an outcome once unknown stays unknown") {
    Fixture f;
    f.script({Outcome::fail(tenon::Errc::kClosed), Outcome::code(13)});
    const auto r = f.producer->send(to("T"), {});
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().response == 13);
    CHECK(r.error().outcome_unknown);
  }

  TEST_CASE("no attempt begins after the deadline") {  // client §9.5, §11 D1, §14.20
    Fixture f;
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      if (r.command.code != RequestCode::kSendMessageV2) {
        return std::nullopt;
      }
      f.clock.advance_ms(3000);
      return Outcome::fail(tenon::Errc::kTimeout);
    });
    const auto r = f.producer->send(to("T"), {});
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().is(Errc::kTimeout));
    CHECK(r.error().outcome_unknown);
    CHECK(f.sends().size() == 1);
  }

  TEST_CASE("a given queue and a selector: exactly one attempt, that queue") {
    Fixture f({"a", "b"}, 4);  // client §14.22
    const Queue queue{"T", "b", 3};
    SendOptions fixed;
    fixed.queue = &queue;
    CHECK(f.producer->send(to("T"), fixed)->queue == queue);
    f.script({Outcome::code(1), Outcome::code(1)});
    CHECK_FALSE(f.producer->send(to("T"), fixed).has_value());
    CHECK(f.sends().size() == 2);
    const Queue elsewhere{"U", "b", 3};
    fixed.queue = &elsewhere;
    CHECK(f.producer->send(to("T"), fixed).error().remark ==
          "message's topic not equal mq's topic");
    const Queue nowhere{"T", "z", 0};
    fixed.queue = &nowhere;
    CHECK(f.producer->send(to("T"), fixed).error().is(Errc::kBrokerNotExist));

    f.script({});
    SendOptions selected;
    const Selector select = [](std::span<const Queue> all, const Message& m) {
      CHECK(all.size() == 8);
      CHECK(m.body == "body");
      return 6;
    };
    selected.select = &select;
    CHECK(f.producer->send(to("T"), selected)->queue == Queue{"T", "b", 2});
    const Selector bad = [](std::span<const Queue>, const Message&) { return 8; };
    selected.select = &bad;
    CHECK(f.producer->send(to("T"), selected).error().remark == "select message queue return null");
    const Selector throws = [](std::span<const Queue>, const Message&) -> int {
      throw std::runtime_error("broken");
    };
    selected.select = &throws;
    CHECK(f.producer->send(to("T"), selected).error().is(Errc::kInvalidArgument));
  }

  TEST_CASE("connection refused and the route has changed: the new broker gets it") {
    Fixture f({"a"}, 1);
    REQUIRE(f.producer->send(to("T"), {}).has_value());
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      if (r.command.code == RequestCode::kSendMessageV2 && broker_of(r) == "a") {
        f.cluster.add_topic("T", {"b"}, 1);
        return Outcome::fail(tenon::Errc::kNotReady);
      }
      return std::nullopt;
    });
    const auto r = f.producer->send(to("T"), {});
    REQUIRE(r.has_value());
    CHECK(r->queue.broker == "b");
  }

  TEST_CASE("an unknown topic without TBW102 is error 10005") {
    Fixture f;
    const auto r = f.producer->send(to("unknown"), {});
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().code.value() == 10005);
    CHECK_FALSE(r.error().outcome_unknown);
  }

  TEST_CASE("one-way: one request with the flag, no answer") {
    Fixture f;
    CHECK(f.producer->send_oneway(to("T"), {}).has_value());
    CHECK(eventually([&] { return f.sends().size() == 1; }));
    CHECK(f.sends()[0].oneway);
    CHECK(f.sends()[0].command.flag == proto::kFlagOneway);
  }

  TEST_CASE("a batch is one request whose entries have ids of their own") {
    Fixture f({"a"}, 1);
    std::vector<Message> batch{to("T", "one"), to("T", "two")};
    batch[0].tag = "A";
    const auto r = f.producer->send_batch(batch, {}, nullptr);
    REQUIRE(r.has_value());
    REQUIRE(r->size() == 1);
    CHECK(r->front().id.size() == 65);
    const auto sends = f.cluster.requests(RequestCode::kSendBatchMessage);
    REQUIRE(sends.size() == 1);
    CHECK(sends[0].command.field("m") == "true");
    CHECK(sends[0].command.field("i") == "WAIT\x01true");
    proto::BatchReader reader(tenon::as_bytes(sends[0].command.body));
    proto::BatchEntry entry;
    std::vector<std::string> bodies;
    std::set<std::string> ids;
    while (reader.next(entry)) {
      bodies.emplace_back(tenon::as_text(entry.body));
      ids.insert(std::string(proto::find_property(entry.properties, "UNIQ_KEY").value_or("")));
    }
    CHECK(reader.ok());
    CHECK(bodies == std::vector<std::string>{"one", "two"});
    CHECK(ids.size() == 2);
  }

  TEST_CASE("a batch that is too large is split, one receipt per chunk") {
    ProducerOptions o;
    o.max_body_bytes = 300;
    Fixture f({"a"}, 1, o);
    std::vector<Message> batch(10, to("T", std::string(50, 'x')));
    std::vector<Receipt> sent;
    const auto r = f.producer->send_batch(batch, {}, &sent);
    REQUIRE(r.has_value());
    CHECK(r->size() > 1);
    CHECK(sent.size() == r->size());
    std::size_t entries = 0;
    for (const Request& q : f.cluster.requests(RequestCode::kSendBatchMessage)) {
      CHECK(q.command.body.size() <= 300);
      proto::BatchReader reader(tenon::as_bytes(q.command.body));
      for (proto::BatchEntry e; reader.next(e);) {
        ++entries;
      }
    }
    CHECK(entries == 10);
    // a failure in the middle tells what is stored
    sent.clear();
    f.script({Outcome::ok(), Outcome::code(13)});
    CHECK_FALSE(f.producer->send_batch(batch, {}, &sent).has_value());
    CHECK(sent.size() == 1);
  }

  TEST_CASE("what cannot be in a batch") {
    Fixture f;
    const auto refused = [&](std::vector<Message> batch) {
      return f.producer->send_batch(batch, {}, nullptr).error().is(Errc::kInvalidArgument);
    };
    CHECK(refused({}));
    CHECK(refused({to("T"), to("U")}));
    CHECK(refused({to("%RETRY%g")}));
    std::vector<Message> batch{to("T"), to("T")};
    batch[1].delay_level = 1;
    CHECK(refused(batch));
    batch[1].delay_level = 0;
    batch[1].wait_store_ok = false;
    CHECK(refused(batch));
  }

  TEST_CASE(
      "sends in flight are limited by number and by bytes; there is room when one has ended") {
    const auto hold = [](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kSendMessageV2 ? std::optional(Outcome::hold())
                                                           : std::nullopt;
    };
    ProducerOptions options{.in_flight_max = 3, .in_flight_max_bytes = 100};
    Fixture f({"a"}, 4, options);
    f.cluster.set_hook(hold);
    std::atomic<int> ended{0};
    const auto send = [&](std::size_t bytes) {
      std::optional<Result<Receipt>> refused;
      f.producer->start(
          to("T", std::string(bytes, 'x')),
          [&ended, &refused](Result<Receipt> r) {
            if (!r && r.error().is(Errc::kBusy)) {
              refused.emplace(std::move(r));
            } else {
              ++ended;
            }
          },
          {},
          SendForm::kAsync);
      return refused;
    };
    SUBCASE("by number") {
      for (int i = 0; i < 3; ++i) {
        CHECK_FALSE(send(1));
      }
      const auto fourth = send(1);
      REQUIRE(fourth);
      CHECK(fourth->error().text().find("in_flight_max (3)") != std::string::npos);
      CHECK_FALSE(fourth->error().outcome_unknown);
    }
    SUBCASE("by bytes") {
      CHECK_FALSE(send(60));
      const auto second = send(41);
      REQUIRE(second);
      CHECK(second->error().text().find("in_flight_max_bytes (100)") != std::string::npos);
      CHECK_FALSE(send(40));
    }
    SUBCASE("one message alone always fits") {
      CHECK_FALSE(send(500));
      CHECK(send(1));
    }
    // A blocking caller waits anyhow.
    f.cluster.set_hook(nullptr);
    CHECK(f.producer->send(to("T"), {}).has_value());
    f.cluster.set_hook(hold);
    const auto held = static_cast<int>(f.sends().size()) - 1;
    f.cluster.release_held(tenon::Errc::kTimeout);
    CHECK(eventually([&] { return ended.load() == held; }));
    CHECK(f.producer->drain(10s));
    CHECK_FALSE(send(100));
    CHECK(send(1));
    f.producer->stop();
  }

  TEST_CASE("stop fails what is in flight, each exactly once, and what comes after") {
    Fixture f;
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kSendMessageV2 ? std::optional(Outcome::hold())
                                                           : std::nullopt;
    });
    std::atomic<int> cancelled{0};
    std::atomic<int> other{0};
    const auto done = [&](Result<Receipt> r) {
      (!r && r.error().is(Errc::kCancelled) ? cancelled : other)++;
    };
    for (int i = 0; i < 200; ++i) {
      f.producer->start(to("T"), done, {}, SendForm::kAsync);
    }
    CHECK(eventually([&] { return f.sends().size() == 200; }));
    CHECK_FALSE(f.producer->drain(10ms));
    f.producer->stop();
    CHECK(cancelled.load() == 200);
    f.producer->start(to("T"), done, {}, SendForm::kAsync);
    CHECK(cancelled.load() == 201);
    CHECK(other.load() == 0);
    CHECK(f.producer->send(to("T"), {}).error().is(Errc::kCancelled));
  }

  TEST_CASE("a callback may send the next message and may stop the producer") {
    Fixture f({"a"}, 1);
    std::atomic<int> left{100};
    std::atomic<bool> done{false};
    std::function<void(Result<Receipt>)> next = [&](Result<Receipt> r) {
      CHECK(r.has_value());
      if (--left > 0) {
        f.producer->start(to("T"), next, {}, SendForm::kAsync);
      } else {
        f.producer->stop();
        done = true;
        done.notify_all();
      }
    };
    f.producer->start(to("T"), next, {}, SendForm::kAsync);
    done.wait(false);
    CHECK(f.cluster.stored({"T", "a", 0}).size() == 100);
  }

  TEST_CASE("an exception of a callback stays there") {
    Fixture f({"a"}, 1);
    std::atomic<int> calls{0};
    for (int i = 0; i < 2; ++i) {
      f.producer->start(
          to("T"),
          [&](Result<Receipt>) {
            ++calls;
            throw std::runtime_error("mine");
          },
          {},
          SendForm::kAsync);
    }
    CHECK(eventually([&] { return calls.load() == 2; }));
    CHECK(f.producer->send(to("T"), {}).has_value());
  }

  TEST_CASE("callbacks run on the executor of the program") {
    FakeCluster cluster;
    cluster.add_topic("T", {"a"}, 1);
    std::mutex mutex;
    std::vector<std::function<void()>> tasks;
    ClientOptions options;
    options.executor = [&](std::function<void()> task) {
      const std::scoped_lock lock(mutex);
      tasks.push_back(std::move(task));
    };
    const auto client = cluster.client(nullptr, options);
    const auto producer = ProducerCore::create(*client, {}).value();
    std::thread::id thread;
    producer->start(
        to("T"),
        [&](Result<Receipt>) { thread = std::this_thread::get_id(); },
        {},
        SendForm::kAsync);
    CHECK(eventually([&] {
      const std::scoped_lock lock(mutex);
      return tasks.size() == 1;
    }));
    tasks[0]();
    CHECK(thread == std::this_thread::get_id());
    CHECK(producer->send(to("T"), {}).has_value());  // blocking sends do not need it
    producer->stop();
  }
}
