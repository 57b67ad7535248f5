// What the SDK offers beyond sending and receiving: order, transactions, requests, pulling. The same
// program runs against Tenon and against the official Java brokers.
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

constexpr Part kParts[] = {{"orderly", orderly}, {"subscribe", subscribe}};

}  // namespace

int main(int argc, char** argv) {
  return run_parts(kParts, argc, argv);
}
