// What the SDK offers beyond sending and receiving: order, subscriptions, transactions, requests,
// delay. The same program runs against Tenon and against the official Java brokers.
//
//   sdk_features --namesrv HOST:PORT [--cluster NAME] [--only PART]
#include "sdk_check.h"

#include <algorithm>
#include <set>

using namespace std::chrono_literals;
using namespace check;

namespace {

sdk::SendOptions by_key(std::string_view key) {
  sdk::SendOptions o;
  o.sharding_key = key;
  return o;
}

/// Messages of one key arrive in order, one at a time, also while members come and go.
void orderly(const Setup& s) {
  auto client = s.client();
  auto other_client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("orderly");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 4));
  auto producer = sdk::Producer::open(client, {.group = s.name("pgo")}).value();
  std::mutex mutex;
  std::map<std::string, std::vector<int>> seen;
  std::map<std::string, int> inside;
  int overlaps = 0;
  std::size_t done = 0;
  const auto listener = [&](std::span<const sdk::MessageView> batch) {
    const auto& m = batch.front();
    const std::string key(m.keys());
    const int n = std::atoi(std::string(m.body()).c_str());
    {
      const std::scoped_lock lock(mutex);
      overlaps += inside[key]++ == 0 ? 0 : 1;
    }
    std::this_thread::sleep_for(1ms);
    const std::scoped_lock lock(mutex);
    --inside[key];
    if (n % 40 == 7 && m.reconsume_times() == 0) {
      return sdk::OrderAck::suspend(10ms);
    }
    if (seen[key].empty() || seen[key].back() != n) {  // comes twice if a member left in between
      seen[key].push_back(n);
      ++done;
    }
    return sdk::OrderAck::success();
  };
  const auto options = consumer_options(s.name("cg_orderly"), topic);
  auto a = sdk::PushConsumer::orderly(client, options, listener).value();
  const auto send = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      for (const char* key : {"red", "green", "blue", "yellow", "black"}) {
        sdk::Message m = text_message(topic, std::to_string(i));
        m.keys = {key};
        const auto r = producer.send(std::move(m), by_key(key));
        REQUIRE_OK(r);
        CHECK_THAT(r->queue.id == sdk::hash_queue(key, 4));
      }
    }
  };
  send(0, 60);
  {
    auto b = sdk::PushConsumer::orderly(other_client, options, listener).value();
    CHECK_THAT(eventually([&] { return !b.owned().empty(); }));
    send(60, 120);
    CHECK_OK(b.close());
  }
  send(120, 160);
  CHECK_THAT(eventually([&] {
    const std::scoped_lock lock(mutex);
    return done == 5 * 160;
  }));
  CHECK_OK(a.close());
  CHECK_THAT(overlaps == 0);
  for (const auto& [key, numbers] : seen) {
    CHECK_THAT(std::is_sorted(numbers.begin(), numbers.end()));
    CHECK_THAT(numbers.size() == 160);
  }
}

/// A topic that is subscribed while running.
void subscribe(const Setup& s) {
  auto client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string first = s.name("sub_a");
  const std::string second = s.name("sub_b");
  REQUIRE_OK(admin.create_topic(s.cluster, first, 2));
  REQUIRE_OK(admin.create_topic(s.cluster, second, 2));
  auto producer = sdk::Producer::open(client, {.group = s.name("pgs")}).value();
  REQUIRE_OK(producer.send(text_message(first, "a")));
  REQUIRE_OK(producer.send(text_message(second, "b")));
  Inbox inbox;
  auto consumer =
      sdk::PushConsumer::concurrent(client, consumer_options(s.name("cg_sub"), first), into(inbox))
          .value();
  CHECK_THAT(eventually([&] { return inbox.size() == 1; }));
  REQUIRE_OK(consumer.subscribe(second));
  CHECK_THAT(eventually([&] { return inbox.size() == 2; }));
  REQUIRE_OK(consumer.unsubscribe(second));
  CHECK_THAT(eventually([&] {
    const auto owned = consumer.owned();
    return std::none_of(
        owned.begin(), owned.end(), [&](const sdk::Queue& q) { return q.topic == second; });
  }));
  CHECK_OK(consumer.close());
}

/// Local transactions that commit, roll back, or are decided only when the broker asks.
struct Ledger {
  sdk::TxState execute(const sdk::Message& m, const sdk::Receipt& half) {
    CHECK_THAT(!half.id.empty());
    return m.body == "commit"     ? sdk::TxState::kCommit
           : m.body == "rollback" ? sdk::TxState::kRollback
                                  : sdk::TxState::kUnknown;
  }
  sdk::TxState check(const sdk::MessageView& m) {
    CHECK_THAT(m.body() == "ask me" || m.body() == "ask me, no");
    return m.body() == "ask me" ? sdk::TxState::kCommit : sdk::TxState::kRollback;
  }
};

/// Consumers get what was committed, at once or after the broker's question, and nothing else.
void transactions(const Setup& s) {
  auto client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("tx");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 2));
  Inbox inbox;
  auto consumer =
      sdk::PushConsumer::concurrent(client, consumer_options(s.name("cg_tx"), topic), into(inbox))
          .value();
  sdk::TransactionOptions options;
  options.producer.group = s.name("ptx");
  auto producer = sdk::TransactionProducer::open(client, options, Ledger()).value();
  std::set<std::string> wanted;
  for (const char* body : {"commit", "rollback", "ask me", "ask me, no", "commit"}) {
    const auto sent = producer.send(text_message(topic, body));
    REQUIRE_OK(sent);
    const std::string_view what(body);
    CHECK_THAT(sent->local == (what == "commit"     ? sdk::TxState::kCommit
                               : what == "rollback" ? sdk::TxState::kRollback
                                                    : sdk::TxState::kUnknown));
    if (what == "commit" || what == "ask me") {
      wanted.insert(sent->send.id);
    }
  }
  // Brokers ask a minute after a minute's rounds begin: 6 s to 66 s after the message.
  CHECK_THAT(eventually([&] { return inbox.size() == wanted.size(); }, 150s));
  for (const std::string& id : wanted) {
    CHECK_THAT(static_cast<bool>(inbox.find(id)));
  }
  CHECK_THAT(inbox.size() == wanted.size());
  CHECK_OK(consumer.close());
}

/// A request waits for the answer of whoever consumes it.
void requests(const Setup& s) {
  auto client = s.client();
  auto server_client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("req");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 2));
  auto answerer = sdk::Producer::open(server_client, {.group = s.name("pr_server")}).value();
  auto server = sdk::PushConsumer::concurrent(server_client,
                                              consumer_options(s.name("cg_req"), topic),
                                              [&](std::span<const sdk::MessageView> batch) {
                                                for (const auto& m : batch) {
                                                  if (m.body() != "nobody answers") {
                                                    sdk::Message answer;
                                                    answer.body = "re: " + std::string(m.body());
                                                    CHECK_OK(answerer.reply(m, std::move(answer)));
                                                  }
                                                }
                                                return sdk::Ack::success();
                                              })
                    .value();
  auto producer = sdk::Producer::open(client, {.group = s.name("pr_client")}).value();
  CHECK_THAT(eventually([&] { return server.owned().size() >= 2; }));
  for (int i = 0; i < 5; ++i) {
    const auto answer = producer.request(text_message(topic, std::to_string(i)), {.timeout = 20s});
    REQUIRE_OK(answer);
    CHECK_THAT(answer->body() == "re: " + std::to_string(i));
  }
  const auto none = producer.request(text_message(topic, "nobody answers"), {.timeout = 1s});
  CHECK_THAT(!none && none.error().code == sdk::Errc::kRequestTimeout);
  CHECK_OK(server.close());
}

/// By level everywhere; for any time, and taken back, where the broker can (it gives a handle).
void delay(const Setup& s) {
  auto client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("delay");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 2));
  auto producer = sdk::Producer::open(client, {.group = s.name("pd")}).value();
  Inbox inbox;
  auto consumer =
      sdk::PushConsumer::concurrent(client, consumer_options(s.name("cg_d"), topic), into(inbox))
          .value();
  sdk::Message by_level = text_message(topic, "level 2");
  by_level.delay_level = 2;
  const auto level = producer.send(std::move(by_level));
  REQUIRE_OK(level);
  sdk::Message any = text_message(topic, "1500 ms");
  any.delay = 1500ms;
  const auto timed = producer.send(std::move(any));
  REQUIRE_OK(timed);
  CHECK_THAT(eventually([&] { return inbox.size() == 2; }));
  const auto waited = [&](const std::string& id) {
    const auto m = inbox.find(id);
    return m.store_time() - m.born_time();
  };
  CHECK_THAT(waited(level->id) >= 5s);
  CHECK_THAT(timed->recall_handle.empty() || waited(timed->id) >= 1500ms);
  CHECK_OK(consumer.close());
}

sdk::PullConsumerOptions pull_options(const std::string& group, const std::string& topic) {
  sdk::PullConsumerOptions o;
  o.group = group;
  o.start = sdk::FromFirst{};
  o.rebalance_interval = 2s;
  if (!topic.empty()) {
    o.subscriptions[topic] = sdk::Subscription();
  }
  return o;
}

/// Polls until so many messages have come; the bodies, how often.
std::map<std::string, int> poll_all(sdk::PullConsumer& consumer, std::size_t count) {
  std::map<std::string, int> out;
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (out.size() < count && std::chrono::steady_clock::now() < end) {
    for (const auto& m : consumer.poll(1s)) {
      ++out[std::string(m.body())];
    }
  }
  return out;
}

/// Members share the queues; what is committed does not come again.
void pull_shared(const Setup& s) {
  auto client = s.client();
  auto other_client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("pull");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 4));
  auto producer = sdk::Producer::open(client, {.group = s.name("ppl")}).value();
  for (int i = 0; i < 200; ++i) {
    REQUIRE_OK(producer.send(text_message(topic, std::to_string(i))));
  }
  const auto options = pull_options(s.name("cg_pull"), topic);
  {
    auto a = sdk::PullConsumer::open(client, options).value();
    const auto all = poll_all(a, 200);
    CHECK_THAT(all.size() == 200);
    REQUIRE_OK(a.commit());
    for (const auto& queue : a.owned()) {
      const auto committed = a.committed(queue);
      const auto position = a.position(queue);
      CHECK_OK(committed);
      CHECK_OK(position);
      CHECK_THAT(committed && position && *committed == *position);
    }
    CHECK_OK(a.close());
  }
  auto a = sdk::PullConsumer::open(client, options).value();
  auto b = sdk::PullConsumer::open(other_client, options).value();
  CHECK_THAT(eventually([&] { return a.owned().size() == 2 && b.owned().size() == 2; }));
  for (int i = 200; i < 300; ++i) {
    REQUIRE_OK(producer.send(text_message(topic, std::to_string(i))));
  }
  auto seen = poll_all(a, 50);
  seen.merge(poll_all(b, 50));
  CHECK_THAT(seen.size() == 100);  // and nothing of what was committed
  CHECK_THAT(seen.count("200") == 1 && seen.count("299") == 1);
  CHECK_OK(a.commit());
  CHECK_OK(b.commit());
  CHECK_OK(a.close());
  CHECK_OK(b.close());
}

/// Queues of one's own choice, from where one likes; a single pull.
void pull_assigned(const Setup& s) {
  auto client = s.client();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("assign");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 2));
  auto producer = sdk::Producer::open(client, {.group = s.name("ppa")}).value();
  auto consumer = sdk::PullConsumer::open(client, pull_options(s.name("cg_assign"), "")).value();
  const auto queues = consumer.queues(topic);
  REQUIRE_OK(queues);
  const sdk::Queue queue = queues->front();
  sdk::SendOptions there;
  there.queue = &queue;
  const auto send = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      sdk::Message m = text_message(topic, std::to_string(i));
      m.tag = i % 2 == 0 ? "even" : "odd";
      REQUIRE_OK(producer.send(std::move(m), there));
    }
  };
  send(0, 10);
  // Brokers up to 4.9 name the message whose time is the nearest, not the first at or after it.
  std::this_thread::sleep_for(1s);
  const auto between = std::chrono::system_clock::now();
  std::this_thread::sleep_for(5ms);
  send(10, 20);
  const auto first = [&] {
    const auto batch = consumer.poll(20s);
    return batch.empty() ? std::string("nothing") : std::string(batch.front().body());
  };
  REQUIRE_OK(consumer.assign(std::span(&queue, 1)));
  CHECK_THAT(consumer.owned().size() == 1);
  CHECK_THAT(poll_all(consumer, 20).size() == 20);
  CHECK_THAT(consumer.seek(queue, 21).error().code == sdk::Errc::kInvalidArgument);
  CHECK_OK(consumer.seek(queue, 7));
  CHECK_THAT(first() == "7");
  CHECK_OK(consumer.seek_to_time(queue, between));
  CHECK_THAT(first() == "10");
  const auto at = consumer.offset_at(queue, between);
  CHECK_THAT(at && *at == 10);
  CHECK_OK(consumer.seek_to_begin(queue));
  CHECK_THAT(first() == "0");
  CHECK_OK(consumer.commit(queue, 13));
  CHECK_THAT(consumer.committed(queue).value() == 13);
  consumer.pause(std::span(&queue, 1));
  CHECK_OK(consumer.seek_to_end(queue));
  send(20, 21);
  CHECK_THAT(consumer.poll(300ms).empty());
  consumer.resume(std::span(&queue, 1));
  CHECK_THAT(first() == "20");
  REQUIRE_OK(consumer.assign(std::span(&queue, 1), {"odd"}));
  CHECK_OK(consumer.seek_to_begin(queue));
  CHECK_THAT(first() == "1");

  using Status = sdk::PullResult::Status;
  const auto some = consumer.pull(queue, 3, 4);
  REQUIRE_OK(some);
  CHECK_THAT(some->status == Status::kFound && some->messages.size() == 4);
  CHECK_THAT(some->next_offset == 7 && some->min_offset == 0 && some->max_offset == 21);
  CHECK_THAT(some->messages.front().body() == "3");
  CHECK_THAT(consumer.pull(queue, 21)->status == Status::kNothingNew);
  CHECK_THAT(consumer.pull(queue, 50)->status == Status::kOffsetIllegal);
  CHECK_THAT(consumer.pull(queue, 0, 32, {}, {"none"})->status == Status::kNothingWanted);
  std::thread later([&] {
    std::this_thread::sleep_for(200ms);
    CHECK_OK(producer.send(text_message(topic, "waited for"), there));
  });
  const auto waited = consumer.pull(queue, 21, 32, 20s);
  later.join();
  CHECK_THAT(waited && waited->status == Status::kFound &&
             waited->messages.front().body() == "waited for");
  CHECK_OK(consumer.close());
}

/// The message trace: three records of a message, found by its id as RocketMQ's tools do.
void trace(const Setup& s) {
  sdk::ClientOptions options;
  if (!s.config.empty()) {
    options = sdk::ClientOptions::from_toml(s.config).value();
  }
  options.name_servers = s.namesrv;
  options.trace.enabled = true;
  auto client = sdk::Client::connect(options).value();
  auto admin = sdk::Admin::open(client).value();
  const std::string topic = s.name("traced");
  REQUIRE_OK(admin.create_topic(s.cluster, topic, 1));
  auto producer = sdk::Producer::open(client, {.group = s.name("pgt")}).value();
  sdk::Message m = text_message(topic, "traced");
  m.keys = {s.name("key")};
  const auto sent = producer.send(std::move(m));
  REQUIRE_OK(sent);
  Inbox inbox;
  auto consumer =
      sdk::PushConsumer::concurrent(client, consumer_options(s.name("cgt"), topic), into(inbox))
          .value();
  CHECK_THAT(eventually([&] { return inbox.size() == 1; }));
  const auto found = [&](std::string_view by) {
    std::set<std::string> kinds;
    const auto records = admin.messages_by_key(options.trace.topic, by);
    for (const auto& record : records ? *records : std::vector<sdk::MessageView>()) {
      for (const char* kind : {"Pub", "SubBefore", "SubAfter"}) {
        if (record.body().find(std::string(kind) + "\x01") != std::string_view::npos &&
            record.body().find(sent->id) != std::string_view::npos) {
          kinds.insert(kind);
        }
      }
    }
    return kinds.size();
  };
  CHECK_THAT(eventually([&] { return found(sent->id) == 3; }));
  CHECK_THAT(found(s.name("key")) == 3);
  CHECK_OK(consumer.close());
  std::printf("traced %s\n", sent->id.c_str());
}

/// Beside a Java client, in the namespace that --config names: topic "Shared" with 4 queues and group
/// "both" are there. Sends one message to each queue, then consumes what comes until standard input
/// ends; says what it got.
void beside_java(const Setup& s) {
  auto client = s.client();
  auto producer = sdk::Producer::open(client, {.group = "ours"}).value();
  const auto queues = producer.queues("Shared");
  REQUIRE_OK(queues);
  CHECK_THAT(queues->size() == 4);
  Inbox inbox;
  auto consumer =
      sdk::PushConsumer::concurrent(client, consumer_options("both", "Shared"), into(inbox))
          .value();
  for (const sdk::Queue& queue : *queues) {
    sdk::SendOptions there;
    there.queue = &queue;
    const auto r = producer.send(text_message("Shared", "from ours"), there);
    REQUIRE_OK(r);
    CHECK_THAT(r->queue.topic == "Shared");
    std::printf("sent %s\n", r->id.c_str());
  }
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  CHECK_OK(consumer.close());
  const std::scoped_lock lock(inbox.mutex);
  for (const auto& m : inbox.messages) {
    CHECK_THAT(m.topic() == "Shared");
    std::printf("got %s\n", m.id().c_str());
  }
}

/// Beside Java clients, in the namespace that --config names: sends every kind of message to topic
/// "Kinds", then consumes whatever is in it until standard input ends; says what it sent and got.
void kinds(const Setup& s) {
  auto client = s.client();
  const auto sent = [](const sdk::Receipt& r, std::size_t bytes) {
    for (std::size_t at = 0; at < r.id.size(); at += 33) {
      std::printf("sent %s %zu\n", r.id.substr(at, 32).c_str(), bytes);
    }
  };
  auto producer = sdk::Producer::open(client, {.group = "kinds"}).value();
  for (const std::size_t bytes : {std::size_t{5}, std::size_t{30'000}}) {
    const auto r = producer.send(text_message("Kinds", std::string(bytes, 'k')));
    REQUIRE_OK(r);
    sent(*r, bytes);
  }
  std::vector<sdk::Message> batch(3, text_message("Kinds", "batch"));
  const auto together = producer.send_batch(batch);
  REQUIRE_OK(together);
  sent(together->front(), 5);
  sdk::Message late = text_message("Kinds", "late");
  late.delay_level = 1;
  const auto delayed = producer.send(std::move(late));
  REQUIRE_OK(delayed);
  sent(*delayed, 4);
  struct Payer {
    sdk::TxState execute(const sdk::Message& m, const sdk::Receipt&) {
      return m.body == "paid" ? sdk::TxState::kCommit : sdk::TxState::kRollback;
    }
    sdk::TxState check(const sdk::MessageView&) { return sdk::TxState::kRollback; }
  };
  sdk::TransactionOptions options;
  options.producer.group = "kinds_tx";
  auto payments = sdk::TransactionProducer::open(client, options, Payer()).value();
  const auto paid = payments.send(text_message("Kinds", "paid"));
  REQUIRE_OK(paid);
  sent(paid->send, 4);
  REQUIRE_OK(payments.send(text_message("Kinds", "not paid")));
  std::puts("all");
  std::fflush(stdout);
  auto consumer = sdk::PushConsumer::concurrent(
                      client,
                      consumer_options("ours", "Kinds"),
                      [](std::span<const sdk::MessageView> messages) {
                        for (const auto& m : messages) {
                          std::printf("got %s %zu\n", m.id().c_str(), m.body().size());
                        }
                        std::fflush(stdout);
                        return sdk::Ack::success();
                      })
                      .value();
  while (std::getchar() != EOF) {
  }
  CHECK_OK(consumer.close());
}

constexpr Part kParts[] = {{"orderly", orderly},
                           {"subscribe", subscribe},
                           {"transactions", transactions},
                           {"requests", requests},
                           {"delay", delay},
                           {"pull_shared", pull_shared},
                           {"pull_assigned", pull_assigned},
                           {"trace", trace}};
constexpr Part kOnDemand[] = {{"beside_java", beside_java}, {"kinds", kinds}};

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    for (const Part& part : kOnDemand) {
      if (std::string_view(argv[i]) == part.first) {
        return run_parts(kOnDemand, argc, argv);
      }
    }
  }
  return run_parts(kParts, argc, argv);
}
