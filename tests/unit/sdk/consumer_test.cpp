#include "group_member.h"

#include "tenon/base/endian.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
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

struct Fixture : GroupMember<PushConsumerOptions> {
  explicit Fixture(std::int32_t queues = 1)
      : GroupMember(queues) {
    cluster.add_topic("%RETRY%g", {"a"}, 1);
  }
  ~Fixture() { stop(); }

  void start(PushConsumer::Listener listener) {
    run(ConsumerCore::create(*client, options, std::move(listener)).value());
  }
  void start_collecting() {
    start([this](std::span<const MessageView> batch) {
      const std::scoped_lock lock(mutex);
      for (const MessageView& m : batch) {
        bodies.push_back(std::string(m.body()));
      }
      return Ack::success();
    });
  }
  std::size_t received() {
    const std::scoped_lock lock(mutex);
    return bodies.size();
  }
  std::vector<Request> pulls(const Queue& queue = kQueue) {
    std::vector<Request> out;
    for (Request& r : cluster.requests(RequestCode::kPullMessage)) {
      if (r.command.field("topic") == std::string_view(queue.topic)) {
        out.push_back(std::move(r));
      }
    }
    return out;
  }

  std::mutex mutex;
  std::vector<std::string> bodies;
};

std::string tagged(const char* tag) {
  return std::string("TAGS\x01") + tag;
}

}  // namespace

TEST_SUITE("sdk/consumer") {
  TEST_CASE("options are checked") {
    Fixture f;
    const auto refused = [&](auto change) {
      PushConsumerOptions o = f.options;
      change(o);
      const auto r = ConsumerCore::create(
          *f.client, o, [](std::span<const MessageView>) { return Ack::success(); });
      return !r && r.error().is(Errc::kInvalidArgument);
    };
    CHECK(refused([](auto& o) { o.group = ""; }));
    CHECK(refused([](auto& o) { o.group = "DEFAULT_CONSUMER"; }));
    CHECK(refused([](auto& o) { o.subscriptions.clear(); }));
    CHECK(refused([](auto& o) { o.subscriptions["a.b"] = Subscription(); }));
    CHECK(refused([](auto& o) { o.subscriptions["T"].expression = "||"; }));
    CHECK(refused([](auto& o) { o.threads = 0; }));
    CHECK(refused([](auto& o) { o.batch_max = 1025; }));
    CHECK(refused([](auto& o) { o.pull_batch = 0; }));
    CHECK(refused([](auto& o) { o.cached_max_messages = 65536; }));
    CHECK(refused([](auto& o) { o.cached_max_mib = 1025; }));
    CHECK(refused([](auto& o) { o.cached_max_span = 0; }));
    CHECK(refused([](auto& o) { o.mode = GroupMode::kBroadcasting; }));  // needs an instance name
    CHECK_FALSE(refused([](auto&) {}));
  }

  TEST_CASE("taking many topics over costs a few heartbeats, not one for each topic") {
    Fixture f;
    constexpr std::size_t kTopics = 40;
    f.options.subscriptions.clear();
    for (std::size_t i = 0; i < kTopics; ++i) {
      const std::string topic = "T" + std::to_string(i);
      f.cluster.add_topic(topic, {"a"}, 1);
      f.options.subscriptions[topic] = Subscription();
    }
    f.start_collecting();
    CHECK(eventually([&] { return f.core->owned().size() > kTopics; }));  // and the retry topic
    f.stop();
    CHECK(f.cluster.requests(RequestCode::kHeartBeat).size() < 10);
  }

  TEST_CASE(
      "everything is received once; offsets are committed at the end; nothing comes twice") {  // client §11 D7, D13, §14.47
    Fixture f(4);
    for (int i = 0; i < 200; ++i) {
      f.cluster.put({"T", "a", i % 4}, "m" + std::to_string(i));
    }
    f.start_collecting();
    CHECK(eventually([&] { return f.received() == 200; }));
    f.stop();
    CHECK(std::set<std::string>(f.bodies.begin(), f.bodies.end()).size() == 200);
    for (int q = 0; q < 4; ++q) {
      CHECK(f.cluster.offset("g", {"T", "a", q}) == 50);
    }
    // Trap: committed before the group is left, because the others read the offsets at once
    CHECK(f.cluster.requests(RequestCode::kUnregisterClient).size() == 1);
    f.cluster.put(kQueue, "new");
    f.start_collecting();
    CHECK(eventually([&] { return f.received() == 201; }));
    f.stop();
    CHECK(f.received() == 201);
    CHECK(f.bodies.back() == "new");
  }

  TEST_CASE("the pull request: flags, offsets and hold time") {  // client §14.37
    Fixture f;
    f.cluster.put(kQueue, "x");
    f.start_collecting();
    CHECK(eventually([&] { return f.received() == 1 && f.pulls().size() >= 2; }));
    const proto::Command first = f.pulls()[0].command;
    CHECK(first.field("sysFlag") == "2");
    CHECK(first.field("queueOffset") == "0");
    CHECK(first.field("maxMsgNums") == "32");
    CHECK(first.field("suspendTimeoutMillis") == "15000");
    CHECK(first.field("consumerGroup") == "g");
    CHECK(first.field("expressionType") == "TAG");
    CHECK_FALSE(first.field("subscription").has_value());
    f.stop();
    // with a committed offset in memory the pull carries it
    f.start_collecting();
    CHECK(eventually([&] {
      const auto pulls = f.pulls();
      return pulls.back().command.field("sysFlag") == "3" &&
             pulls.back().command.field("commitOffset") == "1" &&
             pulls.back().command.field("queueOffset") == "1";
    }));
  }

  TEST_CASE("where a queue starts without a committed offset") {  // client §14.31
    const auto first_pull = [](StartPosition start, const char* topic) {
      Fixture f;
      for (int i = 0; i < 7; ++i) {
        f.cluster.put({"T", "a", 0}, "x");
        f.cluster.put({"%RETRY%g", "a", 0}, "x");
      }
      f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
        if (r.command.code == RequestCode::kSearchOffsetByTimestamp) {
          proto::Command c;
          c.set("offset", r.command.field("timestamp") == "1700000000000" ? std::int64_t{3} : -9);
          return Outcome::ok(std::move(c));
        }
        return r.command.code == RequestCode::kPullMessage ? std::optional(Outcome::hold())
                                                           : std::nullopt;
      });
      f.options.start = start;
      f.start_collecting();
      const Queue q{topic, "a", 0};
      CHECK(eventually([&] { return !f.pulls(q).empty(); }));
      return *f.pulls(q).front().command.field_long("queueOffset");
    };
    const FromTime when{std::chrono::system_clock::time_point(1'700'000'000'000ms)};
    CHECK(first_pull(FromLast{}, "T") == 7);
    CHECK(first_pull(FromLast{}, "%RETRY%g") == 0);
    CHECK(first_pull(FromFirst{}, "T") == 0);
    CHECK(first_pull(FromFirst{}, "%RETRY%g") == 0);
    CHECK(first_pull(when, "T") == 3);
    CHECK(first_pull(when, "%RETRY%g") == 7);
  }

  TEST_CASE(
      "an offset query that fails does not mean a new group: the queue waits") {  // client §11 L1, §14.31
    // Trap L1: starting at the end here would lose messages.
    for (const auto& failure :
         {Outcome::code(1, "AclException"), Outcome::fail(tenon::Errc::kTimeout)}) {
      Fixture f;
      f.options.start = FromLast{};
      for (int i = 0; i < 3; ++i) {
        f.cluster.put(kQueue, "x");
      }
      f.cluster.set_offset("g", kQueue, 1);
      std::atomic<int> asked{0};
      f.cluster.set_hook([&, failure](const Request& r) -> std::optional<Outcome> {
        if (r.command.code == RequestCode::kQueryConsumerOffset &&
            r.command.field("topic") == "T" && asked++ == 0) {
          return failure;
        }
        return std::nullopt;
      });
      f.start_collecting();
      CHECK(eventually([&] { return f.received() == 2; }));  // 1 and 2, after a second try
      CHECK(asked.load() >= 2);
      CHECK(f.pulls().front().command.field("queueOffset") == "1");
      CHECK(f.cluster.requests(RequestCode::kGetMaxOffset).empty());
    }
  }

  TEST_CASE("an exact tag drops a message whose tag only has the same hash") {
    Fixture f;  // client §14.35, §11 L8
    f.options.subscriptions["T"].expression = "Aa";
    f.cluster.put(kQueue, "wanted", tagged("Aa"));
    f.cluster.put(kQueue, "collision", tagged("BB"));
    f.cluster.put(kQueue, "none");
    f.start_collecting();
    CHECK(eventually([&] { return f.pulls().size() >= 2; }));
    CHECK(eventually([&] { return f.received() == 1; }));
    f.stop();
    CHECK(f.bodies == std::vector<std::string>{"wanted"});
  }

  TEST_CASE("a batch of four with two done: two are sent back, the offset moves past all four") {
    Fixture f;  // client §14.39
    f.options.batch_max = 4;
    for (const char* body : {"0", "1", "2", "3"}) {
      f.cluster.put(kQueue, body, std::string("UNIQ_KEY\x01id") + body);
    }
    f.start([](std::span<const MessageView> batch) {
      return batch.size() == 4 ? Ack::partial(2) : Ack::success();
    });
    CHECK(eventually(
        [&] { return f.cluster.requests(RequestCode::kConsumerSendMsgBack).size() == 2; }));
    f.stop();
    const auto back = f.cluster.requests(RequestCode::kConsumerSendMsgBack);
    CHECK(back[0].command.field("delayLevel") == "0");
    CHECK(back[0].command.field("originMsgId") == "id2");
    CHECK(back[0].command.field("offset") == "2000");
    CHECK(back[0].command.field("group") == "g");
    CHECK(back[0].command.field("originTopic") == "T");
    CHECK(back[0].command.field("maxReconsumeTimes") == "16");
    CHECK(back[1].command.field("originMsgId") == "id3");
    CHECK(f.cluster.offset("g", kQueue) == 4);
  }

  TEST_CASE("a listener that throws: the message comes again") {
    Fixture f;
    f.cluster.put(kQueue, "x");
    f.start([](std::span<const MessageView>) -> Ack { throw std::runtime_error("no"); });
    CHECK(eventually(
        [&] { return f.cluster.requests(RequestCode::kConsumerSendMsgBack).size() == 1; }));
  }

  TEST_CASE("send-back refused: a new message in the retry topic with the same id") {
    Fixture f;  // client §14.40
    f.cluster.put(kQueue, "x", "UNIQ_KEY\x01the-id\x02user\x01v");
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kConsumerSendMsgBack
                 ? std::optional(Outcome::code(1, "not found"))
                 : std::nullopt;
    });
    f.start([](std::span<const MessageView> batch) {
      return batch[0].queue().topic == "T" ? Ack::retry() : Ack::success();
    });
    const Queue retry{"%RETRY%g", "a", 0};
    CHECK(eventually([&] { return f.cluster.stored(retry).size() == 1; }));
    f.stop();
    const auto m = f.cluster.stored(retry)[0];
    CHECK(m.body == "x");
    const auto property = [&](const char* name) {
      return proto::find_property(m.properties, name).value_or("-");
    };
    CHECK(property("UNIQ_KEY") == "the-id");
    CHECK(property("RETRY_TOPIC") == "T");
    CHECK(property("RECONSUME_TIME") == "1");
    CHECK(property("MAX_RECONSUME_TIMES") == "16");
    CHECK(property("DELAY") == "3");
    CHECK(property("user") == "v");
    const auto send = f.cluster.requests(RequestCode::kSendMessageV2).front().command;
    CHECK(send.field("a") == "CLIENT_INNER_PRODUCER");
    CHECK(send.field("j") == "1");
    CHECK(send.field("l") == "16");
    CHECK(f.cluster.offset("g", kQueue) == 1);
  }

  TEST_CASE("both ways of retrying refused: the offset is held") {  // client §11 D14, §14.40
    Fixture f;
    f.cluster.put(kQueue, "bad");
    f.cluster.put(kQueue, "good");
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kConsumerSendMsgBack ||
                     r.command.code == RequestCode::kSendMessageV2
                 ? std::optional(Outcome::code(13))
                 : std::nullopt;
    });
    std::atomic<int> calls{0};
    f.start([&](std::span<const MessageView> batch) {
      ++calls;
      return batch[0].body() == "bad" ? Ack::retry() : Ack::success();
    });
    CHECK(eventually([&] {
      return calls.load() == 2 && !f.cluster.requests(RequestCode::kSendMessageV2).empty();
    }));
    f.stop();
    // held by the bad one although the one behind it is done: at most offset 0 may be stored
    CHECK(f.cluster.offset("g", kQueue).value_or(0) == 0);
  }

  TEST_CASE("pulling pauses while too much is cached") {  // client §9.11, §14.36
    Fixture f;
    f.options.cached_max_messages = 40;
    f.options.threads = 1;
    for (int i = 0; i < 200; ++i) {
      f.cluster.put(kQueue, "x");
    }
    std::atomic<bool> release{false};
    std::atomic<int> calls{0};
    f.start([&](std::span<const MessageView>) {
      ++calls;
      calls.notify_all();
      release.wait(false);
      return Ack::success();
    });
    calls.wait(0);
    CHECK(eventually([&] { return f.pulls().size() == 2; }));  // 32, then 64 > 40
    const auto end = std::chrono::steady_clock::now() + 150ms;
    static_cast<void>(
        eventually([&] { return f.pulls().size() > 2 || std::chrono::steady_clock::now() > end; }));
    CHECK(f.pulls().size() == 2);
    release = true;
    release.notify_all();
    CHECK(eventually([&] { return calls.load() == 200; }));
  }

  TEST_CASE(
      "an illegal offset is corrected: stored, nothing in work is committed, starts anew") {  // client §11 L10, §14.38
    Fixture f;
    for (int i = 0; i < 10; ++i) {
      f.cluster.put(kQueue, "m" + std::to_string(i));
    }
    f.cluster.set_offset("g", kQueue, 50);
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      if (r.command.code == RequestCode::kPullMessage && r.command.field("topic") == "T" &&
          *r.command.field_long("queueOffset") > 10) {
        proto::Command c;
        c.code = proto::ResponseCode::kPullOffsetMoved;
        c.set("suggestWhichBrokerId", std::int64_t{0});
        c.set("nextBeginOffset", std::int64_t{8});
        c.set("minOffset", std::int64_t{0});
        c.set("maxOffset", std::int64_t{10});
        return Outcome::ok(std::move(c));
      }
      return std::nullopt;
    });
    f.start_collecting();
    CHECK(eventually([&] { return f.received() == 2; }));
    f.stop();
    std::sort(f.bodies.begin(), f.bodies.end());  // of two listener threads
    CHECK(f.bodies == std::vector<std::string>{"m8", "m9"});
    CHECK(f.cluster.offset("g", kQueue) == 10);
  }

  TEST_CASE(
      "a queue that went to another member: the result of the running call is ignored") {  // client §11 L11, D8, §14.33
    Fixture f;
    f.cluster.put(kQueue, "x");
    std::atomic<bool> entered{false};
    std::atomic<bool> release{false};
    f.start([&](std::span<const MessageView>) {
      entered = true;
      entered.notify_all();
      release.wait(false);
      return Ack::success();
    });
    entered.wait(false);
    f.cluster.set_members({"0.0.0.0@first", f.client->id()});  // the only queue is the first's now
    f.client->wake_rebalance();
    CHECK(eventually([&] {
      for (const Queue& q : f.core->owned()) {
        if (q == kQueue) {
          return false;
        }
      }
      return true;
    }));
    release = true;
    release.notify_all();
    f.stop();
    CHECK_FALSE(f.cluster.offset("g", kQueue).has_value());
  }

  TEST_CASE(
      "two members share the queues by sorted ids; a broker that does not list us gives none") {
    Fixture f(4);
    f.cluster.set_members({"zzz", f.client->id()});
    f.start_collecting();
    const auto owned = [&] {
      std::set<int> ids;
      for (const Queue& q : f.core->owned()) {
        if (q.topic == "T") {
          ids.insert(q.id);
        }
      }
      return ids;
    };
    CHECK(eventually([&] { return owned() == std::set<int>{0, 1}; }));
    f.cluster.set_members({f.client->id(), "0"});
    f.client->wake_rebalance();
    CHECK(eventually([&] { return owned() == std::set<int>{2, 3}; }));
    f.cluster.set_members({"somebody"});
    f.client->wake_rebalance();
    CHECK(eventually([&] { return owned().empty(); }));
    f.cluster.set_members({f.client->id()});
    f.client->wake_rebalance();
    CHECK(eventually([&] { return owned().size() == 4; }));
    // nobody knows the group's members: keep what is owned
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kGetConsumerListByGroup
                 ? std::optional(Outcome::code(1))
                 : std::nullopt;
    });
    const auto before = f.cluster.requests(RequestCode::kGetConsumerListByGroup).size();
    f.client->wake_rebalance();
    CHECK(eventually([&] {
      return f.cluster.requests(RequestCode::kGetConsumerListByGroup).size() >= before + 2;
    }));
    CHECK(owned().size() == 4);
  }

  TEST_CASE(
      "progress over messages that do not match, only when nothing is unfinished") {  // client §11 L3, §14.34
    Fixture f;
    std::atomic<int> answers{0};
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      if (r.command.code != RequestCode::kPullMessage || r.command.field("topic") != "T" ||
          answers++ > 0) {
        return std::nullopt;
      }
      proto::Command c;
      c.code = proto::ResponseCode::kPullRetryImmediately;
      c.set("suggestWhichBrokerId", std::int64_t{0});
      c.set("nextBeginOffset", std::int64_t{6});
      c.set("minOffset", std::int64_t{0});
      c.set("maxOffset", std::int64_t{6});
      return Outcome::ok(std::move(c));
    });
    for (int i = 0; i < 6; ++i) {
      f.cluster.put(kQueue, "x");
    }
    f.start_collecting();
    CHECK(eventually([&] { return f.pulls().size() >= 2; }));
    CHECK(f.pulls()[1].command.field("queueOffset") == "6");
    f.stop();
    CHECK(f.cluster.offset("g", kQueue) == 6);
    CHECK(f.received() == 0);
  }

  TEST_CASE("a subscription that the broker does not know leads to a heartbeat, then it goes on") {
    Fixture f;
    f.cluster.put(kQueue, "x");
    std::atomic<int> pulls{0};
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kPullMessage && r.command.field("topic") == "T" &&
                     pulls++ == 0
                 ? std::optional(Outcome::code(proto::ResponseCode::kSubscriptionNotExist))
                 : std::nullopt;
    });
    f.start_collecting();
    const auto before = f.cluster.requests(RequestCode::kHeartBeat).size();
    CHECK(eventually([&] { return f.received() == 1; }));
    CHECK(eventually([&] { return f.cluster.requests(RequestCode::kHeartBeat).size() > before; }));
  }

  TEST_CASE(
      "messages that a listener holds for too long are sent back at level 3") {  // client §9.11, §11 D9, §14.42
    Fixture f;
    f.options.consume_timeout = 1000ms;
    f.options.threads = 2;
    f.cluster.put(kQueue, "slow");
    std::atomic<bool> release{false};
    f.start([&](std::span<const MessageView>) {
      release.wait(false);
      return Ack::success();
    });
    CHECK(eventually(
        [&] { return f.cluster.requests(RequestCode::kConsumerSendMsgBack).size() == 1; }));
    CHECK(f.cluster.requests(RequestCode::kConsumerSendMsgBack)[0].command.field("delayLevel") ==
          "3");
    release = true;
    release.notify_all();
    f.stop();
    CHECK(f.cluster.offset("g", kQueue) == 1);
  }

  TEST_CASE("pause stops pulling, resume goes on") {
    Fixture f;
    f.start_collecting();
    CHECK(eventually([&] { return f.pulls().size() == 1; }));
    f.core->pause();
    f.core->resume();
    f.cluster.put(kQueue, "x");
    f.stop();
    f.start_collecting();
    CHECK(eventually([&] { return f.received() == 1; }));
  }

  TEST_CASE("a SQL text that a broker does not understand fails the start") {
    Fixture f;
    f.options.subscriptions["T"] = Subscription{.expression = "a >", .kind = FilterKind::kSql92};
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kCheckClientConfig
                 ? std::optional(Outcome::code(23, "parse error"))
                 : std::nullopt;
    });
    f.core = ConsumerCore::create(*f.client, f.options, [](std::span<const MessageView>) {
               return Ack::success();
             }).value();
    f.client->add(f.core).value();
    const auto r = f.core->start();
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().response == 23);
    const auto asked = f.cluster.requests(RequestCode::kCheckClientConfig);
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].command.body.find("\"expressionType\":\"SQL92\"") != std::string::npos);
  }
}

TEST_SUITE("sdk/broadcasting") {
  TEST_CASE("all queues are owned, offsets lie in Java's file and survive a restart") {
    const auto root =
        std::filesystem::temp_directory_path() / ("tenon_sdk_offsets_" + std::to_string(getpid()));
    std::filesystem::remove_all(root);  // client §14.2, §14.32
    FakeCluster cluster;
    cluster.add_topic("T", {"a"}, 2);
    ClientOptions client_options;
    client_options.instance_name = "viewer";
    client_options.client_ip = "10.0.0.1";
    std::atomic<int> received{0};
    PushConsumerOptions options;
    options.group = "g";
    options.subscriptions["T"] = Subscription();
    options.start = FromFirst{};
    options.mode = GroupMode::kBroadcasting;
    options.local_offset_dir = root.string();
    for (int i = 0; i < 6; ++i) {
      cluster.put({"T", "a", i % 2}, "x");
    }
    for (int round = 1; round <= 2; ++round) {
      const auto client = cluster.client(nullptr, client_options);
      const auto core = ConsumerCore::create(*client, options, [&](std::span<const MessageView>) {
                          ++received;
                          return Ack::retry();  // failures are dropped
                        }).value();
      client->add(core).value();
      core->start().value();
      CHECK(eventually([&] { return received.load() == 6 * round; }));
      core->stop();
      cluster.put({"T", "a", 0}, "y");
      if (round == 1) {
        for (int i = 0; i < 5; ++i) {
          cluster.put({"T", "a", i % 2}, "y");
        }
      }
    }
    CHECK(cluster.requests(RequestCode::kGetConsumerListByGroup).empty());
    CHECK(cluster.requests(RequestCode::kConsumerSendMsgBack).empty());
    CHECK(cluster.requests(RequestCode::kUpdateConsumerOffset).empty());
    const auto file = root / "10.0.0.1@viewer" / "g" / "offsets.json";
    REQUIRE(std::filesystem::exists(file));
    detail::LocalOffsets offsets(root.string(), "10.0.0.1@viewer", "g");
    REQUIRE(offsets.load().has_value());
    CHECK(offsets.get({"T", "a", 0}).value_or(0) + offsets.get({"T", "a", 1}).value_or(0) == 12);
    // a broken file: the backup is taken; both broken: an error that names them
    std::ofstream(file) << "{";
    detail::LocalOffsets from_backup(root.string(), "10.0.0.1@viewer", "g");
    CHECK(from_backup.load().has_value());
    CHECK(from_backup.get({"T", "a", 0}).has_value());
    std::ofstream(file.string() + ".bak") << "{";
    detail::LocalOffsets broken(root.string(), "10.0.0.1@viewer", "g");
    CHECK(broken.load().error().remark.find(file.string()) != std::string::npos);
    std::filesystem::remove_all(root);
  }
}
