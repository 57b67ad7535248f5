// Traps of client §11 and lines of the checklist client §14 that concern several parts at once.
#include "fake_connection.h"
#include "group_member.h"
#include "producer_core.h"

#include "tenon/proto/bodies_admin.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
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

ClientOptions without_refresh() {
  ClientOptions o;
  o.route_refresh = 24h;
  return o;
}

/// Nothing happens by the clock unless the test lets it.
struct Member : GroupMember<PushConsumerOptions> {
  explicit Member(const tenon::Clock* clock = nullptr, std::int32_t queues = 1)
      : GroupMember(queues, clock, without_refresh()) {
    cluster.add_topic("%RETRY%g", {"b"}, 1);
    options.pull_error_delay = 10ms;
    options.rebalance_interval = 24h;
    options.offset_interval = 24h;
  }
  ~Member() { stop(); }
  void start(PushConsumer::Listener listener) {
    run(ConsumerCore::create(*client, options, std::move(listener)).value());
  }
  /// Returns when the rebalances that were asked for have been done.
  void settle() {
    for (int i = 0; i < 2; ++i) {  // one that runs may ask for another
      std::atomic<bool> reached{false};
      client->worker().post([&] {
        reached = true;
        reached.notify_all();
      });
      reached.wait(false);
    }
  }
  bool owns(std::size_t count) {
    return eventually([&] {
      std::size_t n = 0;
      for (const Queue& q : core->owned()) {
        n += q.topic == "T" ? 1 : 0;
      }
      return n == count;
    });
  }
};

/// A machine whose wall clock somebody sets.
class SetClock final : public tenon::Clock {
 public:
  std::int64_t wall_ms() const noexcept override { return time_.wall_ms() + jump_.load(); }
  std::uint64_t mono_ns() const noexcept override { return time_.mono_ns(); }
  void advance_ms(std::int64_t ms) noexcept { time_.advance_ms(ms); }
  void jump_wall_ms(std::int64_t ms) noexcept { jump_ += ms; }

 private:
  tenon::ManualClock time_;
  std::atomic<std::int64_t> jump_{0};
};

std::int32_t tag_hash(const std::string& tag) {
  const auto s = proto::build_subscription("T", tag, "TAG");
  REQUIRE(s.has_value());
  REQUIRE(s.value().codes.size() == 1);
  return *s.value().codes.begin();
}

}  // namespace

TEST_SUITE("sdk/traps") {
  TEST_CASE("a broadcast message that fails is not sent back and not held: it is gone") {
    Member m;  // client §11 L5
    const auto root =
        std::filesystem::temp_directory_path() / ("tenon_sdk_traps_" + std::to_string(getpid()));
    std::filesystem::remove_all(root);
    ClientOptions o;
    o.instance_name = "viewer";
    m.client = m.cluster.client(nullptr, o);
    m.options.mode = GroupMode::kBroadcasting;
    m.options.local_offset_dir = root.string();
    m.cluster.put(kQueue, "x");
    std::atomic<int> calls{0};
    m.start([&](std::span<const MessageView>) {
      ++calls;
      return Ack::retry();
    });
    CHECK(eventually([&] { return calls.load() == 1; }));
    m.stop();
    CHECK(calls.load() == 1);
    CHECK(m.cluster.requests(RequestCode::kConsumerSendMsgBack).empty());
    detail::LocalOffsets offsets(root.string(), m.client->id(), "g");
    REQUIRE(offsets.load().has_value());
    CHECK(offsets.get(kQueue) == 1);
    std::filesystem::remove_all(root);
  }

  TEST_CASE("hashes are those of Java: UTF-16 units, 32 bits that wrap, with their sign") {
    CHECK(tag_hash("TagA") == 2598919);                        // client §11 L8, D5
    CHECK(tag_hash("\xE6\xA0\x87\xE7\xAD\xBE") == 857175);     // U+6807 U+7B7E
    CHECK(tag_hash("\xF0\x9F\x98\x80") == 1772899);            // two units: D83D DE00
    CHECK(tag_hash("polygenelubricants") == -2147483647 - 1);  // the smallest there is
    CHECK(tag_hash("Aa") == tag_hash("BB"));
    CHECK(hash_queue("polygenelubricants", 3) == 2);
    CHECK(hash_queue("polygenelubricants", 4) == 0);
    CHECK(hash_queue("polygenelubricants", 7) == 2);
  }

  TEST_CASE("a slave's older offset does not set a running member back") {
    Member m;  // client §11 L13
    for (int i = 0; i < 5; ++i) {
      m.cluster.put(kQueue, "m" + std::to_string(i));
    }
    std::atomic<int> calls{0};
    m.start([&](std::span<const MessageView>) {
      ++calls;
      return Ack::success();
    });
    REQUIRE(eventually([&] { return calls.load() == 5; }));
    // The master dies; what is left knows offset 2 only.
    m.cluster.set_offset("g", kQueue, 2);
    m.cluster.replace_master("T", "a", "a-slave:10911");
    m.client->refresh_routes();
    REQUIRE(eventually([&] { return m.client->routes().address("a", 0, true).empty(); }));
    const auto asked = m.cluster.requests(RequestCode::kQueryConsumerOffset).size();
    m.client->wake_rebalance();
    m.cluster.put(kQueue, "m5");
    m.cluster.release_held(tenon::Errc::kClosed);
    REQUIRE(eventually([&] { return calls.load() == 6; }));
    CHECK(m.cluster.requests(RequestCode::kQueryConsumerOffset).size() == asked);
    m.stop();
    CHECK(calls.load() == 6);
    CHECK(m.cluster.offset("g", kQueue) == 6);
  }

  TEST_CASE("request 40: the queues are shared anew at once, not at the next period") {
    Member m(nullptr, 4);  // client §11 D4, §14.45
    m.start([](std::span<const MessageView>) { return Ack::success(); });
    REQUIRE(m.owns(4));
    m.cluster.set_members({"0", m.client->id()});
    proto::Command c;
    c.code = RequestCode::kNotifyConsumerIdsChanged;
    c.flag = proto::kFlagOneway;
    c.set("consumerGroup", std::string_view("g"));
    CHECK(ask(*m.client, c, 0ms).code == -1);
    CHECK(m.owns(2));  // the periodic one comes after a day
  }

  TEST_CASE("what a member allocates by is seen from outside, so that a mixture can be found") {
    Member m;  // client §11 D5
    m.start([](std::span<const MessageView>) { return Ack::success(); });
    const auto info = proto::decode_consumer_running_info(m.core->running_info_body());
    REQUIRE(info.has_value());
    CHECK(info.value().properties.at("allocateMessageQueueStrategy") == "AVG");
  }

  TEST_CASE("a dead letter at once: delay level -1, and the limit is told with every send-back") {
    Member m;  // client §14.41
    m.cluster.put(kQueue, "poison");
    m.start([](std::span<const MessageView>) { return Ack::dead_letter(); });
    CHECK(eventually(
        [&] { return m.cluster.requests(RequestCode::kConsumerSendMsgBack).size() == 1; }));
    const Request r = m.cluster.requests(RequestCode::kConsumerSendMsgBack).at(0);
    CHECK(r.command.field("delayLevel") == "-1");
    CHECK(r.command.field("maxReconsumeTimes") == "16");
    m.stop();
    CHECK(m.cluster.offset("g", kQueue) == 1);
  }

  TEST_CASE("the offset file survives a crash at every step of its replacement") {
    const auto root = std::filesystem::temp_directory_path() /
                      ("tenon_sdk_traps_file_" + std::to_string(getpid()));  // client §14.32
    std::filesystem::remove_all(root);
    const auto file = root / "id" / "g" / "offsets.json";
    const auto saved = [&](std::int64_t offset) {
      detail::LocalOffsets o(root.string(), "id", "g");
      REQUIRE(o.load().has_value());
      REQUIRE(o.save({{{"T", "a", 0}, offset}}).has_value());
    };
    const auto loaded = [&] {
      detail::LocalOffsets o(root.string(), "id", "g");
      REQUIRE(o.load().has_value());
      return o.get(kQueue).value_or(-1);
    };
    saved(5);
    saved(6);
    std::ofstream(file.string() + ".tmp") << "{\"offsetTable\":{{\"broker";  // died while writing
    CHECK(loaded() == 6);
    std::filesystem::remove(file);  // Java removes the old file before it renames the new one
    CHECK(loaded() == 5);
    std::ofstream(file, std::ios::trunc) << "";
    CHECK(loaded() == 5);
    saved(7);  // the remains do not disturb the next time
    CHECK(loaded() == 7);
    std::filesystem::remove_all(root);
  }

  TEST_CASE("the clock is set forward or back: nothing is sent back, given up, or waits for ever") {
    SetClock clock;  // client §9: clock jumps
    Member m(&clock);
    std::atomic<int> entered{0};
    std::atomic<bool> release{false};
    m.cluster.put(kQueue, "in work");
    m.start([&](std::span<const MessageView>) {
      ++entered;
      entered.notify_all();
      release.wait(false);
      return Ack::success();
    });
    m.client->timers().run_due();
    entered.wait(0);
    m.settle();
    const auto heartbeats = m.cluster.requests(RequestCode::kHeartBeat).size();
    for (const std::int64_t jump : {std::int64_t{3'600'000}, std::int64_t{-7'200'000}}) {
      clock.jump_wall_ms(jump);
      m.client->timers().run_due();
      m.client->wake_rebalance();
      m.settle();
      CHECK(m.owns(1));
      clock.advance_ms(30'000);
      m.client->timers().run_due();
      m.settle();
    }
    CHECK(eventually(
        [&] { return m.cluster.requests(RequestCode::kHeartBeat).size() >= heartbeats + 2; }));
    // After a real quarter of an hour it is too long, whatever the wall clock says.
    CHECK(m.cluster.requests(RequestCode::kConsumerSendMsgBack).empty());
    clock.advance_ms(15 * 60'000);
    m.client->timers().run_due();
    CHECK(eventually(
        [&] { return m.cluster.requests(RequestCode::kConsumerSendMsgBack).size() == 1; }));
    release = true;
    release.notify_all();
    m.stop();
    CHECK(entered.load() == 1);
  }

  TEST_CASE("a group is deleted while it consumes: pulls are refused, a heartbeat makes it anew") {
    Member m;  // client §9: group deleted
    std::atomic<int> calls{0};
    std::atomic<bool> deleted{false};
    m.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      if (r.command.code == RequestCode::kHeartBeat) {
        deleted = false;
      }
      return deleted.load() && r.command.code == RequestCode::kPullMessage &&
                     r.command.field("topic") == "T"
                 ? std::optional(Outcome::code(proto::ResponseCode::kSubscriptionGroupNotExist))
                 : std::nullopt;
    });
    m.start([&](std::span<const MessageView>) {
      ++calls;
      return Ack::success();
    });
    REQUIRE(m.owns(1));
    deleted = true;
    m.cluster.put(kQueue, "x");
    m.cluster.release_held(tenon::Errc::kClosed);
    CHECK(eventually([&] { return calls.load() == 1; }));
    CHECK_FALSE(deleted.load());
  }
}
