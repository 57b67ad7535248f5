#include "fake_connection.h"
#include "group_member.h"
#include "poller.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;
namespace proto = tenon::proto;
using detail::ConsumerCore;
using proto::RequestCode;

namespace {

struct Fixture : GroupMember<PullConsumerOptions> {
  using GroupMember::GroupMember;
  ~Fixture() { stop(); }

  detail::Poller& start() {
    run(ConsumerCore::create_pull(*client, options).value());
    return core->poller();
  }
  void start_owning(std::size_t queues) {
    start();
    REQUIRE(eventually([&] { return core->owned().size() == queues; }));
  }
  void stop() {
    if (core) {
      core->poller().before_stop().value();
      GroupMember::stop();
    }
  }
  std::vector<std::string> poll(std::chrono::milliseconds timeout = 5s) {
    std::vector<std::string> out;
    for (const MessageView& m : core->poller().poll(timeout, {})) {
      out.push_back(std::string(m.body()));
    }
    return out;
  }
  void put(int from, int to) {
    for (int i = from; i < to; ++i) {
      cluster.put(kQueue, std::to_string(i));
    }
  }
};

using Bodies = std::vector<std::string>;

}  // namespace

TEST_SUITE("sdk/pull_consumer") {
  TEST_CASE("the request: flags 22, the expression, 20 s; the group pulls actively") {
    Fixture f;  // client §14.48
    f.put(0, 1);
    f.options.subscriptions["T"].expression = "A || B";
    f.start_owning(1);
    CHECK(eventually([&] { return !f.cluster.requests(RequestCode::kPullMessage).empty(); }));
    const auto pull = f.cluster.requests(RequestCode::kPullMessage).front().command;
    CHECK(pull.field("sysFlag") == "22");
    CHECK(pull.field("subscription") == "A || B");
    CHECK(pull.field("suspendTimeoutMillis") == "20000");
    CHECK(pull.field("commitOffset") == "0");
    const auto beat =
        proto::decode_heartbeat(f.cluster.requests(RequestCode::kHeartBeat).back().command.body)
            .value();
    CHECK(beat.consumers.at(0).consume_type == proto::ConsumeType::kActively);
    CHECK(beat.consumers.at(0).subscriptions.size() == 1);  // no retry topic
  }

  TEST_CASE("what was polled is committed by commit(), and nothing else is") {
    Fixture f;
    f.options.poll_max = 2;
    f.put(0, 5);
    f.start_owning(1);
    auto& poller = f.core->poller();
    CHECK(poller.position(kQueue).error().is(Errc::kNotFound));
    CHECK(poller.committed(kQueue).error().is(Errc::kNotFound));
    CHECK(f.poll() == Bodies{"0", "1"});
    CHECK(f.poll() == Bodies{"2", "3"});
    CHECK(poller.position(kQueue).value() == 4);
    CHECK_FALSE(f.cluster.offset("g", kQueue).has_value());
    poller.commit().value();
    CHECK(f.cluster.offset("g", kQueue) == 4);
    CHECK(poller.committed(kQueue).value() == 4);
    CHECK(f.poll() == Bodies{"4"});
    f.stop();  // does not commit
    CHECK(f.cluster.offset("g", kQueue) == 4);
    f.start_owning(1);
    CHECK(f.poll() == Bodies{"4"});
    f.core->poller().commit(kQueue, 3).value();
    CHECK(f.cluster.offset("g", kQueue) == 3);
    CHECK(f.core->poller().commit({"T", "a", 9}, 3).error().is(Errc::kNotFound));
  }

  TEST_CASE("auto commit: a poll commits what earlier polls returned, close the rest") {
    Fixture f;  // client §14.48
    f.options.auto_commit = true;
    f.options.commit_interval = 10ms;
    f.options.poll_max = 2;
    f.put(0, 4);
    f.start_owning(1);
    CHECK(f.poll() == Bodies{"0", "1"});
    CHECK_FALSE(f.cluster.offset("g", kQueue).has_value());
    CHECK(eventually([&] {
      f.core->poller().poll(0ms, {});
      return f.cluster.offset("g", kQueue).value_or(0) >= 2;
    }));
    f.stop();
    CHECK(f.cluster.offset("g", kQueue) == 4);
  }

  TEST_CASE("a filter that matches nothing makes progress") {
    Fixture f;  // Trap: client §6
    f.options.subscriptions["T"].expression = "wanted";
    f.put(0, 3);
    f.start_owning(1);
    CHECK(eventually([&] { return f.core->poller().position(kQueue).has_value(); }));
    f.core->poller().commit().value();
    CHECK(f.cluster.offset("g", kQueue) == 3);
  }

  TEST_CASE("assign and subscribe exclude each other; assigned queues need no members") {
    Fixture f(4);  // client §14.48
    f.start_owning(4);
    CHECK(f.core->poller().assign(std::span(&kQueue, 1), {}).error().is(Errc::kConflict));
    f.stop();
    f.options.subscriptions.clear();
    f.cluster.set_members({});
    f.start();
    const std::vector<Queue> two{{"T", "a", 1}, {"T", "a", 3}};
    f.core->poller().assign(two, {}).value();
    CHECK(f.core->owned() == two);
    CHECK(f.core->subscribe("T", {}).error().is(Errc::kConflict));
    f.cluster.put({"T", "a", 3}, "x");
    f.core->poller().assign(std::span(&kQueue, 1), {}).value();
    CHECK(f.core->owned() == std::vector<Queue>{kQueue});
    f.put(0, 1);
    f.core->poller().seek(kQueue, 0).value();  // the pull before found nothing and is held
    CHECK(f.poll() == Bodies{"0"});
    f.core->poller().assign({}, {}).value();
    CHECK(f.core->owned().empty());
  }

  TEST_CASE("assigned queues with a filter; a topic is subscribed and given up while running") {
    Fixture f;
    f.options.subscriptions.clear();
    f.cluster.put(kQueue, "no", std::string("TAGS\1no"));
    f.cluster.put(kQueue, "yes", std::string("TAGS\1yes"));
    f.start();
    f.core->poller().assign(std::span(&kQueue, 1), {"yes"}).value();
    CHECK(f.poll() == Bodies{"yes"});
    f.stop();
    f.start();
    f.core->subscribe("T", {}).value();
    CHECK(f.poll() == Bodies{"no", "yes"});
    f.core->unsubscribe("T").value();
    CHECK(eventually([&] { return f.core->owned().empty(); }));
    CHECK(f.core->unsubscribe("T").error().is(Errc::kNotFound));
  }

  TEST_CASE("a consumer that commits nothing writes no offset, and moves none of others") {
    Fixture f;  // client §11 D15, L7: what is polled is not thereby done
    f.cluster.set_offset("g", kQueue, 1);
    f.put(0, 3);
    f.start_owning(1);
    CHECK(f.poll() == Bodies{"1", "2"});
    f.core->persist_all();
    f.cluster.set_offset("g", kQueue, 2);
    f.stop();
    CHECK(f.cluster.offset("g", kQueue) == 2);
    CHECK(f.cluster.requests(RequestCode::kUpdateConsumerOffset).empty());
  }

  TEST_CASE("seek: only owned queues, only offsets that exist; the position follows") {
    Fixture f;  // client §14.48
    f.put(0, 6);
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      proto::Command c;
      if (r.command.code == RequestCode::kGetMinOffset) {
        c.set("offset", std::int64_t{1});
      } else if (r.command.code == RequestCode::kSearchOffsetByTimestamp) {
        c.set("offset", std::int64_t{3});
      } else {
        return std::nullopt;
      }
      return Outcome::ok(std::move(c));
    });
    f.options.poll_max = 1;
    f.start_owning(1);
    auto& poller = f.core->poller();
    CHECK(f.poll() == Bodies{"0"});
    CHECK(poller.seek({"T", "a", 9}, 1).error().is(Errc::kNotFound));
    CHECK(poller.seek(kQueue, 0).error().is(Errc::kInvalidArgument));
    CHECK(poller.seek(kQueue, 7).error().is(Errc::kInvalidArgument));
    poller.seek(kQueue, 4).value();
    CHECK(poller.position(kQueue).value() == 4);
    CHECK(f.poll() == Bodies{"4"});
    poller.commit().value();
    CHECK(f.cluster.offset("g", kQueue) == 5);
    poller.seek_to(kQueue, RequestCode::kGetMinOffset).value();
    CHECK(f.poll() == Bodies{"1"});
    poller.seek_to(kQueue, RequestCode::kSearchOffsetByTimestamp, 1).value();
    CHECK(f.poll() == Bodies{"3"});
    poller.seek_to(kQueue, RequestCode::kGetMaxOffset).value();
    CHECK(f.poll(1ms).empty());
    CHECK(poller.position(kQueue).value() == 6);
  }

  TEST_CASE("a paused queue is not pulled, what is fetched is still returned") {
    Fixture f;  // client §14.48
    f.options.poll_max = 32;
    f.put(0, 32);  // one pull answer
    f.start_owning(1);
    REQUIRE(eventually([&] { return !f.cluster.requests(RequestCode::kPullMessage).empty(); }));
    f.core->poller().pause(std::span(&kQueue, 1), true);
    CHECK(f.poll().size() == 32);
    f.core->poller().seek(kQueue, 0).value();
    const auto before = f.cluster.requests(RequestCode::kPullMessage).size();
    CHECK(f.poll(30ms).empty());
    CHECK(f.cluster.requests(RequestCode::kPullMessage).size() == before);
    f.core->poller().pause(std::span(&kQueue, 1), false);
    CHECK(f.poll(10s).size() == 32);
  }

  TEST_CASE("an illegal offset: goes on at the legal one at once") {
    Fixture f;
    f.put(0, 10);
    f.cluster.set_offset("g", kQueue, 50);
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      if (r.command.code != RequestCode::kPullMessage || r.command.field("queueOffset") != "50") {
        return std::nullopt;
      }
      Outcome o = Outcome::code(21);
      o.answer->set("nextBeginOffset", std::int64_t{8}).set("minOffset", std::int64_t{8});
      o.answer->set("maxOffset", std::int64_t{10}).set("suggestWhichBrokerId", std::int64_t{0});
      return o;
    });
    f.start_owning(1);
    CHECK(f.poll() == Bodies{"8", "9"});
  }

  TEST_CASE("a waiting poll ends by a stop request and by the end of the consumer") {
    Fixture f;
    f.start_owning(1);
    std::stop_source stop;
    std::thread stopper([&] { stop.request_stop(); });
    CHECK(f.core->poller().poll(1h, stop.get_token()).empty());
    stopper.join();
    std::thread closer([&] { f.core->stop(); });
    CHECK(f.core->poller().poll(1h, {}).empty());
    closer.join();
  }

  TEST_CASE("a plain pull: flags 4 and 6, every status, no offsets of the group") {
    Fixture f;
    f.options.subscriptions.clear();
    auto& poller = f.start();
    f.put(0, 3);
    auto r = poller.pull(kQueue, 1, 32, 0ms, {});
    REQUIRE(r.has_value());
    CHECK(r->status == PullResult::Status::kFound);
    CHECK(r->messages.size() == 2);
    CHECK(r->next_offset == 3);
    CHECK(r->max_offset == 3);
    CHECK(f.cluster.requests(RequestCode::kPullMessage).back().command.field("sysFlag") == "4");
    std::int32_t code = 19;
    f.cluster.set_hook([&](const Request& q) -> std::optional<Outcome> {
      return q.command.code == RequestCode::kPullMessage ? std::optional(Outcome::code(code))
                                                         : std::nullopt;
    });
    CHECK(poller.pull(kQueue, 3, 32, 1s, {})->status == PullResult::Status::kNothingNew);
    const auto waiting = f.cluster.requests(RequestCode::kPullMessage).back().command;
    CHECK(waiting.field("sysFlag") == "6");
    CHECK(waiting.field("suspendTimeoutMillis") == "1000");
    code = 20;
    CHECK(poller.pull(kQueue, 3, 32, 0ms, {})->status == PullResult::Status::kNothingWanted);
    code = 21;
    CHECK(poller.pull(kQueue, 3, 32, 0ms, {})->status == PullResult::Status::kOffsetIllegal);
    code = 16;
    CHECK(poller.pull(kQueue, 3, 32, 0ms, {}).error().response == 16);
    CHECK(poller.pull(kQueue, 3, 0, 0ms, {}).error().is(Errc::kInvalidArgument));
    CHECK(poller.pull({"T", "zzz", 0}, 3, 1, 0ms, {}).error().is(Errc::kBrokerNotExist));
    CHECK_FALSE(f.cluster.offset("g", kQueue).has_value());
  }

  TEST_CASE("309 for a consumer without a listener is an error, not a crash") {
    Fixture f;
    f.start_owning(1);
    proto::Command c;
    c.code = RequestCode::kConsumeMessageDirectly;
    c.set("consumerGroup", std::string_view("g"));
    CHECK(ask(*f.client, c).code == 1);
  }
}
