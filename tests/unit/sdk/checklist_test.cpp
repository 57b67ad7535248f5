// Lines of the checklist client §14, counted from 1, that concern several parts at once.
#include "client_core.h"
#include "group_member.h"
#include "handles.h"
#include "producer_core.h"

#include "tenon/proto/bodies_admin.h"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;
namespace proto = tenon::proto;
using detail::ConsumerCore;
using proto::RequestCode;

namespace {

const Queue kRetryQueue{"%RETRY%g", "a", 0};

struct Fixture : GroupMember<PushConsumerOptions> {
  explicit Fixture(const tenon::Clock* clock = nullptr)
      : GroupMember(1, clock) {
    cluster.add_topic("%RETRY%g", {"a"}, 1);
  }
  ~Fixture() { stop(); }

  void start(PushConsumer::Listener listener) {
    run(ConsumerCore::create(*client, options, std::move(listener)).value());
  }
  void start_orderly(PushConsumer::InOrder listener) {
    detail::Listeners listeners;
    listeners.orderly = std::move(listener);
    run(ConsumerCore::create(*client, options, std::move(listeners)).value());
  }
  std::size_t count(RequestCode::Value code) { return cluster.requests(code).size(); }
  std::vector<Request> pulls() {
    std::vector<Request> out;
    for (Request& r : cluster.requests(RequestCode::kPullMessage)) {
      if (r.command.field("topic") == "T") {
        out.push_back(std::move(r));
      }
    }
    return out;
  }
  /// Returns when the rebalances that were asked for have been done.
  void settle() {
    for (int i = 0; i < 2; ++i) {  // one that runs may ask for another
      std::promise<void> reached;
      client->worker().post([&] { reached.set_value(); });
      reached.get_future().wait();
    }
  }
  /// What was asked before has been answered when this returns.
  void round_trip() {
    proto::Command c;
    c.code = RequestCode::kGetBrokerRuntimeInfo;
    client->calls().ask("a:10911", c, 1s).value();
  }
};

/// A gate that a listener waits at.
struct Gate {
  std::atomic<int> waiting{0};
  std::atomic<bool> open{false};
  void wait() {
    ++waiting;
    waiting.notify_all();
    open.wait(false);
  }
  void release() {
    open = true;
    open.notify_all();
  }
};

Outcome pull_answer(std::int32_t code, std::int64_t next) {
  proto::Command c;
  c.code = code;
  c.set("suggestWhichBrokerId", std::int64_t{0}).set("nextBeginOffset", next);
  c.set("minOffset", std::int64_t{0}).set("maxOffset", next);
  return Outcome::ok(std::move(c));
}

/// Answers every pull of T from this offset on so.
FakeCluster::Hook pulls_from(std::int64_t offset, std::int32_t code, std::int64_t next) {
  return [=](const Request& r) -> std::optional<Outcome> {
    const bool hit = r.command.code == RequestCode::kPullMessage &&
                     r.command.field("topic") == "T" &&
                     r.command.field_long("queueOffset").value_or(0) == offset;
    return hit ? std::optional(pull_answer(code, next)) : std::nullopt;
  };
}

}  // namespace

TEST_SUITE("sdk/checklist") {
  TEST_CASE("a slow job does not stop the heartbeat") {  // client §14.4
    tenon::ManualClock clock;
    Fixture f(&clock);
    f.start([](std::span<const MessageView>) { return Ack::success(); });
    REQUIRE(eventually([&] { return f.core->owned().size() == 2; }));
    // Nobody answers these any more: the rebalance hangs, routes and offsets are under way for ever.
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kGetConsumerListByGroup ||
                     r.command.code == RequestCode::kGetRouteinfoByTopic ||
                     r.command.code == RequestCode::kUpdateConsumerOffset
                 ? std::optional(Outcome::hold())
                 : std::nullopt;
    });
    const auto asked = f.count(RequestCode::kGetConsumerListByGroup);
    f.client->wake_rebalance();
    REQUIRE(eventually([&] { return f.count(RequestCode::kGetConsumerListByGroup) > asked; }));
    const auto beats = f.count(RequestCode::kHeartBeat);
    for (int second = 0; second < 91; ++second) {
      clock.advance_ms(1'000);
      f.client->timers().run_due();
      f.round_trip();  // the heartbeat is answered before the next one is due
    }
    CHECK(f.count(RequestCode::kHeartBeat) >= beats + 3);
    f.cluster.release_held(tenon::Errc::kTimeout);
    f.cluster.set_hook({});
  }

  TEST_CASE("the heartbeat of a consumer has exactly these fields") {  // client §14.8, §2.7
    Fixture f;
    f.options.subscriptions = {{"T", {"TagA"}}};
    f.options.start = FromLast{};
    f.start([](std::span<const MessageView>) { return Ack::success(); });
    const std::string body =
        std::regex_replace(f.cluster.requests(RequestCode::kHeartBeat).front().command.body,
                           std::regex("\"subVersion\":[0-9]{13}([,}])"),
                           "\"subVersion\":0$1");
    CHECK(body ==
          "{\"clientID\":\"" + f.client->id() +
              "\",\"consumerDataSet\":[{\"consumeFromWhere\":\"CONSUME_FROM_LAST_OFFSET\","
              "\"consumeType\":\"CONSUME_PASSIVELY\",\"groupName\":\"g\","
              "\"messageModel\":\"CLUSTERING\",\"subscriptionDataSet\":["
              "{\"classFilterMode\":false,\"codeSet\":[],\"expressionType\":\"TAG\","
              "\"subString\":\"*\",\"subVersion\":0,\"tagsSet\":[],\"topic\":\"%RETRY%g\"},"
              "{\"classFilterMode\":false,\"codeSet\":[2598919],\"expressionType\":\"TAG\","
              "\"subString\":\"TagA\",\"subVersion\":0,\"tagsSet\":[\"TagA\"],\"topic\":\"T\"}],"
              "\"unitMode\":false}],"
              "\"producerDataSet\":[{\"groupName\":\"CLIENT_INNER_PRODUCER\"}]}");
  }

  TEST_CASE("a producer that is closed tells every broker") {  // client §14.10
    FakeCluster cluster;
    cluster.add_topic("T", {"a", "b"}, 1);
    const auto client = cluster.client();
    auto producer = detail::ProducerCore::create(*client, {.group = "pg"}).value();
    client->add(producer).value();
    client->routes().fetch_blocking("T").value();
    detail::leave_producer(producer, client.get());
    std::set<std::string> told;
    for (const Request& r : cluster.requests(RequestCode::kUnregisterClient)) {
      CHECK(r.command.field("producerGroup") == "pg");
      CHECK_FALSE(r.command.field("consumerGroup").has_value());
      CHECK(r.command.field("clientID") == client->id());
      told.insert(r.address);
    }
    CHECK(told == std::set<std::string>{"a:10911", "b:10911"});
  }

  TEST_CASE("Java's hash of the four strings") {  // client §14.25, §4.10
    constexpr std::size_t kMany = 2147483647;
    CHECK(hash_queue("TagA", kMany) == 2598919);
    CHECK(hash_queue("TagB", kMany) == 2598920);
    CHECK(hash_queue("order-1001", kMany) == 708180863);
    CHECK(hash_queue("polygenelubricants", kMany) == 1);  // -2147483648 % 2147483647, negated
    CHECK(hash_queue("order-1001", 4) == 3);
  }

  TEST_CASE("where to start is not known: the queue waits, whatever the start is") {
    for (const bool of_store : {true, false}) {  // client §14.31, §5.5, §11 L4'
      for (const StartPosition& start :
           {StartPosition(FromFirst{}), StartPosition(FromLast{}), StartPosition(FromTime{})}) {
        Fixture f;
        f.options.start = start;
        f.cluster.put(kQueue, "m");
        std::atomic<int> refused{0};
        f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
          const auto code = r.command.code;
          const bool hit = of_store ? code == RequestCode::kQueryConsumerOffset
                                    : code == RequestCode::kGetMaxOffset ||
                                          code == RequestCode::kSearchOffsetByTimestamp;
          if (!hit || r.command.field("topic") != "T") {
            return std::nullopt;
          }
          ++refused;
          return Outcome::code(1, "not now");
        });
        f.start([](std::span<const MessageView>) { return Ack::success(); });
        if (!of_store && std::holds_alternative<FromFirst>(start)) {
          CHECK(eventually([&] { return !f.pulls().empty(); }));  // 0, nobody has to be asked
          continue;
        }
        // Asked again by the next rebalance; no pull before it is known.
        CHECK(eventually([&] { return refused.load() >= 2; }));
        CHECK(f.pulls().empty());
      }
    }
  }

  TEST_CASE("progress over other tags does not pass what is in work") {  // client §14.34, §11 L3
    Fixture f;
    f.cluster.put(kQueue, "in work");
    f.cluster.set_hook(pulls_from(1, proto::ResponseCode::kPullRetryImmediately, 6));
    Gate gate;
    f.start([&](std::span<const MessageView>) {
      gate.wait();
      return Ack::success();
    });
    gate.waiting.wait(0);
    REQUIRE(eventually([&] {  // the pull behind what was skipped
      return f.pulls().back().command.field("queueOffset") == "6";
    }));
    f.core->persist_all();
    f.round_trip();
    CHECK(f.cluster.offset("g", kQueue).value_or(0) == 0);
    gate.release();
    f.stop();
    CHECK(f.cluster.offset("g", kQueue) == 1);
  }

  TEST_CASE("flow control looks again after 50 ms") {  // client §14.36
    tenon::ManualClock clock;
    Fixture f(&clock);
    f.options.cached_max_messages = 1;
    f.cluster.put(kQueue, "0");
    f.cluster.put(kQueue, "1");
    Gate gate;
    std::atomic<int> done{0};
    f.start([&](std::span<const MessageView>) {
      gate.wait();
      ++done;
      return Ack::success();
    });
    REQUIRE(eventually([&] { return gate.waiting.load() == 2; }));
    f.round_trip();  // the end of the pull answer, which has set the timer
    f.round_trip();
    gate.release();
    REQUIRE(eventually([&] { return done.load() == 2; }));
    const auto before = f.pulls().size();
    clock.advance_ms(49);
    f.client->timers().run_due();
    f.round_trip();
    CHECK(f.pulls().size() == before);
    CHECK(eventually([&] {  // the cache is empty a moment after the listeners
      clock.advance_ms(1);
      f.client->timers().run_due();
      f.round_trip();
      return f.pulls().size() > before;
    }));
  }

  TEST_CASE("a pull waits 15 s at the broker and 30 s at the client") {  // client §14.37
    Fixture f;
    f.start([](std::span<const MessageView>) { return Ack::success(); });
    REQUIRE(eventually([&] { return !f.pulls().empty(); }));
    CHECK(f.pulls()[0].command.field("suspendTimeoutMillis") == "15000");
    CHECK(f.pulls()[0].timeout == 30s);
  }

  TEST_CASE("an offset becomes illegal: what is in work is not committed, the queue starts anew") {
    Fixture f;  // client §14.38, §11 L10
    for (int i = 0; i < 10; ++i) {
      f.cluster.put(kQueue, std::to_string(i));
    }
    std::atomic<bool> moved{false};
    Gate gate;
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      // All ten are delivered and the first is in work; then the broker has only the last two.
      if (r.command.code != RequestCode::kPullMessage || r.command.field("topic") != "T" ||
          r.command.field("queueOffset") != "10" || moved.exchange(true)) {
        return std::nullopt;
      }
      gate.waiting.wait(0);
      return pull_answer(proto::ResponseCode::kPullOffsetMoved, 8);
    });
    std::mutex mutex;
    std::vector<std::string> bodies;
    f.options.threads = 1;
    f.start([&](std::span<const MessageView> batch) {
      gate.wait();
      const std::scoped_lock lock(mutex);
      bodies.emplace_back(batch[0].body());
      return Ack::success();
    });
    REQUIRE(eventually([&] { return f.cluster.offset("g", kQueue) == 8; }));
    gate.release();  // the first of the ten is done now
    REQUIRE(eventually([&] {
      const std::scoped_lock lock(mutex);
      return bodies.size() >= 3;
    }));
    CHECK(bodies == std::vector<std::string>{"0", "8", "9"});
    f.stop();
    CHECK(f.cluster.offset("g", kQueue) == 10);
    for (const Request& r : f.cluster.requests(RequestCode::kUpdateConsumerOffset)) {
      if (r.command.field("topic") == "T") {
        CHECK(r.command.field_long("commitOffset").value_or(0) >= 8);
      }
    }
  }

  TEST_CASE("nobody takes a failed message back: it is tried here again after 5 s") {
    tenon::ManualClock clock;  // client §14.40, §11 D14
    Fixture f(&clock);
    f.cluster.put(kQueue, "bad");
    f.cluster.put(kQueue, "good");
    std::atomic<bool> refuse{true};
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      return refuse && (r.command.code == RequestCode::kConsumerSendMsgBack ||
                        r.command.code == RequestCode::kSendMessageV2)
                 ? std::optional(Outcome::code(13))
                 : std::nullopt;
    });
    std::atomic<int> bad{0};
    std::atomic<int> good{0};
    f.start([&](std::span<const MessageView> batch) {
      if (batch[0].body() == "good") {
        ++good;
        return Ack::success();
      }
      return ++bad < 3 ? Ack::retry() : Ack::success();
    });
    for (int round = 1; round <= 2; ++round) {
      REQUIRE(eventually([&] {
        return bad.load() == round && good.load() == 1 && f.client->timers().pending() > 0 &&
               static_cast<int>(f.count(RequestCode::kSendMessageV2)) == round;
      }));
      f.core->persist_all();
      f.round_trip();
      CHECK(f.cluster.offset("g", kQueue).value_or(0) == 0);  // held
      clock.advance_ms(4'900);
      f.client->timers().run_due();
      CHECK(bad.load() == round);
      CHECK(eventually([&] {  // the timer is set a moment after the refusal
        clock.advance_ms(100);
        f.client->timers().run_due();
        return bad.load() > round;
      }));
    }
    CHECK(bad.load() == 3);
    CHECK(good.load() == 1);
    f.stop();
    CHECK(f.cluster.offset("g", kQueue) == 2);
  }

  TEST_CASE("at most 16 heads of a queue are sent back at a time") {  // client §14.42
    tenon::ManualClock clock;
    Fixture f(&clock);
    for (int i = 0; i < 20; ++i) {
      f.cluster.put(kQueue, std::to_string(i));
    }
    Gate gate;
    f.options.threads = 21;              // all are stuck, and one thread sends back
    f.options.rebalance_interval = 24h;  // it would find that nothing was pulled for so long
    f.start([&](std::span<const MessageView>) {
      gate.wait();
      return Ack::success();
    });
    REQUIRE(eventually([&] { return gate.waiting.load() == 20; }));
    f.settle();
    clock.advance_ms(15 * 60'000);
    f.client->timers().run_due();
    CHECK(eventually([&] {  // the offset moves a moment after the answer
      f.core->persist_all();
      f.round_trip();
      return f.cluster.offset("g", kQueue) == 16;
    }));
    CHECK(f.count(RequestCode::kConsumerSendMsgBack) == 16);
    for (const Request& r : f.cluster.requests(RequestCode::kConsumerSendMsgBack)) {
      CHECK(r.command.field("delayLevel") == "3");
    }
    clock.advance_ms(15 * 60'000);
    f.client->timers().run_due();
    CHECK(eventually([&] { return f.count(RequestCode::kConsumerSendMsgBack) == 20; }));
    gate.release();
    f.stop();
    CHECK(f.cluster.offset("g", kQueue) == 20);
  }

  TEST_CASE("after 60 s of one queue others get their turn") {  // client §14.43, §5.13
    tenon::ManualClock clock;
    Fixture f(&clock);
    for (int i = 0; i < 6; ++i) {
      f.cluster.put(kQueue, std::to_string(i));
    }
    std::atomic<int> calls{0};
    Gate started;  // the timer that renews is there
    f.start_orderly([&](std::span<const MessageView>) {
      started.wait();
      clock.advance_ms(20'001);
      f.client->timers().run_due();  // renews the lock
      f.round_trip();
      ++calls;
      return OrderAck::success();
    });
    started.release();
    // 20, 40, 60 s: the fourth begins after 60.003 s and has to wait.
    REQUIRE(eventually([&] { return calls.load() >= 3; }));
    f.round_trip();
    CHECK_FALSE(eventually([&] { return calls.load() > 3; }, 50ms));
    clock.advance_ms(10);
    CHECK(eventually([&] {
      f.client->timers().run_due();
      return calls.load() == 6;
    }));
  }
}
