// What happens when something fails: the rows of client §9, counted from 1, and the traps of §11
// that no other test covers.
#include "consumer_core.h"
#include "fake_cluster.h"
#include "producer_core.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;
namespace proto = tenon::proto;
using detail::ConsumerCore;
using detail::ProducerCore;
using proto::RequestCode;
using proto::ResponseCode;

namespace {

const Queue kQueueA{"T", "a", 0};
const Queue kQueueB{"T", "b", 0};

/// A member of a group and a producer, which hear of everything soon.
struct Fixture {
  explicit Fixture(const std::vector<std::string>& brokers = {"a", "b"}) {
    cluster.add_topic("T", brokers, 1);
    cluster.add_topic("%RETRY%g", {"b"}, 1);
    ClientOptions o;
    o.route_refresh = 20ms;
    o.heartbeat = 20ms;
    client = cluster.client(nullptr, o);
    cluster.set_members({client->id()});
    producer = ProducerCore::create(*client, {}).value();
    client->add(producer).value();
    options.group = "g";
    options.subscriptions["T"] = Subscription();
    options.start = FromFirst{};
    options.pull_error_delay = 10ms;
    options.rebalance_interval = 20ms;
    options.offset_interval = 24h;
  }
  ~Fixture() {
    stop();
    producer->stop();
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  void start() {
    core = ConsumerCore::create(*client, options, [this](std::span<const MessageView> batch) {
             const std::scoped_lock lock(mutex);
             for (const MessageView& m : batch) {
               ++seen[std::string(m.body())];
             }
             return Ack::success();
           }).value();
    client->add(core).value();
    core->start().value();
  }
  void stop() {
    if (core) {
      core->stop();
      core.reset();
    }
  }
  bool has(const std::string& body, int times = 1) {
    return eventually([&] {
      const std::scoped_lock lock(mutex);
      return seen[body] == times;
    });
  }
  bool owns(std::size_t queues) {
    return eventually([&] {
      const auto all = core->owned();
      return static_cast<std::size_t>(std::count_if(
                 all.begin(), all.end(), [](const Queue& q) { return q.topic == "T"; })) == queues;
    });
  }
  Result<Receipt> send(const std::string& body = "x") {
    Message m;
    m.topic = "T";
    m.body = body;
    return producer->send(std::move(m), {});
  }
  std::vector<Request> sends() { return cluster.requests(RequestCode::kSendMessageV2); }
  /// Answers requests with this code to this address so, as often as `times` says.
  void fail(std::int32_t code, const std::string& address, Outcome outcome, int times = 1'000'000) {
    auto left = std::make_shared<std::atomic<int>>(times);
    cluster.set_hook([=](const Request& r) -> std::optional<Outcome> {
      const bool hit = r.command.code == code && (address.empty() || r.address == address) &&
                       (code != RequestCode::kPullMessage || r.command.field("topic") == "T");
      return hit && (*left)-- > 0 ? std::optional(outcome) : std::nullopt;
    });
  }

  FakeCluster cluster;
  std::shared_ptr<detail::ClientCore> client;
  std::shared_ptr<ProducerCore> producer;
  PushConsumerOptions options;
  std::shared_ptr<ConsumerCore> core;
  std::mutex mutex;
  std::map<std::string, int> seen;
};

}  // namespace

TEST_SUITE("sdk/failure_matrix") {
  TEST_CASE("all name servers are down: known routes serve, unknown topics are an error") {
    Fixture f;  // client §9.1
    REQUIRE(f.send("before").has_value());
    f.start();
    REQUIRE(f.has("before"));
    f.fail(RequestCode::kGetRouteinfoByTopic, "", Outcome::fail(tenon::Errc::kNotReady));
    REQUIRE(f.send("after").has_value());
    f.cluster.release_held(tenon::Errc::kClosed);  // pulls that wait at the end of their queue
    CHECK(f.has("after"));
    Message unknown;
    unknown.topic = "unknown";
    unknown.body = "x";
    const auto r = f.producer->send(std::move(unknown), {});
    REQUIRE_FALSE(r.has_value());
    CHECK((r.error().is(Errc::kNoRoute) || r.error().is(Errc::kNoNameServer)));
    CHECK_FALSE(r.error().outcome_unknown);
    // The rebalance asks brokers: another member gets its share.
    f.cluster.set_members({"0", f.client->id()});
    CHECK(f.owns(1));
  }

  TEST_CASE("the master is gone, a slave is there: sends go elsewhere, pulls to the slave") {
    Fixture f;  // client §9.2
    f.cluster.put(kQueueA, "first");
    f.start();
    REQUIRE(f.has("first"));
    f.cluster.replace_master("T", "a", "a-slave:10911");
    REQUIRE(eventually([&] {
      const TopicInfoPtr info = f.client->routes().cached("T");
      return info && info->publish.size() == 1;
    }));
    for (int i = 0; i < 4; ++i) {
      const auto r = f.send();
      REQUIRE(r.has_value());
      CHECK(r->queue.broker == "b");
    }
    f.fail(RequestCode::kPullMessage, "a:10911", Outcome::fail(tenon::Errc::kNotReady));
    f.cluster.put(kQueueA, "second");
    // The pull that the master holds is lost with it.
    f.cluster.release_held(tenon::Errc::kClosed);
    CHECK(f.has("second"));
    CHECK(f.has("first", 1));
    bool at_slave = false;
    for (const Request& r : f.cluster.requests(RequestCode::kPullMessage)) {
      if (r.address == "a-slave:10911" && r.command.field("topic") == "T") {
        at_slave = true;
        // Trap: the commit bit goes to masters only (client §5.8).
        CHECK((r.command.field_long("sysFlag").value_or(1) & 1) == 0);
      }
    }
    CHECK(at_slave);
  }

  TEST_CASE("a broker is gone from the route: its queues are given up, nothing is sent there") {
    Fixture f;  // client §9.3
    f.start();
    REQUIRE(f.owns(2));
    f.cluster.add_topic("T", {"b"}, 1);
    CHECK(f.owns(1));
    for (int i = 0; i < 4; ++i) {
      const auto r = f.send();
      REQUIRE(r.has_value());
      CHECK(r->queue.broker == "b");
    }
  }

  TEST_CASE("connection refused: the next broker gets the message, known not to be stored twice") {
    Fixture f;  // client §9.4
    f.fail(RequestCode::kSendMessageV2, "a:10911", Outcome::fail(tenon::Errc::kNotReady));
    for (int i = 0; i < 6; ++i) {
      REQUIRE(f.send(std::to_string(i)).has_value());
    }
    CHECK(f.cluster.stored(kQueueB).size() == 6);
    f.fail(RequestCode::kSendMessageV2, "", Outcome::fail(tenon::Errc::kNotReady));
    const auto r = f.send();
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().is(Errc::kConnect));
    CHECK_FALSE(r.error().outcome_unknown);
  }

  TEST_CASE("a pull is refused, times out, or loses its connection: it is asked again") {
    Fixture f({"a"});  // client §9.4, §9.5, §9.6
    for (const tenon::Errc code :
         {tenon::Errc::kNotReady, tenon::Errc::kTimeout, tenon::Errc::kClosed}) {
      const std::string body = "m" + std::to_string(static_cast<int>(code));
      f.fail(RequestCode::kPullMessage, "a:10911", Outcome::fail(code), 3);
      f.cluster.put(kQueueA, body);
      f.start();
      CHECK(f.has(body));
      f.stop();
    }
    CHECK(f.seen.size() == 3);
  }

  TEST_CASE("no answer in time: the outcome is unknown, and the budget is spent") {
    Fixture f;  // client §9.5, §11 D1
    f.fail(RequestCode::kSendMessageV2, "", Outcome::fail(tenon::Errc::kTimeout), 1);
    ProducerOptions once;
    once.group = "once";
    once.retries = 0;
    auto producer = ProducerCore::create(*f.client, once).value();
    Message m;
    m.topic = "T";
    m.body = "x";
    const auto r = producer->send(std::move(m), {});
    producer->stop();
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().is(Errc::kTimeout));
    CHECK(r.error().outcome_unknown);
    CHECK(f.sends().size() == 1);
  }

  TEST_CASE("the connection is lost in flight: tried again at once, elsewhere, with the same id") {
    Fixture f;  // client §9.6
    f.fail(RequestCode::kSendMessageV2, "", Outcome::fail(tenon::Errc::kClosed), 1);
    REQUIRE(f.send().has_value());
    const auto sends = f.sends();
    REQUIRE(sends.size() == 2);
    CHECK(sends[0].address != sends[1].address);
    CHECK(sends[0].command.field("i") == sends[1].command.field("i"));
  }

  TEST_CASE("busy(2): the producer is told, nothing is repeated; a pull waits and goes on") {
    Fixture f({"a"});  // client §9.7
    f.fail(RequestCode::kSendMessageV2, "", Outcome::code(ResponseCode::kSystemBusy, "busy"), 1);
    const auto r = f.send();
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().response == ResponseCode::kSystemBusy);
    CHECK_FALSE(r.error().outcome_unknown);
    CHECK(f.sends().size() == 1);
    f.fail(RequestCode::kPullMessage, "", Outcome::code(ResponseCode::kSystemBusy), 2);
    f.cluster.put(kQueueA, "x");
    f.start();
    CHECK(f.has("x"));
  }

  TEST_CASE("stored but not flushed or replicated: a status, not sent again") {
    Fixture f;  // client §9.8, §11 D2
    for (const std::int32_t code : {ResponseCode::kFlushDiskTimeout,
                                    ResponseCode::kSlaveNotAvailable,
                                    ResponseCode::kFlushSlaveTimeout}) {
      const auto before = f.sends().size();
      f.fail(RequestCode::kSendMessageV2, "", Outcome::code(code), 1);
      const auto r = f.send();
      REQUIRE(r.has_value());
      CHECK_FALSE(r->durable());
      CHECK(f.sends().size() == before + 1);
    }
  }

  TEST_CASE("the broker does not know the group: a heartbeat tells it, then pulls go on") {
    Fixture f({"a"});  // client §9.9, §9.10: a broker that was started again answers so
    for (const std::int32_t code : {ResponseCode::kSubscriptionNotExist,
                                    ResponseCode::kSubscriptionNotLatest,
                                    ResponseCode::kSubscriptionGroupNotExist}) {
      const std::string body = std::to_string(code);
      const auto beats = f.cluster.requests(RequestCode::kHeartBeat).size();
      f.fail(RequestCode::kPullMessage, "", Outcome::code(code), 2);
      f.cluster.put(kQueueA, body);
      f.start();
      CHECK(f.has(body));
      f.stop();
      CHECK(f.cluster.requests(RequestCode::kHeartBeat).size() > beats);
    }
  }

  TEST_CASE("a member that was killed: what it had not committed comes again, nothing is lost") {
    Fixture f({"a"});  // client §9.12
    for (int i = 0; i < 5; ++i) {
      f.cluster.put(kQueueA, std::to_string(i));
    }
    f.start();
    REQUIRE(f.has("4"));
    REQUIRE(eventually([&] {  // the offset moves a moment after the call
      f.core->persist_all();
      return f.cluster.offset("g", kQueueA) == 5;
    }));
    f.cluster.put(kQueueA, "5");
    f.cluster.release_held(tenon::Errc::kClosed);
    REQUIRE(f.has("5"));
    // Its last commit never arrives; the next member starts where the broker stands.
    f.fail(RequestCode::kUpdateConsumerOffset, "", Outcome::fail(tenon::Errc::kClosed));
    f.stop();
    f.cluster.set_hook({});
    REQUIRE(f.cluster.offset("g", kQueueA) == 5);
    f.start();
    CHECK(f.has("5", 2));
    CHECK(f.has("4", 1));
  }

  TEST_CASE("a member that brokers have forgotten owns nothing until they list it again") {
    Fixture f;  // client §9.13
    f.start();
    REQUIRE(f.owns(2));
    f.cluster.set_members({"somebody else"});
    CHECK(f.owns(0));
    const auto beats = f.cluster.requests(RequestCode::kHeartBeat).size();
    CHECK(eventually([&] { return f.cluster.requests(RequestCode::kHeartBeat).size() > beats; }));
    f.cluster.set_members({f.client->id()});
    CHECK(f.owns(2));
  }

  TEST_CASE("an offset that does not exist is never stored") {
    Fixture f({"a"});  // client §11 L4
    f.start();
    REQUIRE(f.owns(1));
    f.core->persist_all();
    f.stop();
    CHECK(f.cluster.requests(RequestCode::kUpdateConsumerOffset).empty());
  }

  TEST_CASE("clients of one process differ in their ids; the sort of members is that of strings") {
    Fixture f;  // client §11 D3, D6
    const auto other = f.cluster.client();
    CHECK(other->id() != f.client->id());
    // Listed last, but first in the order of strings: the first half of the queues is ours.
    f.cluster.set_members({"zzz", f.client->id()});
    f.start();
    REQUIRE(f.owns(1));
    const auto owned = f.core->owned();
    CHECK(std::find(owned.begin(), owned.end(), kQueueA) != owned.end());
  }
}
