// Hooks of producers and consumers, the trace, and the listener for queues.
#include "consumer_core.h"
#include "fake_cluster.h"
#include "fake_connection.h"
#include "producer_core.h"
#include "trace.h"
#include "transaction_core.h"

#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;
namespace proto = tenon::proto;
using detail::ConsumerCore;
using detail::ProducerCore;
using proto::RequestCode;

namespace {

const Queue kQueue{"T", "a", 0};
constexpr const char* kTraceTopic = "RMQ_SYS_TRACE_TOPIC";

Message text(std::string body, std::string tag = {}) {
  Message m;
  m.topic = "T";
  m.body = std::move(body);
  m.tag = std::move(tag);
  return m;
}

/// Text of a record with the separators made visible.
std::string shown(std::string s) {
  for (char& c : s) {
    c = c == '\x01' ? '|' : c == '\x02' ? '\n' : c;
  }
  return s;
}

std::vector<std::string> lines_of(const std::string& s) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < s.size();) {
    const std::size_t end = std::min(s.find('\n', at), s.size());
    out.push_back(s.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> out(1);
  for (const char c : line) {
    if (c == '|') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

struct Fixture {
  explicit Fixture(bool traced = false, const std::vector<std::string>& brokers = {"a"}) {
    cluster.add_topic("T", brokers, 1);
    cluster.add_topic("%RETRY%g", {"a"}, 1);
    cluster.add_topic(kTraceTopic, {"a"}, 1);
    ClientOptions o;
    o.trace.enabled = traced;
    client = cluster.client(nullptr, o);
    cluster.set_members({client->id()});
    options.group = "g";
    options.subscriptions["T"] = Subscription();
    options.start = FromFirst{};
  }
  ~Fixture() {
    if (consumer) {
      consumer->stop();
    }
    if (producer) {
      producer->stop();
    }
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  ProducerCore& sender(ProducerOptions o = {}) {
    o.group = "pg";
    producer = ProducerCore::create(*client, std::move(o)).value();
    client->add(producer).value();
    return *producer;
  }
  void consume(PushConsumer::Listener listener) {
    consumer = ConsumerCore::create(*client, options, std::move(listener)).value();
    client->add(consumer).value();
    consumer->start().value();
  }
  /// All trace records so far, a line each; waits until there are so many.
  std::vector<std::string> records(std::size_t count) {
    std::vector<std::string> out;
    eventually([&] {
      client->tracer()->log->flush();
      out.clear();
      for (const auto& m : cluster.stored({kTraceTopic, "a", 0})) {
        if ((m.sys_flag & 1) == 0) {
          for (std::string& line : lines_of(shown(m.body))) {
            out.push_back(std::move(line));
          }
        }
      }
      return out.size() >= count;
    });
    return out;
  }

  FakeCluster cluster;
  std::shared_ptr<detail::ClientCore> client;
  std::shared_ptr<ProducerCore> producer;
  PushConsumerOptions options;
  std::shared_ptr<ConsumerCore> consumer;
};

}  // namespace

TEST_SUITE("sdk/hooks") {
  TEST_CASE("every attempt is seen before and after, with what came of it") {
    Fixture f(false, {"a", "b"});
    std::vector<std::string> seen;
    ProducerOptions o;
    SendHook hook;
    hook.before = [&](const SendAttempt& a) {
      seen.push_back("before " + std::to_string(a.number) + " " + std::string(a.group) + " " +
                     std::string(a.topic) + " " + std::string(a.tag) + " " + std::string(a.body));
      CHECK(a.address == std::string(a.broker) + ":10911");
      CHECK(a.id.size() == 32);
      throw std::runtime_error("changes nothing");
    };
    hook.after = [&](const SendAttempt& a, const Result<Receipt>& r) {
      seen.push_back("after " + std::to_string(a.number) + " " +
                     (r ? "stored" : std::to_string(r.error().response)));
    };
    o.hooks.push_back(hook);
    std::atomic<int> sends{0};
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kSendMessageV2 && sends++ == 0
                 ? std::optional(Outcome::code(14, "not available"))
                 : std::nullopt;
    });
    REQUIRE(f.sender(o).send(text("x", "TagA"), {}).has_value());
    CHECK(seen ==
          std::vector<std::string>{
              "before 1 pg T TagA x", "after 1 14", "before 2 pg T TagA x", "after 2 stored"});
    seen.clear();
    REQUIRE(f.producer->send_oneway(text("y"), {}).has_value());
    REQUIRE(f.producer->drain(10s));
    CHECK(seen == std::vector<std::string>{"before 1 pg T  y", "after 1 stored"});
  }

  TEST_CASE("a check refuses the message before anything is sent") {
    Fixture f;
    ProducerOptions o;
    SendHook hook;
    hook.check = [](const Message& m) -> Result<void> {
      if (m.body == "forbidden") {
        Error e;
        e.code = make_error_code(Errc::kRefused);
        e.remark = "not today";
        return e;
      }
      if (m.body == "throw") {
        throw std::runtime_error("no rules");
      }
      return {};
    };
    o.hooks.push_back(hook);
    ProducerCore& p = f.sender(o);
    const auto r = p.send(text("forbidden"), {});
    CHECK(r.error().is(Errc::kRefused));
    CHECK(r.error().remark == "not today");
    CHECK(p.send(text("throw"), {}).error().is(Errc::kInvalidArgument));
    std::vector<Message> batch{text("fine"), text("forbidden")};
    CHECK(p.send_batch(batch, {}, nullptr).error().is(Errc::kRefused));
    CHECK(f.cluster.requests(RequestCode::kSendMessageV2).empty());
    CHECK(p.send(text("fine"), {}).has_value());
  }

  TEST_CASE("what a message is: normal, half of a transaction, delayed") {
    Fixture f;
    std::vector<SendKind> kinds;
    std::vector<std::string> ends;
    TransactionOptions o;
    SendHook hook;
    hook.before = [&](const SendAttempt& a) { kinds.push_back(a.kind); };
    o.producer.group = "pay";
    o.producer.hooks.push_back(hook);
    o.on_end = [&](const TransactionEnd& e) {
      ends.push_back(std::string(e.topic) + (e.state == TxState::kCommit ? " commit" : " other") +
                     (e.from_check ? " asked" : ""));
    };
    const auto core = detail::TransactionCore::create(
                          *f.client,
                          o,
                          [](const Message&, const Receipt&) { return TxState::kCommit; },
                          [](const MessageView&) { return TxState::kUnknown; })
                          .value();
    REQUIRE(core->send(text("half"), {}).has_value());
    Message later = text("later");
    later.delay_level = 3;
    REQUIRE(core->producer()->send(std::move(later), {}).has_value());
    REQUIRE(core->producer()->send(text("now"), {}).has_value());
    core->stop();
    CHECK(kinds == std::vector<SendKind>{SendKind::kHalf, SendKind::kDelayed, SendKind::kNormal});
    CHECK(ends == std::vector<std::string>{"T commit"});
  }

  TEST_CASE("listener calls are seen with their outcome; unwanted messages count as done") {
    Fixture f;
    std::mutex mutex;
    std::vector<std::string> seen;
    const auto add = [&](std::string line) {
      const std::scoped_lock lock(mutex);
      seen.push_back(std::move(line));
    };
    ConsumeHook hook;
    hook.wants = [](const MessageView& m) { return m.body() != "unwanted"; };
    hook.before = [&](const ConsumeCall& c) {
      add("before " + std::string(c.messages[0].body()) + " " + c.queue.topic);
      throw std::runtime_error("changes nothing");
    };
    hook.after = [&](const ConsumeCall& c, const ConsumeResult& r) {
      add("after " + std::string(c.messages[0].body()) + " " +
          std::to_string(static_cast<int>(r.outcome)) + " " + std::to_string(r.done));
    };
    f.options.hooks.push_back(hook);
    f.options.threads = 1;
    for (const char* body : {"good", "unwanted", "bad", "throw"}) {
      f.cluster.put(kQueue, body);
    }
    std::vector<std::string> delivered;
    f.consume([&](std::span<const MessageView> batch) {
      delivered.emplace_back(batch[0].body());
      if (batch[0].body() == "throw") {
        throw std::runtime_error("broken");
      }
      return batch[0].body() == "bad" ? Ack::retry() : Ack::success();
    });
    CHECK(eventually([&] {
      const std::scoped_lock lock(mutex);
      return seen.size() == 6;
    }));
    f.consumer->stop();
    CHECK(delivered == std::vector<std::string>{"good", "bad", "throw"});
    const std::vector<std::string> expected{"before good T",
                                            "after good 0 1",
                                            "before bad T",
                                            "after bad 3 0",
                                            "before throw T",
                                            "after throw 2 0"};
    CHECK(seen == expected);
    CHECK(f.cluster.offset("g", kQueue) == 4);
  }

  TEST_CASE("the listener for queues hears of new queues and of other shares, once each") {
    Fixture f;
    std::mutex mutex;
    std::vector<std::pair<std::size_t, std::size_t>> told;
    f.options.queues_changed =
        [&](std::string_view topic, std::span<const Queue> all, std::span<const Queue> mine) {
          CHECK(topic == "T");
          const std::scoped_lock lock(mutex);
          told.emplace_back(all.size(), mine.size());
        };
    const auto heard = [&](std::size_t all, std::size_t mine) {
      return eventually([&] {
        const std::scoped_lock lock(mutex);
        return !told.empty() && told.back() == std::pair(all, mine);
      });
    };
    f.consume([](std::span<const MessageView>) { return Ack::success(); });
    CHECK(heard(1, 1));
    f.cluster.add_topic("T", {"a"}, 4);
    f.client->refresh_routes();
    CHECK(heard(4, 4));
    f.cluster.set_members({"0", f.client->id()});
    f.client->wake_rebalance();
    CHECK(heard(4, 2));
    f.client->wake_rebalance();
    f.cluster.set_members({f.client->id()});
    f.client->wake_rebalance();
    CHECK(heard(4, 4));
    f.consumer->stop();
    const std::scoped_lock lock(mutex);
    CHECK(std::adjacent_find(told.begin(), told.end()) == told.end());
  }
}

TEST_SUITE("sdk/trace") {
  TEST_CASE("a record of a send has the bytes of the example") {  // client §14.28: 145 bytes, §4.16
    Fixture f(true);
    SendAttempt a;
    a.group = "pg";
    a.topic = "TopicTest";
    a.id = "0A000001123418B4AAC295FD37FB0007";
    a.tag = "TagA";
    a.keys = "k1";
    a.body = "hello";
    a.address = "10.0.0.9:10911";
    a.cost = 3ms;
    Receipt r;
    r.region = "DefaultRegion";
    r.offset_id = "C0A8000100002A9F0000000000001234";
    f.client->tracer()->log->sent(1'700'000'000'000, a, r);
    const std::vector<std::string> lines = f.records(1);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].size() + 1 == 145);
    CHECK(lines[0] ==
          "Pub|1700000000000|DefaultRegion|pg|TopicTest|0A000001123418B4AAC295FD37FB0007|TagA|k1|"
          "10.0.0.9:10911|5|3|0|C0A8000100002A9F0000000000001234|true");
    const auto stored = f.cluster.stored({kTraceTopic, "a", 0}).at(0);
    CHECK(proto::find_property(stored.properties, proto::prop::kKeys) ==
          "0A000001123418B4AAC295FD37FB0007 k1");
  }

  TEST_CASE("a message's way: sent, before and after the listener, all with its id") {
    Fixture f(true);
    Message m = text("hello", "TagA");
    m.keys = {"k1", "k2"};
    const std::string id = f.sender().send(std::move(m), {}).value().id;
    f.consume([](std::span<const MessageView>) { return Ack::success(); });
    std::vector<std::string> lines = f.records(3);
    REQUIRE(lines.size() == 3);
    std::sort(lines.begin(), lines.end());  // trace messages may overtake one another
    const auto pub = fields_of(lines[0]);
    REQUIRE(pub.size() == 14);
    CHECK(pub[3] == "pg");
    CHECK(pub[5] == id);
    CHECK(pub[7] == "k1 k2");
    CHECK(pub[8] == "a:10911");
    CHECK(pub[9] == "5");
    CHECK(pub[11] == "0");
    CHECK(pub[13] == "true");
    const auto before = fields_of(lines[2]);
    REQUIRE(before.size() == 8);
    CHECK(before[0] == "SubBefore");
    CHECK(before[3] == "g");
    CHECK(before[5] == id);
    CHECK(before[6] == "0");
    const auto after = fields_of(lines[1]);
    REQUIRE(after.size() == 9);
    CHECK(after[0] == "SubAfter");
    CHECK(after[1] == before[4]);
    CHECK(after[2] == id);
    CHECK(after[4] == "true");
    CHECK(after[6] == "0");
    CHECK(after[8] == "g");
  }

  TEST_CASE("the end of a transaction, by the producer and by a check") {
    Fixture f(true);
    TransactionOptions o;
    o.producer.group = "pay";
    const auto core = detail::TransactionCore::create(
                          *f.client,
                          o,
                          [](const Message&, const Receipt&) { return TxState::kRollback; },
                          [](const MessageView&) { return TxState::kUnknown; })
                          .value();
    const std::string id = core->send(text("half"), {}).value().send.id;
    std::vector<std::string> lines = f.records(2);
    core->stop();
    REQUIRE(lines.size() == 2);
    std::sort(lines.begin(), lines.end());
    CHECK(fields_of(lines[1])[11] == "1");
    const auto end = fields_of(lines[0]);
    REQUIRE(end.size() == 13);
    CHECK(end[0] == "EndTransaction");
    CHECK(end[3] == "pay");
    CHECK(end[5] == id);
    CHECK(end[6] == "null");
    CHECK(end[9] == "2");
    CHECK(end[11] == "ROLLBACK_MESSAGE");
    CHECK(end[12] == "false");
  }

  TEST_CASE(
      "not traced: errors, what the broker says not to, the trace itself, the SDK's own sends") {
    Fixture f(true);
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      if (r.command.code != RequestCode::kSendMessageV2 || r.command.field("b") != "T") {
        return std::nullopt;
      }
      if (r.command.body == "refused") {
        return Outcome::code(13, "illegal");
      }
      proto::Command c;
      c.code = r.command.body == "weak" ? 10 : 0;
      c.set("msgId", std::string_view("0A00000100002A9F0000000000000001"));
      c.set("queueId", std::int64_t{0}).set("queueOffset", std::int64_t{0});
      c.set("MSG_REGION", std::string_view("DefaultRegion"));
      c.set("TRACE_ON", std::string_view(r.command.body == "silent" ? "false" : "true"));
      return Outcome::ok(std::move(c));
    });
    ProducerCore& p = f.sender();
    CHECK_FALSE(p.send(text("refused"), {}).has_value());
    CHECK(p.send(text("silent"), {}).has_value());
    Message own = text("own");
    own.topic = kTraceTopic;
    CHECK(p.send(std::move(own), {}).has_value());
    CHECK(p.send(text("weak"), {}).has_value());
    std::vector<std::string> lines;
    for (std::string& line : f.records(2)) {
      if (line.starts_with("Pub|")) {
        lines.push_back(std::move(line));
      }
    }
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].ends_with("|false"));  // stored, but not as promised
  }

  TEST_CASE("nobody waits for the trace: its topic unreachable, sends go on, records are dropped") {
    Fixture f(true);
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      const bool trace = r.command.code == RequestCode::kSendMessageV2 &&
                         r.command.field("b") == std::string_view(kTraceTopic);
      return trace ? std::optional(Outcome::hold()) : std::nullopt;
    });
    ProducerCore& p = f.sender();
    const std::string long_key(20'000, 'k');  // each fills a trace message
    for (int i = 0; i < 400 && f.client->tracer()->log->dropped() == 0; ++i) {
      Message m = text("x");
      m.keys = {long_key + std::to_string(i)};
      REQUIRE(p.send(std::move(m), {}).has_value());
    }
    CHECK(f.client->tracer()->log->dropped() > 0);
  }
}
