// More than can be done: sends that wait for the log or unread, bounds, remarks of BrokerFastFailure
// (spec: broker §3). The log is blocked by a listener that does not return from an arrival.
#include "../../../../plugins/store_file/src/io.h"
#include "broker_rig.h"
#include "processors/router.h"
#include "txn_harness.h"
#include "util/input_lag.h"

#include "tenon/net/connection.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using namespace std::chrono_literals;

namespace {

/// Holds the append lock: an append to the topic "Block" stays inside until open().
class Blocker final : public ArrivalListener {
 public:
  explicit Blocker(Rig& rig)
      : rig_(rig) {
    rig.log->add(*this);
    REQUIRE(rig.log->activate().has_value());
  }
  ~Blocker() override { open(); }

  void close() {
    appender_ = std::thread([this] {
      tenon_record record{};
      record.topic = host::abi_str("Block");
      record.count = 1;
      record.body = {reinterpret_cast<const std::uint8_t*>("x"), 1};
      tenon_append_result result{};
      rig_.log->append({&record, 1}, {&result, 1});
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return inside_; });
  }
  void open() {
    {
      const std::scoped_lock lock(mutex_);
      opened_ = true;
    }
    changed_.notify_all();
    if (appender_.joinable()) {
      appender_.join();
    }
  }
  void arrived(const tenon_arrival& arrival) noexcept override {
    if (host::text(arrival.topic) == "Block") {
      std::unique_lock lock(mutex_);
      inside_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return opened_; });
    }
  }

 private:
  Rig& rig_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool inside_ = false;
  bool opened_ = false;
  std::thread appender_;
};

/// A port in front of a router whose log can be blocked.
struct Node {
  explicit Node(const BrokerConfig& config, bool durable_events = true)
      : rig(config, durable_events),
        blocker(rig),
        router(rig.services, *rig.pool) {
    REQUIRE(rig.topics.create_for_send("T", "TBW102", 4, 0) != nullptr);
    handler.serve(router);
    net::Server::Options options;
    options.host = "127.0.0.1";
    server = net::Server::listen(*rig.pool, options, handler).value();
  }
  ~Node() {
    blocker.open();
    server->stop();
    rig.workers.stop();
    rig.pool->stop();
  }

  Rig rig;
  Blocker blocker;
  Router router;
  PortHandler handler{true};
  std::unique_ptr<net::Server> server{};
};

/// Nothing is refused for its age within the time of a test.
BrokerConfig patient() {
  BrokerConfig config = test_config("");
  config.wait_in_send_queue_ms = 600'000;
  config.page_cache_busy_ms = 60'000;
  return config;
}

/// No page of the log is in memory, as far as the store can see. Around the store.
struct ColdPages {
  ColdPages() {
    store_file::io().mincore = [](void*, std::size_t bytes, unsigned char* present) {
      std::fill_n(present, bytes / store_file::kPageBytes, static_cast<unsigned char>(0));
      return 0;
    };
  }
  ~ColdPages() { store_file::io() = store_file::system_io(); }
};

std::atomic<bool> g_disk_stalls{false};

/// A disk that gives no space, and no error either, while it stalls. Around the store.
struct StallingDisk {
  StallingDisk() {
    store_file::io().populate = [](void* at, std::size_t bytes) {
      g_disk_stalls.wait(true);
      return store_file::system_io().populate(at, bytes);
    };
  }
  ~StallingDisk() {
    stall(false);
    store_file::io() = store_file::system_io();
  }
  void stall(bool on) {
    g_disk_stalls = on;
    g_disk_stalls.notify_all();
  }
};

/// Of a refusal for the age in a queue.
int waited_ms(const proto::Command& refused) {
  constexpr std::string_view kBefore =
      "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: ";
  CHECK(refused.code == 2);
  REQUIRE_MESSAGE(refused.remark.starts_with(kBefore), refused.remark);
  CHECK(refused.remark.find("ms, size of queue: ") != std::string::npos);
  return std::stoi(refused.remark.substr(kBefore.size()));
}

}  // namespace

TEST_SUITE("broker/overload") {
  TEST_CASE("a send that waited 200 ms is refused; heartbeats and pulls go on meanwhile") {
    // broker §23.8, §23.10
    BrokerConfig config = test_config("");
    config.page_cache_busy_ms = 60'000;
    Node node(config);
    Client c(node.server->port());
    REQUIRE(c.call(send_command({})).code == 0);
    node.blocker.close();
    const auto begin = std::chrono::steady_clock::now();
    const auto send = c.send(send_command({.body = "late"}));
    CHECK(c.call(heartbeat_command(consumer_beat("id", "CG", "T"))).code == 0);
    const auto pulled = c.call(pull_command({}));
    CHECK(messages_of(pulled).size() == 1);
    const auto refused = c.receive(send);
    const auto waited = std::chrono::steady_clock::now() - begin;
    CHECK(waited_ms(refused) >= 200);
    CHECK(refused.remark.find("ms, size of queue: 1") != std::string::npos);
    CHECK(waited >= 200ms);
    node.blocker.open();
    // It was not executed.
    CHECK(long_field(c.call(send_command({})), "queueOffset") == 1);
  }

  TEST_CASE(
      "a full send queue refuses, a one-way send is dropped; what waited is stored in order") {
    // broker §23.9
    BrokerConfig config = patient();
    config.send_queue_max = 2;
    Node node(config);
    Client c(node.server->port());
    node.blocker.close();
    const auto first = c.send(send_command({.body = "1"}));
    const auto second = c.send(send_command({.body = "2"}));
    const auto third = c.call(send_command({.body = "3"}));
    CHECK(third.code == 2);
    CHECK(third.remark == "[OVERLOAD]system busy, start flow control for a while");
    auto oneway = send_command({.body = "4"});
    oneway.flag = proto::kFlagOneway;
    const auto dropped = c.send(oneway);
    CHECK_FALSE(c.try_receive(dropped, 30ms).has_value());
    CHECK_FALSE(c.try_receive(first, 1ms).has_value());
    node.blocker.open();
    CHECK(long_field(c.receive(first), "queueOffset") == 0);
    CHECK(long_field(c.receive(second), "queueOffset") == 1);
    CHECK(long_field(c.call(send_command({.body = "5"})), "queueOffset") == 2);
    CHECK(node.router.waiting_sends() == 0);
  }

  TEST_CASE("a flush that stalls: 10 with all ids, and stored; WAIT=false is not kept waiting") {
    // broker §23.18
    BrokerConfig config = patient();
    config.sync_flush = true;
    config.send_queue_max = 2;
    Node node(config, false);
    Client c(node.server->port());
    const auto first = c.send(send_command({.body = "slow"}));
    const auto quick = c.call(send_command({.properties = "WAIT\x01"
                                                          "false"}));
    CHECK(quick.code == 0);
    CHECK(long_field(quick, "queueOffset") == 1);
    CHECK_FALSE(c.try_receive(first, 20ms).has_value());
    const auto second = c.send(send_command({}));
    const auto full = c.call(send_command({}));  // two wait for the disk already
    CHECK(full.code == 2);
    CHECK(full.remark == "[OVERLOAD]system busy, start flow control for a while");
    node.rig.flush_waiters.expire_all();  // as after sync_flush_timeout_ms
    const auto answer = c.receive(first);
    CHECK(answer.code == 10);
    CHECK(text_field(answer, "msgId").size() == 32);
    CHECK(long_field(answer, "queueId") == 0);
    CHECK(long_field(answer, "queueOffset") == 0);
    CHECK(c.receive(second).code == 10);
    const auto pulled = c.call(pull_command({}));
    CHECK(messages_of(pulled).size() == 3);
  }

  TEST_CASE("the memory of waiting sends is bounded") {
    BrokerConfig config = patient();
    config.send_queue_bytes_max = 1 << 20;
    Node node(config);
    Client c(node.server->port());
    node.blocker.close();
    const auto fits = c.send(send_command({.body = std::string(500'000, 'x')}));
    CHECK(c.call(send_command({.body = std::string(500'000, 'y')})).code == 2);
    node.blocker.open();
    CHECK(c.receive(fits).code == 0);
  }

  TEST_CASE("queries, administration and decisions have threads and bounds of their own") {
    // broker §3.1, §3.2: a full lane refuses its own requests only, locks and heartbeats never wait.
    BrokerConfig config = patient();
    config.worker_threads = 1;
    config.query_queue_max = 1;
    config.admin_queue_max = 1;
    config.transaction_queue_max = 1;
    Node node(config);
    Client c(node.server->port());
    REQUIRE(c.call(send_command({})).code == 0);
    using C = proto::RequestCode;
    proto::Command view;
    view.code = C::kViewMessageById;
    view.set("offset", std::int64_t{0});
    proto::Command topics;
    topics.code = C::kGetAllTopicConfig;
    proto::Command decision;
    decision.code = C::kEndTransaction;
    decision.set("producerGroup", "PG").set("tranStateTableOffset", std::int64_t{0});
    decision.set("commitLogOffset", std::int64_t{0}).set("commitOrRollback", std::int64_t{8});
    struct Case {
      Workers::Lane lane;
      proto::Command mine;
      std::vector<proto::Command> others;
    };
    for (const Case& lane : {Case{Workers::Lane::kQuery, view, {topics, decision}},
                             Case{Workers::Lane::kAdmin, topics, {view, decision}},
                             Case{Workers::Lane::kTransaction, decision, {view, topics}}}) {
      std::mutex mutex;
      std::condition_variable changed;
      bool inside = false;
      bool open = false;
      REQUIRE(node.rig.workers.post(lane.lane, [&] {
        std::unique_lock lock(mutex);
        inside = true;
        changed.notify_all();
        changed.wait(lock, [&] { return open; });
      }));
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return inside; });
      }
      const auto waiting = c.send(lane.mine);
      const auto refused = c.call(lane.mine);
      CHECK(refused.code == 2);
      CHECK(refused.remark == "[OVERLOAD]system busy, start flow control for a while");
      proto::Command oneway = lane.mine;
      oneway.flag = proto::kFlagOneway;
      const auto dropped = c.send(oneway);
      for (const proto::Command& other : lane.others) {
        CHECK(c.call(other).code != 2);
      }
      proto::Command lock_queues;
      lock_queues.code = C::kLockBatchMq;
      lock_queues.body = proto::encode(proto::LockRequest{"g", "A", {{"T", "broker-t", 0}}});
      CHECK(c.call(lock_queues).code == 0);
      CHECK(c.call(heartbeat_command(consumer_beat("id", "CG", "T"))).code == 0);
      CHECK(c.call(send_command({})).code == 0);
      CHECK(c.call(pull_command({})).code == 0);
      CHECK_FALSE(c.try_receive(dropped, 1ms).has_value());
      CHECK_FALSE(c.try_receive(waiting, 1ms).has_value());
      {
        const std::scoped_lock lock(mutex);
        open = true;
        changed.notify_all();
      }
      CHECK(c.receive(waiting).code != 2);
    }
  }

  TEST_CASE("only so many pulls wait; one more is refused, and room is made when one is answered") {
    BrokerConfig config = test_config("");
    config.parked_pull_max = 2;
    TestBroker b(config);
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    const auto park = [](std::int32_t queue) {
      return pull_command({.queue_id = queue, .sys_flag = 6, .suspend_ms = 20'000});
    };
    const auto first = c.send(park(1));
    const auto second = c.send(park(2));
    const auto third = c.call(park(3));
    CHECK(third.code == 2);
    CHECK(third.remark == "[OVERLOAD]system busy, start flow control for a while");
    REQUIRE(c.call(send_command({.queue_id = 1})).code == 0);
    CHECK(c.receive(first).code == 0);
    const auto again = c.send(park(3));
    CHECK_FALSE(c.try_receive(again, 20ms).has_value());
    REQUIRE(c.call(send_command({.queue_id = 2})).code == 0);
    CHECK(c.receive(second).code == 0);
  }

  TEST_CASE("while the page cache is busy the queue is emptied and new sends are rejected") {
    BrokerConfig config = patient();
    config.page_cache_busy_ms = 50;
    Node node(config);
    Client c(node.server->port());
    node.blocker.close();
    const auto waiting = c.call(send_command({}));
    CHECK(waiting.code == 2);
    CHECK(waiting.remark.find("[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, "
                              "period in queue: ") == 0);
    const auto rejected = c.call(send_command({}));
    CHECK(rejected.code == 2);
    CHECK(rejected.remark == "[REJECTREQUEST]system busy, start flow control for a while");
    // Trap: this refusal alone is sent for one-way requests, too (broker §3.2).
    auto oneway = send_command({});
    oneway.flag = proto::kFlagOneway;
    CHECK(c.receive(c.send(oneway)).code == 2);
    node.blocker.open();
    CHECK(c.call(send_command({})).code == 0);
  }

  TEST_CASE("a topic that changes while sends to it wait does not harm them") {
    Node node(patient());
    Client c(node.server->port());
    node.blocker.close();
    const auto waiting = c.send(send_command({}));
    REQUIRE(c.call(heartbeat_command(consumer_beat("id", "CG", "T"))).code == 0);
    proto::TopicConfig config = node.rig.topics.find("T")->config();
    config.perm = 4;
    REQUIRE(node.rig.topics.update(config).has_value());
    REQUIRE(c.call(heartbeat_command(consumer_beat("id", "CG", "T"))).code == 0);
    node.blocker.open();
    CHECK(c.receive(waiting).code == 0);
  }

  TEST_CASE("a connection that ends while its sends wait") {
    Node node(patient());
    {
      Client gone(node.server->port());
      node.blocker.close();
      gone.send(send_command({.body = "orphan"}));
      REQUIRE(gone.call(heartbeat_command(consumer_beat("id", "CG", "T"))).code == 0);
    }
    node.blocker.open();
    Client c(node.server->port());
    CHECK(long_field(c.call(send_command({})), "queueOffset") == 1);
  }

  TEST_CASE("a part of the reads is refused that grows with the laps, one pause is forgiven") {
    constexpr std::uint64_t kMs = 1'000'000;
    InputLag lag(200, 10'000);
    std::uint64_t now = 5'000 * kMs;
    CHECK(lag.input(1));
    lag.begin(now);
    CHECK_FALSE(lag.input(1));
    CHECK_FALSE(lag.crowded());
    /// Of 1024 reads that come `after` the last mark.
    const auto refused = [&](std::uint64_t after_ms) {
      std::size_t count = 0;
      for (std::uint32_t random = 0; random < 1024; ++random) {
        count += lag.refused_age_ms(now + after_ms * kMs, random) != 0 ? 1 : 0;
      }
      return count;
    };
    CHECK(refused(1'000) == 0);
    SUBCASE("idle: the marks end, and a pause counts nothing") {
      CHECK(lag.mark(now += 10 * kMs));
      CHECK_FALSE(lag.mark(now += 10 * kMs));
      now += 60'000 * kMs;
      CHECK(lag.input(1));
      lag.begin(now);
      CHECK_FALSE(lag.crowded());
      CHECK(refused(0) == 0);
    }
    SUBCASE("one long lap") {
      CHECK(lag.mark(now += 10 * kMs));
      lag.input(998);
      CHECK(refused(900) == 0);
      lag.input(2);  // not a pause: there is too much to do
      CHECK(lag.crowded());
      CHECK(refused(80) == 0);
      CHECK(refused(100) == 1024);
      CHECK(lag.refused_age_ms(now + 900 * kMs, 1'023) == 910);
      CHECK(lag.mark(now += 900 * kMs));
      CHECK(refused(0) == 1024);  // what comes now waited meanwhile
      lag.input(1'000);
      CHECK(lag.mark(now += 10 * kMs));  // caught up
      CHECK(refused(0) == 0);
      CHECK(refused(80) == 0);
    }
    SUBCASE("lap after lap, and earlier when there is more than a queue takes") {
      CHECK(lag.mark(now += 10 * kMs));
      struct Case {
        std::size_t requests;
        std::uint64_t lap_ms;
        std::size_t share;
      };
      for (const Case& c : {Case{9'999, 80, 0},
                            Case{9'999, 85, 256},
                            Case{1'000, 90, 512},
                            Case{1'000, 100, 1024},
                            Case{1'000, 300, 1024},
                            Case{999, 300, 0},
                            Case{10'000, 20, 0},
                            Case{10'000, 35, 512},
                            Case{50'000, 50, 1024},
                            Case{50'000, 10, 0}}) {
        lag.input(c.requests);
        CHECK(lag.mark(now += c.lap_ms * kMs));
        CAPTURE(c.requests);
        CAPTURE(c.lap_ms);
        CHECK(refused(0) == c.share);
      }
    }
    SUBCASE("long laps of a machine that has no time, with little to do") {
      for (int i = 0; i < 5; ++i) {
        lag.input(100);
        CHECK(lag.mark(now += 300 * kMs));
        CHECK(refused(200) == 0);
      }
    }
  }

  TEST_CASE("a send that is refused unread has Java's answer, other requests are served") {
    BrokerConfig config = test_config("");
    config.wait_in_send_queue_ms = 1;  // laps of a crowd are longer
    Node node(config);
    Client c(node.server->port());
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    std::optional<proto::Command> refused;
    while (!refused && std::chrono::steady_clock::now() < deadline) {
      std::vector<std::int32_t> sends;
      for (int i = 0; i < 3'000; ++i) {
        auto command = send_command({});
        command.kind = i % 2 == 0 ? proto::HeaderKind::kJson : proto::HeaderKind::kRocketMq;
        sends.push_back(c.send(command));
      }
      const auto beat = c.send(heartbeat_command(consumer_beat("id", "CG", "T")));
      for (const std::int32_t opaque : sends) {
        const auto answer = c.receive(opaque);
        REQUIRE((answer.code == 0 || answer.code == 2));
        if (answer.code == 2) {
          refused = answer;
        }
      }
      CHECK(c.receive(beat).code == 0);
    }
    REQUIRE(refused.has_value());
    CHECK(refused->remark.find("[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
                               "period in queue: ") == 0);
    CHECK(refused->flag == proto::kFlagResponse);
    CHECK(refused->fields.empty());
    CHECK(refused->version == proto::kVersion);
  }

  TEST_CASE("a pull that waited too long for the disk is refused") {
    // broker §23.8
    ColdPages cold;
    BrokerConfig config = test_config("");
    config.wait_in_pull_queue_ms = 200;
    Node node(config);
    node.rig.pool->at(0).every(10ms,
                               [&rig = node.rig] { rig.workers.expire(rig.clock.mono_ns()); });
    Client c(node.server->port());
    for (int i = 0; i < 20; ++i) {  // behind what is always taken for hot
      REQUIRE(c.call(send_command({.body = std::string(1u << 20, 'x')})).code == 0);
    }
    std::latch busy{config.worker_threads};
    std::latch free{1};
    for (std::uint32_t i = 0; i < config.worker_threads; ++i) {
      REQUIRE(node.rig.workers.post(Workers::Lane::kPull, [&] {
        busy.count_down();
        free.wait();
      }));
    }
    busy.wait();
    const auto refused = c.call(pull_command({}));
    free.count_down();
    CHECK(waited_ms(refused) >= 200);
    CHECK(messages_of(c.call(pull_command({}))).size() == 1);
  }

  TEST_CASE("the end of a transaction that waited 3 s behind a stalled disk is refused, not lost") {
    // broker §23.8
    constexpr int kCount = 12;
    StallingDisk disk;
    TxnBroker b;
    Client c(b.port());
    std::vector<SentHalf> halves;
    for (int i = 0; i < kCount; ++i) {
      halves.push_back(send_half(c, b, b.clock().wall_ms(), {.body = std::string(1u << 20, 'x')}));
    }
    disk.stall(true);  // what is reserved ahead is enough for some
    std::vector<std::int32_t> sent;
    for (const SentHalf& half : halves) {
      sent.push_back(c.send(end_command(half, kCommitState)));
    }
    std::optional<proto::Command> last;
    for (int i = 0; i < 200 && !last; ++i) {
      b.clock().advance_ms(3'000);
      last = c.try_receive(sent.back(), 50ms);
    }
    disk.stall(false);
    REQUIRE(last.has_value());
    CHECK(waited_ms(*last) >= 3'000);
    int refused = 1;
    end(c, halves.back(), kCommitState);
    for (std::size_t i = 0; i + 1 < halves.size(); ++i) {
      if (const auto answer = c.receive(sent[i]); answer.code != 0) {
        CHECK(waited_ms(answer) >= 3'000);
        ++refused;
        end(c, halves[i], kCommitState);
      }
    }
    CHECK(refused <= kCount - 2);  // two were in the hands of threads
    std::size_t committed = 0;
    while (committed < kCount) {
      const auto pulled =
          c.call(pull_command({.queue_id = 1, .offset = static_cast<std::int64_t>(committed)}));
      REQUIRE_MESSAGE(pulled.code == 0, pulled.remark);
      committed += messages_of(pulled).size();
    }
    CHECK(committed == kCount);
  }
}
