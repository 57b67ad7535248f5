// Clients with a namespace (client §1.3) on a broker that knows nothing of namespaces: the program sees
// its own names everywhere, the broker those with the prefix.
#include "fixture.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

using namespace tenon::sdk;
using namespace std::chrono_literals;
using fixture::eventually;
using fixture::message;
using tenon::testing::Broker;

namespace {

/// A broker with two topics of the same name in two namespaces, and one without.
struct World {
  Broker broker = Broker::start({.topics = {{"one%T", 2}, {"two%T", 2}, {"T", 2}, {"one%DL", 1}},
                                 .groups = {"one%g", "two%g", "g"},
                                 .delay_levels = "1s 1s 1s 1s"})
                      .value();
  Client open(const std::string& name_space, TraceOptions trace = {}) {
    ClientOptions options;
    options.name_servers = broker.name_servers();
    options.name_space = name_space;
    options.trace = std::move(trace);
    return Client::connect(options).value();
  }
};

/// What listeners and hooks were shown.
struct Seen {
  std::mutex mutex{};
  std::multiset<std::string> bodies{};
  std::set<std::string> topics{};
  std::set<std::string> queues{};
  std::set<std::string> groups{};

  void add(const MessageView& m) {
    const std::scoped_lock lock(mutex);
    bodies.emplace(m.body());
    topics.emplace(m.topic());
    queues.insert(m.queue().topic);
  }
  std::size_t count() {
    const std::scoped_lock lock(mutex);
    return bodies.size();
  }
};

PushConsumerOptions group_options(const std::string& topic = "T") {
  PushConsumerOptions o;
  o.group = "g";
  o.subscriptions[topic] = Subscription();
  o.start = FromFirst{};
  return o;
}

}  // namespace

TEST_SUITE("testing/name_space") {
  TEST_CASE("the same names in two namespaces are two topics and two groups") {
    World w;
    Client one = w.open("one");
    Client two = w.open("two");
    Client none = w.open("");
    Seen seen[3];
    const auto consume = [&](Client& client, Seen& s) {
      return PushConsumer::concurrent(
          client, group_options(), [&s](std::span<const MessageView> b) {
            s.add(b[0]);
            return Ack::success();
          });
    };
    auto a = consume(one, seen[0]).value();
    auto b = consume(two, seen[1]).value();
    auto c = consume(none, seen[2]).value();
    std::size_t i = 0;
    for (Client* client : {&one, &two, &none}) {
      auto producer = Producer::open(*client, {.group = "p"}).value();
      const auto r = producer.send(message("T", std::to_string(i++)));
      REQUIRE(r.has_value());
      CHECK(r->queue.topic == "T");
    }
    REQUIRE(eventually([&] { return seen[0].count() + seen[1].count() + seen[2].count() == 3; }));
    for (std::size_t k = 0; k < 3; ++k) {
      CHECK(seen[k].bodies == std::multiset<std::string>{std::to_string(k)});
      CHECK(seen[k].topics == std::set<std::string>{"T"});
      CHECK(seen[k].queues == std::set<std::string>{"T"});
    }
    for (const Queue& q : a.owned()) {
      CHECK((q.topic == "T" || q.topic == "%RETRY%g"));
    }
    // Without a namespace one sees the real names.
    auto admin = Admin::open(none).value();
    const auto topics = admin.topics().value();
    for (const char* name : {"one%T", "two%T", "T", "%RETRY%one%g"}) {
      CAPTURE(name);
      CHECK(std::count(topics.begin(), topics.end(), name) == 1);
    }
    CHECK(admin.group("one%g")->members.size() == 1);
  }

  TEST_CASE("retries, dead letters and hooks show the names of the program") {
    World w;
    Client client = w.open("one");
    Seen seen;
    Seen hooked;
    std::set<std::string> told;
    PushConsumerOptions options = group_options();
    options.max_attempts = 1;
    options.hooks.push_back({.before = [&](const ConsumeCall& call) {
      const std::scoped_lock lock(hooked.mutex);
      hooked.queues.insert(call.queue.topic);
      hooked.groups.emplace(call.group);
    }});
    options.queues_changed =
        [&](std::string_view topic, std::span<const Queue> all, std::span<const Queue> mine) {
          const std::scoped_lock lock(hooked.mutex);
          hooked.topics.emplace(topic);
          for (const Queue& q : all) {
            told.insert(q.topic);
          }
          for (const Queue& q : mine) {
            told.insert(q.topic);
          }
        };
    auto consumer = PushConsumer::concurrent(client, options, [&](std::span<const MessageView> b) {
                      seen.add(b[0]);
                      return Ack::retry();
                    }).value();
    ProducerOptions sending{.group = "p"};
    sending.hooks.push_back({.check = [](const Message& m) -> Result<void> {
                               CHECK(m.topic == "T");
                               return {};
                             },
                             .before =
                                 [&](const SendAttempt& attempt) {
                                   CHECK(attempt.topic == "T");
                                   CHECK(attempt.group == "p");
                                 }});
    auto producer = Producer::open(client, sending).value();
    const Selector last = [](std::span<const Queue> queues, const Message& m) {
      CHECK(m.topic == "T");
      CHECK(queues.size() == 2);
      CHECK(queues[1].topic == "T");
      return 1;
    };
    SendOptions choose;
    choose.select = &last;
    CHECK(producer.send(message("T", "bad"), choose)->queue == Queue{"T", "broker-a", 1});
    CHECK(producer.queues("T").value().at(0).topic == "T");
    // The retry comes from %RETRY%one%g and is shown as what it was; then it is a dead letter.
    REQUIRE(eventually([&] { return seen.count() == 2; }));
    CHECK(seen.topics == std::set<std::string>{"T"});
    CHECK(seen.queues == std::set<std::string>{"T", "%RETRY%g"});
    CHECK(consumer.close().has_value());
    CHECK(hooked.queues == seen.queues);
    CHECK(hooked.groups == std::set<std::string>{"g"});
    CHECK(hooked.topics == std::set<std::string>{"T"});
    CHECK(told == std::set<std::string>{"T"});
    auto admin = Admin::open(client).value();
    REQUIRE(eventually([&] { return admin.route("%DLQ%g").has_value(); }));
    CHECK(eventually([&] {
      const auto stored = admin.max_offset({"%DLQ%g", "broker-a", 0});
      return stored && *stored == 1;
    }));
  }

  TEST_CASE("transactions, requests and replies stay inside") {
    World w;
    Client client = w.open("one");
    Client other = w.open("one");
    struct Ledger {
      std::string* checked;
      TxState execute(const Message& m, const Receipt& half) {
        CHECK(m.topic == "T");
        CHECK(half.queue.topic == "T");
        return TxState::kCommit;
      }
      TxState check(const MessageView& m) {
        *checked = m.topic();
        return TxState::kCommit;
      }
    };
    std::string checked;
    std::string ended;
    TransactionOptions options;
    options.producer.group = "tx";
    options.on_end = [&](const TransactionEnd& end) {
      ended = std::string(end.group) + " " + std::string(end.topic);
    };
    auto payments = TransactionProducer::open(client, options, Ledger{&checked}).value();
    REQUIRE(payments.send(message("T", "paid")).has_value());
    CHECK(ended == "tx T");
    auto answers = Producer::open(other, {.group = "answers"}).value();
    Seen seen;
    auto service =
        PushConsumer::concurrent(other, group_options(), [&](std::span<const MessageView> b) {
          seen.add(b[0]);
          if (b[0].body() == "question") {
            CHECK(answers.reply(b[0], message("", "answer")).has_value());
          }
          return Ack::success();
        }).value();
    auto asking = Producer::open(client, {.group = "asking"}).value();
    const auto reply = asking.request(message("T", "question"), {.timeout = 20s});
    REQUIRE(reply.has_value());
    CHECK(reply->body() == "answer");
    CHECK(eventually([&] { return seen.count() == 2; }));
    CHECK(seen.bodies == std::multiset<std::string>{"paid", "question"});
  }

  TEST_CASE("pull consumers and administration use the program's names") {
    World w;
    Client client = w.open("one");
    auto producer = Producer::open(client, {.group = "p"}).value();
    const Queue queue{"T", "broker-a", 0};
    SendOptions there;
    there.queue = &queue;
    for (int i = 0; i < 5; ++i) {
      REQUIRE(producer.send(message("T", std::to_string(i)), there).has_value());
    }
    PullConsumerOptions options;
    options.group = "g";
    auto consumer = PullConsumer::open(client, options).value();
    CHECK(consumer.queues("T").value().at(0) == queue);
    REQUIRE(consumer.assign(std::span(&queue, 1)).has_value());
    CHECK(consumer.owned() == std::vector<Queue>{queue});
    REQUIRE(consumer.seek(queue, 3).has_value());
    const auto batch = consumer.poll(20s);
    REQUIRE_FALSE(batch.empty());
    CHECK(batch[0].body() == "3");
    CHECK(batch[0].queue() == queue);
    CHECK(consumer.position(queue).value() == 5);
    REQUIRE(consumer.commit().has_value());
    CHECK(consumer.committed(queue).value() == 5);
    CHECK(consumer.commit(queue, 4).has_value());
    CHECK(consumer.pull(queue, 1, 1).value().messages.at(0).topic() == "T");
    CHECK(consumer.seek_to_begin(queue).has_value());
    CHECK(consumer.offset_at(queue, std::chrono::system_clock::time_point()).value() == 0);

    auto admin = Admin::open(client).value();
    CHECK(admin.committed_offset("g", queue).value() == 4);
    CHECK(admin.max_offset(queue).value() == 5);
    CHECK(admin.min_offset(queue).value() == 0);
    const auto progress = admin.progress("g").value();
    CHECK(std::any_of(
        progress.begin(), progress.end(), [&](const auto& p) { return p.queue == queue; }));
    CHECK(admin.group_members("g")->size() == 1);
    CHECK(admin.group("g")->subscriptions.at(0).topic == "T");
    const auto topics = admin.topics().value();
    CHECK(std::count(topics.begin(), topics.end(), "T") == 1);
    CHECK(std::none_of(topics.begin(), topics.end(), [](const std::string& t) {
      return t.find("one%") != std::string::npos || t.find("two%") != std::string::npos;
    }));
    REQUIRE(admin.create_topic("DefaultCluster", "New", 1).has_value());
    CHECK(admin.route("New")->queues.size() == 1);
    GroupSettings settings;
    settings.name = "made";
    REQUIRE(admin.set_group("DefaultCluster", settings).has_value());
    const auto groups = admin.groups("DefaultCluster").value();
    CHECK(
        std::any_of(groups.begin(), groups.end(), [](const auto& g) { return g.name == "made"; }));
    const std::vector<Queue> both{queue, {"T", "broker-a", 1}};
    REQUIRE(consumer.assign(both).has_value());
    REQUIRE(consumer.commit(both[1], 0).has_value());
    CHECK(consumer.close().has_value());
    const auto reset =
        admin.reset_offset("g", "T", std::chrono::system_clock::time_point::max()).value();
    CHECK(reset.at(queue) == 5);
    CHECK(admin.delete_group("DefaultCluster", "made", true).has_value());
    CHECK(admin.delete_topic("DefaultCluster", "New").has_value());
    Client plain = w.open("");
    auto all = Admin::open(plain).value();
    const auto real = all.topics().value();
    CHECK(std::count(real.begin(), real.end(), "one%New") == 0);
    CHECK(std::count(real.begin(), real.end(), "New") == 0);
  }

  TEST_CASE("the trace has the program's names") {  // client §4.16: names without namespace
    World w;
    Client client = w.open("one", {.enabled = true});
    auto producer = Producer::open(client, {.group = "p"}).value();
    const auto sent = producer.send(message("T"));
    REQUIRE(sent.has_value());
    auto admin = Admin::open(client).value();
    std::string record;
    REQUIRE(eventually([&] {
      const auto found = admin.messages_by_key("RMQ_SYS_TRACE_TOPIC", sent->id);
      record = found ? std::string(found->front().body()) : std::string();
      return !record.empty();
    }));
    CHECK(record.find("\x01p\x01T\x01") != std::string::npos);
    CHECK(record.find("one%") == std::string::npos);
  }
}
