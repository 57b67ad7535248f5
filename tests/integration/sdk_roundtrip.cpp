// What the client SDK promises, against any cluster: the same program runs against Tenon and
// against the official Java broker.
//
//   sdk_roundtrip --namesrv HOST:PORT [--cluster NAME] [--only PART] [--seed N]
//
// Prints one line per part; exit code 0 if all checks hold. Topics and groups get names of their
// own, so that it can run again on the same cluster.
#include "sdk_check.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using namespace check;

namespace {

std::string random_body(std::mt19937& random, std::size_t size, bool text) {
  std::string out(size, ' ');
  for (char& c : out) {
    c = static_cast<char>(text ? 'a' + random() % 4 : random() % 256);
  }
  return out;
}

// ---- parts ----

void topics(const Setup& s) {
  auto client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("topics");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 4));
  const auto route = admin.route(topic);
  REQUIRE_OK(route);
  if (route) {
    CHECK_THAT(!route->queues.empty() && route->queues[0].write_queues == 4);
    CHECK_THAT(!route->brokers.empty() && route->brokers[0].cluster == s.cluster);
  }
  const auto list = admin.topics();
  REQUIRE_OK(list);
  CHECK_THAT(list && std::binary_search(list->begin(), list->end(), topic));
  REQUIRE_OK(admin.brokers());
  REQUIRE_OK(admin.delete_topic(s.cluster, topic));
  const auto gone = admin.route(topic);
  CHECK_THAT(!gone && gone.error().is(sdk::Errc::kNotFound));
  const auto unknown = admin.create_topic("no-such-cluster", topic, 4);
  CHECK_THAT(!unknown && unknown.error().is(sdk::Errc::kNotFound));
}

sdk::Task<int> send_in_coroutine(sdk::Producer& producer, std::string topic, std::string* id) {
  sdk::Message first = text_message(topic, "from a coroutine");
  const auto a = co_await producer.async_send(std::move(first));
  if (!a) {
    co_return 0;
  }
  *id = a->id;
  sdk::Message second = text_message(topic, "and another");
  const auto b = co_await producer.async_send(std::move(second));
  co_return b ? 2 : 1;
}

/// Sends in every form, then receives each exactly once with everything intact.
void forms(const Setup& s) {
  auto client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("forms");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 4));
  sdk::ProducerOptions producer_options;
  producer_options.group = s.name("pg");
  auto producer = sdk::Producer::open(client, producer_options).value();
  std::map<std::string, std::string> sent;

  sdk::Message full = text_message(topic, "Grüße, 世界 🚀");
  full.tag = "TagA";
  full.keys = {"k1", "schlüssel-2"};
  full.properties = {{"user", "Zoë"}, {"empty-ish", "\"\\\t"}, {"n", "1"}};
  full.flag = 77;
  const auto blocking = producer.send(full);
  REQUIRE_OK(blocking);
  if (blocking) {
    sent[blocking->id] = full.body;
    CHECK_THAT(blocking->id.size() == 32);
    CHECK_THAT(blocking->offset_id.size() == 32);
    CHECK_THAT(blocking->queue.topic == topic && blocking->queue.id >= 0);
    CHECK_THAT(blocking->queue_offset == 0);
    CHECK_THAT(blocking->durable());
  }

  std::mutex mutex;
  std::atomic<int> answered{0};
  for (int i = 0; i < 200; ++i) {
    const std::string body = "async " + std::to_string(i);
    producer.async_send(text_message(topic, body), [&, body](sdk::Result<sdk::Receipt> r) {
      const std::scoped_lock lock(mutex);
      CHECK_OK(r);
      if (r) {
        sent[r->id] = body;
      }
      ++answered;
    });
  }
  CHECK_THAT(eventually([&] { return answered.load() == 200; }));

  std::string id;
  CHECK_THAT(send_in_coroutine(producer, topic, &id).get() == 2);

  const auto queues = producer.queues(topic);
  REQUIRE_OK(queues);
  sdk::SendOptions to_queue;
  const sdk::Queue third = queues.value().at(2);
  to_queue.queue = &third;
  const auto fixed = producer.send(text_message(topic, "to queue 2"), to_queue);
  REQUIRE_OK(fixed);
  CHECK_THAT(fixed && fixed->queue == third);
  const sdk::Selector select = [](std::span<const sdk::Queue> all, const sdk::Message& m) {
    return sdk::hash_queue(m.body, all.size());
  };
  sdk::SendOptions selected;
  selected.select = &select;
  const auto chosen = producer.send(text_message(topic, "order-1001"), selected);
  REQUIRE_OK(chosen);
  CHECK_THAT(chosen && chosen->queue.id == 3);  // java_hash 708180863 mod 4

  REQUIRE_OK(producer.send_oneway(text_message(topic, "one-way")));

  std::vector<sdk::Message> batch;
  for (int i = 0; i < 10; ++i) {
    batch.push_back(text_message(topic, "batch " + std::to_string(i)));
    batch.back().tag = "B";
  }
  const auto receipts = producer.send_batch(batch);
  REQUIRE_OK(receipts);
  CHECK_THAT(receipts && receipts->size() == 1 &&
             std::count(receipts->front().id.begin(), receipts->front().id.end(), ',') == 9);

  Inbox inbox;
  auto consumer = sdk::PushConsumer::concurrent(
                      client, consumer_options(s.name("cg_forms"), topic), into(inbox))
                      .value();
  const std::size_t expected = 1 + 200 + 2 + 2 + 1 + 10;
  CHECK_THAT(eventually([&] { return inbox.size() >= expected; }));
  REQUIRE_OK(consumer.close());
  CHECK_THAT(inbox.size() == expected);
  CHECK_THAT(inbox.deliveries() == expected);
  for (const auto& [message_id, body] : sent) {
    CHECK_THAT(inbox.body[message_id] == body);
  }
  if (blocking) {
    const auto m = inbox.find(blocking->id);
    CHECK_THAT(static_cast<bool>(m));
    if (m) {
      CHECK_THAT(m.topic() == topic && m.tag() == "TagA" && m.keys() == "k1 schlüssel-2");
      CHECK_THAT(m.property("user") == "Zoë" && m.property("empty-ish") == "\"\\\t");
      CHECK_THAT(m.flag() == 77 && m.reconsume_times() == 0);
      CHECK_THAT(m.offset_id() == blocking->offset_id);
      CHECK_THAT(m.queue() == blocking->queue && m.queue_offset() == blocking->queue_offset);
      CHECK_THAT(m.born_host().find(':') != std::string::npos);
    }
  }
}

void bodies(const Setup& s) {
  auto client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("bodies");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 2));
  std::mt19937 random(s.seed);
  std::map<std::string, std::string> sent;
  int n = 0;
  for (const auto compression : {sdk::Compression::kNone,
                                 sdk::Compression::kZlib,
                                 sdk::Compression::kLz4,
                                 sdk::Compression::kZstd}) {
    sdk::ProducerOptions o;
    o.group = s.name("pgb" + std::to_string(n++));
    o.compression = compression;
    o.send_timeout = 20s;
    auto producer = sdk::Producer::open(client, o).value();
    for (const std::size_t size : {std::size_t{1},
                                   std::size_t{4095},
                                   std::size_t{4096},
                                   std::size_t{100'000},
                                   std::size_t{4'194'304}}) {
      std::string body = random_body(random, size, true);
      const auto r = producer.send(text_message(topic, body));
      REQUIRE_OK(r);
      if (r) {
        sent[r->id] = std::move(body);
      }
    }
    std::string noise = random_body(random, 20'000, false);
    const auto r = producer.send(text_message(topic, noise));
    REQUIRE_OK(r);
    if (r) {
      sent[r->id] = std::move(noise);
    }
    const auto empty = producer.send(text_message(topic, ""));
    CHECK_THAT(!empty && empty.error().is(sdk::Errc::kMessageIllegal) &&
               empty.error().remark == "the message body length is zero");
    const auto large = producer.send(text_message(topic, std::string(4'194'305, 'x')));
    CHECK_THAT(!large && large.error().is(sdk::Errc::kMessageIllegal));
  }
  Inbox inbox;
  auto consumer = sdk::PushConsumer::concurrent(
                      client, consumer_options(s.name("cg_bodies"), topic), into(inbox))
                      .value();
  CHECK_THAT(eventually([&] { return inbox.size() >= sent.size(); }));
  REQUIRE_OK(consumer.close());
  CHECK_THAT(inbox.size() == sent.size());
  for (const auto& [id, body] : sent) {
    CHECK_THAT(inbox.body[id] == body);
  }
  const bool compressed = std::any_of(inbox.messages.begin(), inbox.messages.end(), [](auto& m) {
    return (m.sys_flag() & 0x701) == 0x301 && m.raw_body().size() < m.body().size();
  });
  CHECK_THAT(compressed);
}

void tags(const Setup& s) {
  auto client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("tags");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 2));
  auto producer = sdk::Producer::open(client, {.group = s.name("pgt")}).value();
  // "Aa" and "BB" have the same hash: only the exact comparison tells them apart.
  for (const char* tag : {"Aa", "BB", "C", "", "D"}) {
    for (int i = 0; i < 5; ++i) {
      sdk::Message m = text_message(topic, std::string("tag ") + tag);
      m.tag = tag;
      REQUIRE_OK(producer.send(m));
    }
  }
  Inbox inbox;
  auto options = consumer_options(s.name("cg_tags"), topic);
  options.subscriptions[topic].expression = "Aa || C";
  auto consumer = sdk::PushConsumer::concurrent(client, options, into(inbox)).value();
  CHECK_THAT(eventually([&] { return inbox.size() >= 10; }));
  // Whatever does not match has been passed over when the offsets stand at the end.
  std::vector<sdk::Queue> queues = producer.queues(topic).value();
  CHECK_THAT(eventually([&] {
    return std::all_of(queues.begin(), queues.end(), [&](const sdk::Queue& q) {
      const auto end = admin.max_offset(q);
      const auto at = admin.committed_offset(options.group, q);
      return end && at && *at == *end;
    });
  }));
  REQUIRE_OK(consumer.close());
  CHECK_THAT(inbox.size() == 10);
  for (const auto& m : inbox.messages) {
    CHECK_THAT(m.tag() == "Aa" || m.tag() == "C");
  }
}

/// Two members share the queues, one leaves, the other takes over; nothing comes twice.
void group(const Setup& s) {
  auto client_a = s.client();
  auto client_b = s.client();
  CHECK_THAT(client_a.id() != client_b.id());
  auto admin = sdk::Admin::open(client_a).value();
  const std::string topic = s.name("group");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 8));
  auto producer = sdk::Producer::open(client_a, {.group = s.name("pgg")}).value();
  Inbox inbox;
  const auto options = consumer_options(s.name("cg_group"), topic);
  auto a = sdk::PushConsumer::concurrent(client_a, options, into(inbox)).value();
  const auto queues_of = [&](const sdk::PushConsumer& c) {
    std::set<sdk::Queue> out;
    for (const auto& q : c.owned()) {
      if (q.topic == topic) {
        out.insert(q);
      }
    }
    return out;
  };
  CHECK_THAT(eventually([&] { return queues_of(a).size() == 8; }));
  const auto twice = sdk::PushConsumer::concurrent(client_a, options, into(inbox));
  CHECK_THAT(!twice && twice.error().is(sdk::Errc::kConflict));
  {
    auto b = sdk::PushConsumer::concurrent(client_b, options, into(inbox)).value();
    CHECK_THAT(eventually([&] { return queues_of(a).size() == 4 && queues_of(b).size() == 4; }));
    std::set<sdk::Queue> both = queues_of(a);
    both.merge(queues_of(b));
    CHECK_THAT(both.size() == 8);
    for (int i = 0; i < 400; ++i) {
      REQUIRE_OK(producer.send(text_message(topic, "shared " + std::to_string(i))));
    }
    CHECK_THAT(eventually([&] { return inbox.size() == 400; }));
    const auto members = admin.group_members(options.group);
    REQUIRE_OK(members);
    CHECK_THAT(members && members->size() == 2);
    REQUIRE_OK(b.close());
  }
  const auto left_at = std::chrono::steady_clock::now();
  CHECK_THAT(eventually([&] { return queues_of(a).size() == 8; }));
  CHECK_THAT(std::chrono::steady_clock::now() - left_at < 5s);  // told by the broker, not by timer
  for (int i = 0; i < 100; ++i) {
    REQUIRE_OK(producer.send(text_message(topic, "after " + std::to_string(i))));
  }
  CHECK_THAT(eventually([&] { return inbox.size() == 500; }));
  REQUIRE_OK(a.close());
  CHECK_THAT(inbox.deliveries() == 500);
}

/// Offsets survive a restart of the consumer.
void restart(const Setup& s) {
  auto client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("restart");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 4));
  auto producer = sdk::Producer::open(client, {.group = s.name("pgr")}).value();
  Inbox inbox;
  const auto options = consumer_options(s.name("cg_restart"), topic);
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < 50; ++i) {
      REQUIRE_OK(producer.send(text_message(topic, "round " + std::to_string(round))));
    }
    auto fresh = s.client();
    auto consumer = sdk::PushConsumer::concurrent(fresh, options, into(inbox)).value();
    CHECK_THAT(eventually([&] { return inbox.size() == static_cast<std::size_t>(50 * round); }));
    REQUIRE_OK(consumer.close());
  }
  CHECK_THAT(inbox.deliveries() == 150);
  const auto progress = admin.progress(options.group);
  REQUIRE_OK(progress);
  std::int64_t lag = 0;
  std::size_t rows = 0;
  for (const auto& p : progress.value()) {
    if (p.queue.topic == topic) {
      lag += p.lag();
      ++rows;
    }
  }
  CHECK_THAT(rows == 4 && lag == 0);
}

/// A message that a listener does not want comes again, with the same id; a dead letter does not.
void retry(const Setup& s) {
  auto client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("retry");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 2));
  auto producer = sdk::Producer::open(client, {.group = s.name("pgy")}).value();
  std::mutex mutex;
  std::map<std::string, std::vector<int>> attempts;
  auto options = consumer_options(s.name("cg_retry"), topic);
  auto consumer =
      sdk::PushConsumer::concurrent(client, options, [&](std::span<const sdk::MessageView> batch) {
        const auto& m = batch.front();
        const std::scoped_lock lock(mutex);
        attempts[m.id()].push_back(m.reconsume_times());
        CHECK_THAT(m.topic() == topic);
        if (m.body() == "dead") {
          return sdk::Ack::dead_letter();
        }
        if (m.body() == "throw" && m.reconsume_times() == 0) {
          throw std::runtime_error("not yet");
        }
        return m.body() == "again" && m.reconsume_times() == 0 ? sdk::Ack::retry(1)
                                                               : sdk::Ack::success();
      }).value();
  const auto again = producer.send(text_message(topic, "again"));
  const auto dead = producer.send(text_message(topic, "dead"));
  REQUIRE_OK(again);
  REQUIRE_OK(dead);
  CHECK_THAT(eventually([&] {
    const std::scoped_lock lock(mutex);
    return attempts[again->id].size() == 2 && attempts[dead->id].size() == 1;
  }));
  CHECK_THAT((attempts[again->id] == std::vector<int>{0, 1}));
  CHECK_THAT(eventually([&] {
    const auto list = admin.topics();
    return list && std::count(list->begin(), list->end(), "%DLQ%" + options.group) == 1;
  }));
  REQUIRE_OK(consumer.close());
}

void query(const Setup& s) {
  auto client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("query");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 1));
  auto producer = sdk::Producer::open(client, {.group = s.name("pgq")}).value();
  sdk::Message m = text_message(topic, "find me");
  m.keys = {"needle", "thread"};
  const auto sent = producer.send(m);
  REQUIRE_OK(sent);
  for (int i = 0; i < 3; ++i) {
    m.keys = {"hay"};
    REQUIRE_OK(producer.send(m));
  }
  const auto by_offset = admin.message_by_id(sent->offset_id);
  REQUIRE_OK(by_offset);
  CHECK_THAT(by_offset && by_offset->id() == sent->id && by_offset->body() == "find me");
  CHECK_THAT(eventually([&] { return admin.messages_by_key(topic, "needle").has_value(); }));
  const auto by_key = admin.messages_by_key(topic, "needle");
  CHECK_THAT(by_key && by_key->size() == 1 && by_key->front().id() == sent->id);
  CHECK_THAT(eventually([&] {
    const auto hay = admin.messages_by_key(topic, "hay");
    return hay && hay->size() == 3;
  }));
  const auto by_unique = admin.message_by_id(sent->id, topic);
  REQUIRE_OK(by_unique);
  CHECK_THAT(by_unique && by_unique->offset_id() == sent->offset_id);
  const auto none = admin.messages_by_key(topic, "no-such-key");
  CHECK_THAT(!none && none.error().is(sdk::Errc::kNotFound));
  const auto end = admin.max_offset(sent->queue);
  const auto begin = admin.min_offset(sent->queue);
  CHECK_THAT(begin && *begin == 0 && end && *end == 4);
}

/// A topic that does not exist is made by the first message.
void created_by_sending(const Setup& s) {
  auto client = s.client();
  auto producer = sdk::Producer::open(client, {.group = s.name("pgc")}).value();
  const std::string topic = s.name("fresh");
  Inbox inbox;
  for (int i = 0; i < 8; ++i) {
    REQUIRE_OK(producer.send(text_message(topic, "fresh " + std::to_string(i))));
  }
  auto options = consumer_options(s.name("cg_fresh"), topic);
  options.start = sdk::FromLast{};  // of a young topic the beginning (spec: client §5.4)
  auto consumer = sdk::PushConsumer::concurrent(client, options, into(inbox)).value();
  CHECK_THAT(eventually([&] { return inbox.size() == 8; }));
  REQUIRE_OK(consumer.close());
}

/// Open and close with calls in flight, in callbacks and in listeners.
void lifetimes(const Setup& s) {
  const std::string topic = s.name("lifetimes");
  {
    auto client = s.client();
    REQUIRE_OK(sdk::Admin::open(client).value().create_topic(s.cluster, topic, 4));
  }
  std::atomic<int> called{0};
  int started = 0;
  for (int i = 0; i < 20; ++i) {
    auto client = s.client();
    auto producer = sdk::Producer::open(client, {.group = s.name("pgl")}).value();
    for (int k = 0; k < 50; ++k) {
      ++started;
      producer.async_send(text_message(topic, "x"), [&](sdk::Result<sdk::Receipt>) { ++called; });
    }
  }
  CHECK_THAT(called.load() == started);  // each exactly once, before the destructor returned
  auto client = s.client();
  auto owned = std::make_unique<sdk::PushConsumer>(
      sdk::PushConsumer::concurrent(
          client,
          consumer_options(s.name("cg_life"), topic),
          [](std::span<const sdk::MessageView>) { return sdk::Ack::success(); })
          .value());
  owned.reset();
  std::mutex mutex;
  std::unique_ptr<sdk::PushConsumer> suicidal;
  std::atomic<bool> gone{false};
  {
    const std::scoped_lock lock(mutex);
    suicidal = std::make_unique<sdk::PushConsumer>(
        sdk::PushConsumer::concurrent(client,
                                      consumer_options(s.name("cg_suicide"), topic),
                                      [&](std::span<const sdk::MessageView>) {
                                        // Taken out under the lock, ended without it: it waits
                                        // for other calls, which wait for the lock.
                                        std::unique_ptr<sdk::PushConsumer> mine;
                                        {
                                          const std::scoped_lock inner(mutex);
                                          mine = std::move(suicidal);
                                        }
                                        if (mine) {
                                          mine.reset();
                                          gone = true;
                                        }
                                        return sdk::Ack::success();
                                      })
            .value());
  }
  auto producer = sdk::Producer::open(client, {.group = s.name("pgl2")}).value();
  REQUIRE_OK(producer.send(text_message(topic, "end yourself")));
  CHECK_THAT(eventually([&] { return gone.load(); }));
}

constexpr Part kParts[] = {{"topics", topics},
                           {"forms", forms},
                           {"bodies", bodies},
                           {"tags", tags},
                           {"group", group},
                           {"restart", restart},
                           {"retry", retry},
                           {"query", query},
                           {"created_by_sending", created_by_sending},
                           {"lifetimes", lifetimes}};

}  // namespace

int main(int argc, char** argv) {
  return run_parts(kParts, argc, argv);
}
