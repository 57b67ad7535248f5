#include "orderly.h"

#include "group_member.h"

#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;
namespace proto = tenon::proto;
using detail::ConsumerCore;
using proto::RequestCode;

namespace {

/// A member of group g; a clock makes time stand still, and timers run by hand.
struct Fixture : GroupMember<PushConsumerOptions> {
  explicit Fixture(std::int32_t queues = 1, const tenon::Clock* clock = nullptr)
      : GroupMember(queues, clock) {
    cluster.add_topic("%RETRY%g", {"a"}, 1);
    options.suspend_delay = 10ms;
  }
  ~Fixture() { stop(); }

  void start(PushConsumer::InOrder listener) {
    detail::Listeners listeners;
    listeners.orderly = std::move(listener);
    run(ConsumerCore::create(*client, options, std::move(listeners)).value());
  }
  void note(const MessageView& m) {
    const std::scoped_lock lock(mutex);
    bodies.push_back(std::string(m.body()) + "/" + std::to_string(m.reconsume_times()));
  }
  std::vector<std::string> noted() {
    const std::scoped_lock lock(mutex);
    return bodies;
  }
  std::size_t locks() { return cluster.requests(RequestCode::kLockBatchMq).size(); }

  std::mutex mutex;
  std::vector<std::string> bodies;
};

using Bodies = std::vector<std::string>;

}  // namespace

TEST_SUITE("sdk/orderly") {
  TEST_CASE("no two threads in one queue, each queue in its order") {  // client §14.43
    Fixture f(4);
    f.options.batch_max = 3;
    for (int i = 0; i < 400; ++i) {
      f.cluster.put({"T", "a", i % 4}, std::to_string(i));
    }
    std::array<std::atomic<int>, 4> inside{};
    std::array<std::vector<std::string>, 4> seen;
    std::atomic<int> overlaps{0};
    std::atomic<int> count{0};
    f.start([&](std::span<const MessageView> batch) {
      const auto q = static_cast<std::size_t>(batch.front().queue_id());
      overlaps += inside[q]++ == 0 ? 0 : 1;
      for (const MessageView& m : batch) {
        seen[q].push_back(std::string(m.body()));
      }
      --inside[q];
      count += static_cast<int>(batch.size());
      return OrderAck::success();
    });
    CHECK(eventually([&] { return count.load() == 400; }));
    f.stop();
    CHECK(overlaps.load() == 0);
    for (std::size_t q = 0; q < 4; ++q) {
      REQUIRE(seen[q].size() == 100);
      for (std::size_t i = 0; i < 100; ++i) {
        CHECK(seen[q][i] == std::to_string(i * 4 + q));
      }
      CHECK(f.cluster.offset("g", {"T", "a", static_cast<int>(q)}) == 100);
    }
  }

  TEST_CASE("a suspended message comes again first; at the limit it goes to the retry topic") {
    Fixture f;
    f.options.max_attempts = 2;
    f.cluster.put(kQueue, "bad", "UNIQ_KEY\x01id0");
    f.cluster.put(kQueue, "good");
    f.start([&](std::span<const MessageView> batch) {
      f.note(batch[0]);
      if (batch[0].body() != "bad") {
        return OrderAck::success();
      }
      if (batch[0].reconsume_times() == 1) {
        throw std::runtime_error("an exception suspends as well");
      }
      return OrderAck::suspend();
    });
    CHECK(eventually([&] { return f.noted().size() >= 4; }));
    CHECK(f.noted() == Bodies{"bad/0", "bad/1", "bad/2", "good/0"});
    f.stop();
    CHECK(f.cluster.offset("g", kQueue) == 2);
    const auto sent = f.cluster.stored({"%RETRY%g", "a", 0});
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].body == "bad");
    CHECK(proto::find_property(sent[0].properties, "RECONSUME_TIME") == "3");
    CHECK(proto::find_property(sent[0].properties, "MAX_RECONSUME_TIMES") == "2");
    CHECK(proto::find_property(sent[0].properties, "RETRY_TOPIC") == "T");
    CHECK(proto::find_property(sent[0].properties, "UNIQ_KEY") == "id0");
  }

  TEST_CASE("-1 attempts is endless, and only for orderly consumers") {  // client §14.43
    Fixture f;
    f.options.max_attempts = -1;
    CHECK_FALSE(ConsumerCore::create(*f.client, f.options, [](std::span<const MessageView>) {
                  return Ack::success();
                }).has_value());
    f.cluster.put(kQueue, "bad");
    std::atomic<int> calls{0};
    f.start([&](std::span<const MessageView>) {
      return ++calls <= 20 ? OrderAck::suspend(1ms) : OrderAck::success();  // 1 ms counts as 10 ms
    });
    CHECK(eventually([&] { return calls.load() == 21; }));
    f.stop();
    CHECK(f.cluster.offset("g", kQueue) == 1);
    CHECK(f.cluster.stored({"%RETRY%g", "a", 0}).empty());
  }

  TEST_CASE("a pause is clamped to 10 ms to 30 s") {  // client §14.43
    tenon::ManualClock clock;
    Fixture f(1, &clock);
    f.cluster.put(kQueue, "m");
    std::atomic<int> calls{0};
    f.start([&](std::span<const MessageView>) {
      return ++calls == 1 ? OrderAck::suspend(1h) : OrderAck::success();
    });
    CHECK(eventually([&] { return calls.load() == 1 && f.client->timers().run_due() == 0; }));
    CHECK(eventually([&] { return f.client->timers().pending() > 0; }));
    for (int i = 0; i < 4; ++i) {  // in steps, so that the lock stays fresh
      clock.advance_ms(7'499);
      f.client->timers().run_due();
    }
    CHECK(calls.load() == 1);
    CHECK(eventually([&] {
      clock.advance_ms(1'000);
      f.client->timers().run_due();
      f.client->heartbeat_blocking();  // the renewal of the lock is answered before it
      return calls.load() == 2;
    }));
  }

  TEST_CASE("held messages are committed together, or rolled back together") {
    Fixture f;
    for (const char* body : {"1", "2", "3"}) {
      f.cluster.put(kQueue, body);
    }
    std::atomic<int> thirds{0};
    f.start([&](std::span<const MessageView> batch) {
      f.note(batch[0]);
      if (batch[0].body() != "3") {
        return OrderAck::hold();
      }
      return ++thirds == 1 ? OrderAck::rollback() : OrderAck::commit();
    });
    CHECK(eventually([&] { return f.noted().size() >= 6; }));
    CHECK(f.noted() == Bodies{"1/0", "2/0", "3/0", "1/0", "2/0", "3/0"});
    f.stop();
    CHECK(f.cluster.offset("g", kQueue) == 3);
  }

  TEST_CASE("what is held is not committed at the end") {
    Fixture f;
    f.cluster.set_offset("g", kQueue, 0);
    f.cluster.put(kQueue, "1");
    f.cluster.put(kQueue, "2");
    f.start([&](std::span<const MessageView> batch) {
      f.note(batch[0]);
      return batch[0].body() == "1" ? OrderAck::success() : OrderAck::hold();
    });
    CHECK(eventually([&] { return f.noted().size() == 2; }));
    f.stop();
    CHECK(f.cluster.offset("g", kQueue) == 1);
  }

  TEST_CASE("locks are renewed each 20 s") {  // client §14.43
    tenon::ManualClock clock;
    Fixture f(2, &clock);
    f.start([](std::span<const MessageView>) { return OrderAck::success(); });
    CHECK(eventually([&] { return f.core->owned().size() == 3; }));  // with the retry queue
    const std::size_t before = f.locks();
    for (int second = 1; second <= 60; ++second) {
      clock.advance_ms(1'000);
      f.client->timers().run_due();
    }
    CHECK(eventually([&] { return f.locks() >= before + 3; }));
    CHECK(f.locks() == before + 3);
    const auto last = f.cluster.requests(RequestCode::kLockBatchMq).back();
    const auto body = proto::decode_lock_request(last.command.body).value();
    CHECK(body.group == "g");
    CHECK(body.client_id == f.client->id());
    CHECK(body.queues.size() == 3);
  }

  TEST_CASE("nothing is consumed when the lock is older than 30 s") {  // client §11 D11, §14.43
    tenon::ManualClock clock;
    Fixture f(1, &clock);
    std::atomic<bool> refuse{false};
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      return refuse && r.command.code == RequestCode::kLockBatchMq
                 ? std::optional(Outcome::fail(tenon::Errc::kTimeout))
                 : std::nullopt;
    });
    f.cluster.put(kQueue, "first");
    f.cluster.put(kQueue, "second");
    f.start([&](std::span<const MessageView> batch) {
      f.note(batch[0]);
      refuse = true;
      clock.advance_ms(30'001);  // while the first is in work
      return OrderAck::success();
    });
    CHECK(eventually([&] { return f.noted().size() == 1; }));
    const std::size_t before = f.locks();
    CHECK(eventually([&] { return f.locks() > before || f.locks() >= 3; }));
    CHECK(f.noted().size() == 1);
    refuse = false;
    CHECK(eventually([&] {
      clock.advance_ms(1'000);
      f.client->timers().run_due();
      return f.noted().size() == 2;
    }));
  }

  TEST_CASE("a lock that another member has: the queue starts anew where that one stopped") {
    tenon::ManualClock clock;
    Fixture f(1, &clock);
    std::atomic<bool> taken{false};
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      if (r.command.code == RequestCode::kUpdateConsumerOffset) {
        return Outcome::ok({});  // one that is under way must not undo what the other one stored
      }
      if (!taken || r.command.code != RequestCode::kLockBatchMq) {
        return std::nullopt;
      }
      proto::Command c;
      c.body = proto::encode_lock_answer({});
      return Outcome::ok(std::move(c));
    });
    for (int i = 0; i < 5; ++i) {
      f.cluster.put(kQueue, std::to_string(i));
    }
    f.start([&](std::span<const MessageView> batch) {
      f.note(batch[0]);
      return batch[0].body() == "1" ? OrderAck::suspend(30s) : OrderAck::success();
    });
    CHECK(eventually([&] { return f.noted() == Bodies{"0/0", "1/0"}; }));
    taken = true;
    clock.advance_ms(20'000);
    CHECK(eventually([&] {
      f.client->timers().run_due();
      const auto owned = f.core->owned();
      return std::find(owned.begin(), owned.end(), kQueue) == owned.end();
    }));
    f.cluster.set_offset("g", kQueue, 4);  // the other one went on
    taken = false;
    CHECK(eventually([&] {
      clock.advance_ms(1'000);
      f.client->timers().run_due();
      return f.noted().size() >= 3;
    }));
    CHECK(f.noted() == Bodies{"0/0", "1/0", "4/0"});
  }

  TEST_CASE("rebalanced away: the running call ends, its offset is stored, then it is unlocked") {
    Fixture f;  // client §11 D12, §14.44
    f.cluster.put(kQueue, "0");
    f.cluster.put(kQueue, "1");
    std::atomic<bool> release{false};
    std::atomic<std::int64_t> offset_at_unlock{-1};
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      if (r.command.code == RequestCode::kUnlockBatchMq) {
        const auto body = proto::decode_lock_request(r.command.body).value();
        if (body.queues.front().topic == "T") {
          offset_at_unlock = f.cluster.offset("g", kQueue).value_or(-2);
        }
      }
      return std::nullopt;
    });
    f.start([&](std::span<const MessageView> batch) {
      f.note(batch[0]);
      release.wait(false);
      return OrderAck::success();
    });
    CHECK(eventually([&] { return f.noted().size() == 1; }));
    f.cluster.set_members({"0", f.client->id()});  // sorted before us: gets the only queue
    const auto asked = f.cluster.requests(RequestCode::kGetConsumerListByGroup).size();
    CHECK(eventually([&] {  // the rebalance after the one that saw the other member has begun
      f.client->wake_rebalance();
      return f.cluster.requests(RequestCode::kGetConsumerListByGroup).size() >= asked + 5;
    }));
    CHECK(offset_at_unlock.load() == -1);
    release = true;
    release.notify_all();
    CHECK(eventually([&] { return offset_at_unlock.load() != -1; }));
    CHECK(offset_at_unlock.load() == 1);
    CHECK(f.noted().size() == 1);  // the second message is for the new owner
  }

  TEST_CASE("a queue whose lock is refused is not pulled; it is asked for again") {
    Fixture f;
    std::atomic<int> refusals{0};
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      if (r.command.code == RequestCode::kLockBatchMq && refusals++ == 0) {
        return Outcome::code(1, "not now");
      }
      return std::nullopt;
    });
    f.cluster.put(kQueue, "m");
    f.start([&](std::span<const MessageView> batch) {
      f.note(batch[0]);
      return OrderAck::success();
    });
    CHECK(eventually([&] { return f.noted().size() == 1; }));
    CHECK(refusals.load() >= 2);
  }

  TEST_CASE("close commits, unlocks, then leaves the group") {  // client §14.47
    Fixture f;
    f.cluster.put(kQueue, "m");
    std::mutex mutex;
    std::vector<std::int32_t> order;
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      const std::int32_t code = r.command.code;
      if (code == RequestCode::kUpdateConsumerOffset || code == RequestCode::kUnlockBatchMq ||
          code == RequestCode::kUnregisterClient) {
        const std::scoped_lock lock(mutex);
        order.push_back(code);
      }
      return std::nullopt;
    });
    f.start([&](std::span<const MessageView> batch) {
      f.note(batch[0]);
      return OrderAck::success();
    });
    CHECK(eventually([&] { return f.noted().size() == 1; }));
    CHECK(f.core->drain(10s));
    f.stop();
    const std::scoped_lock lock(mutex);
    CHECK(order == std::vector<std::int32_t>{RequestCode::kUpdateConsumerOffset,
                                             RequestCode::kUnlockBatchMq,
                                             RequestCode::kUnregisterClient});
  }

  TEST_CASE("close waits for a suspended queue") {
    Fixture f;
    for (const char* body : {"0", "1", "2"}) {
      f.cluster.put(kQueue, body);
    }
    std::atomic<bool> suspends{true};
    f.start([&](std::span<const MessageView> batch) {
      f.note(batch[0]);
      return suspends.exchange(false) ? OrderAck::suspend(200ms) : OrderAck::success();
    });
    CHECK(eventually([&] { return f.noted().size() == 1; }));
    CHECK(f.core->drain(30s));
    CHECK(f.noted() == Bodies{"0/0", "0/1", "1/0", "2/0"});
  }

  TEST_CASE("close says so if the time of a suspended queue comes too late") {
    Fixture f;
    f.cluster.put(kQueue, "0");
    f.start([&](std::span<const MessageView> batch) {
      f.note(batch[0]);
      return OrderAck::suspend(30s);
    });
    CHECK(eventually([&] { return f.noted().size() == 1; }));
    CHECK_FALSE(f.core->drain(20ms));
    CHECK(f.noted() == Bodies{"0/0"});
  }

  TEST_CASE("broadcasting needs no locks") {
    FakeCluster cluster;
    cluster.add_topic("T", {"a"}, 1);
    ClientOptions client_options;
    client_options.instance_name = "orderly-broadcast";
    const auto client = cluster.client(nullptr, client_options);
    PushConsumerOptions options;
    options.group = "g";
    options.subscriptions["T"] = Subscription();
    options.start = FromFirst{};
    options.mode = GroupMode::kBroadcasting;
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("tenon_orderly_" + std::to_string(getpid()));
    options.local_offset_dir = folder.string();
    cluster.put(kQueue, "m");
    std::atomic<int> calls{0};
    detail::Listeners listeners;
    listeners.orderly = [&](std::span<const MessageView>) {
      ++calls;
      return OrderAck::success();
    };
    const auto core = ConsumerCore::create(*client, options, std::move(listeners)).value();
    client->add(core).value();
    core->start().value();
    CHECK(eventually([&] { return calls.load() == 1; }));
    core->stop();
    CHECK(cluster.requests(RequestCode::kLockBatchMq).empty());
    CHECK(cluster.requests(RequestCode::kUnlockBatchMq).empty());
    std::filesystem::remove_all(folder);
  }
}

TEST_SUITE("sdk/subscriptions") {
  TEST_CASE("a topic is subscribed and given up while running") {
    Fixture f;
    f.cluster.add_topic("U", {"a"}, 1);
    f.cluster.put({"U", "a", 0}, "u");
    f.start([&](std::span<const MessageView> batch) {
      f.note(batch[0]);
      return OrderAck::success();
    });
    CHECK(f.core->subscribe("a.b", {}).error().is(Errc::kInvalidArgument));
    CHECK(f.core->subscribe("U", Subscription{"||"}).error().is(Errc::kInvalidArgument));
    CHECK_FALSE(f.core->subscribes("U"));
    f.core->subscribe("U", {}).value();
    CHECK(eventually([&] { return f.noted() == Bodies{"u/0"}; }));
    const auto subscriptions = [&] {
      const auto beats = f.cluster.requests(RequestCode::kHeartBeat);
      const auto data = proto::decode_heartbeat(beats.back().command.body).value();
      std::map<std::string, std::pair<std::string, std::int64_t>> out;
      for (const auto& s : data.consumers.at(0).subscriptions) {
        out[s.topic] = {s.sub_string, s.sub_version};
      }
      return out;
    };
    const auto first = subscriptions();
    REQUIRE(first.count("U") == 1);
    f.core->subscribe("U", Subscription{"A"}).value();
    CHECK(subscriptions().at("U").first == "A");
    // Trap: a broker keeps the higher version, so a change must raise it (client §2.7)
    CHECK(subscriptions().at("U").second > first.at("U").second);
    f.core->unsubscribe("U").value();
    CHECK(f.core->unsubscribe("U").error().is(Errc::kNotFound));
    CHECK(subscriptions().count("U") == 0);
    CHECK(eventually([&] {
      const auto owned = f.core->owned();
      return std::none_of(
          owned.begin(), owned.end(), [](const Queue& q) { return q.topic == "U"; });
    }));
    CHECK(eventually([&] { return f.cluster.offset("g", {"U", "a", 0}) == 1; }));
  }
}
