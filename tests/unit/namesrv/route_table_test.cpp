#include "route_table.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tenon;
using namespace tenon::namesrv;

namespace {

proto::TopicTable topics(std::int64_t version, std::initializer_list<const char*> names) {
  proto::TopicTable t;
  t.version = {.timestamp = 1000, .counter = version};
  for (const char* name : names) {
    proto::TopicConfig c;
    c.name = name;
    c.read_queue_count = 4;
    c.write_queue_count = 4;
    t.topics[name] = c;
  }
  return t;
}

struct Fixture {
  ManualClock clock{};
  RouteTable table{clock, 120'000};

  MasterInfo add(const BrokerKey& key,
                 const proto::TopicTable& t,
                 ConnectionId connection = 1,
                 std::string ha = "h:1") {
    return table.register_broker({key, std::move(ha), &t, connection, 0});
  }
  std::int32_t perm(std::string_view topic) const {
    const auto r = table.route(topic);
    return r ? r->queues.at(0).perm : -1;
  }
};

const BrokerKey kMaster{"C", "a", "10.0.0.1:10911", 0};
const BrokerKey kSlave{"C", "a", "10.0.0.2:10911", 1};
const BrokerKey kOther{"C2", "b", "10.0.0.3:10911", 0};

}  // namespace

TEST_SUITE("namesrv/route_table") {
  TEST_CASE("a registered topic has a route with its queues and brokers") {
    Fixture f;
    f.add(kMaster, topics(1, {"T"}));
    const auto route = f.table.route("T");
    REQUIRE(route.has_value());
    REQUIRE(route->queues.size() == 1);
    CHECK(route->queues[0] == proto::QueueData{"a", 4, 4, 6, 0});
    REQUIRE(route->brokers.size() == 1);
    CHECK(route->brokers[0] == proto::BrokerData{"C", "a", {{0, "10.0.0.1:10911"}}});
    CHECK_FALSE(f.table.route("U").has_value());
  }

  // broker §23.65
  TEST_CASE("an unchanged version does not bring a deleted topic back, a changed one does") {
    Fixture f;
    f.add(kMaster, topics(1, {"T", "U"}));
    f.table.delete_topic("T", "");
    CHECK_FALSE(f.table.route("T").has_value());
    f.add(kMaster, topics(1, {"T", "U"}));
    CHECK_FALSE(f.table.route("T").has_value());
    CHECK(f.table.route("U").has_value());
    f.add(kMaster, topics(2, {"T", "U"}));
    CHECK(f.table.route("T").has_value());
  }

  TEST_CASE("topics missing in a later registration stay") {
    Fixture f;
    f.add(kMaster, topics(1, {"T", "U"}));
    f.add(kMaster, topics(2, {"U"}));
    CHECK(f.table.route("T").has_value());
  }

  // A broker sends one new topic with the version of its whole table; this name server has just
  // been started and knows nothing else (spec: broker §21.3 Traps).
  TEST_CASE("an incremental registration does not hide the topics of the full one that follows") {
    Fixture f;
    f.add(kMaster, topics(7, {"New"}));
    f.add(kMaster, topics(7, {"New", "Old1", "Old2"}));
    CHECK(f.table.route("Old1").has_value());
    CHECK(f.table.route("Old2").has_value());
  }

  // Statement 66.
  // broker §23.66
  TEST_CASE("a slave adds no topics and learns its master, if that is alive") {
    Fixture f;
    CHECK(f.add(kSlave, topics(1, {"T"}), 2).address.empty());
    CHECK_FALSE(f.table.route("T").has_value());
    f.add(kMaster, topics(1, {"T"}), 1, "10.0.0.1:10912");
    const MasterInfo master = f.add(kSlave, topics(1, {"X"}), 2);
    CHECK(master.address == "10.0.0.1:10911");
    CHECK(master.ha_address == "10.0.0.1:10912");
    CHECK_FALSE(f.table.route("X").has_value());
    CHECK(f.table.route("T")->brokers[0].addrs.size() == 2);
  }

  // Statement 67.
  // broker §23.67
  TEST_CASE("wiping the write permission lasts until the broker's version changes") {
    Fixture f;
    f.add(kMaster, topics(1, {"T", "U"}));
    f.add(kOther, topics(1, {"T"}), 3);
    CHECK(f.table.wipe_write_permission("a") == 2);
    CHECK(f.table.wipe_write_permission("none") == 0);
    CHECK(f.perm("U") == 4);
    const auto both = f.table.route("T");
    CHECK(both->queues[0].perm == 4);
    CHECK(both->queues[1].perm == 6);
    f.add(kMaster, topics(1, {"T", "U"}));
    CHECK(f.perm("U") == 4);
    f.add(kMaster, topics(2, {"T", "U"}));
    CHECK(f.perm("U") == 6);
  }

  TEST_CASE("adding the write permission sets 6 outright") {
    Fixture f;
    auto t = topics(1, {"T"});
    t.topics["T"].perm = 7;
    f.add(kMaster, t);
    CHECK(f.perm("T") == 7);
    CHECK(f.table.add_write_permission("a") == 1);
    CHECK(f.perm("T") == 6);
  }

  // Statement 68.
  // broker §23.68
  TEST_CASE("the same address under another id leaves one entry") {
    Fixture f;
    f.add(kMaster, topics(1, {"T"}));
    BrokerKey demoted = kMaster;
    demoted.id = 2;
    f.add(demoted, topics(1, {}));
    const auto info = f.table.cluster_info();
    CHECK(info.brokers.at("a").addrs == std::map<std::int64_t, std::string>{{2, "10.0.0.1:10911"}});
    CHECK(f.table.route("T").has_value());
  }

  TEST_CASE("a new address of an id replaces the old one and its topics are taken") {
    Fixture f;
    f.add(kMaster, topics(1, {"T"}));
    BrokerKey moved = kMaster;
    moved.address = "10.0.0.9:10911";
    f.add(moved, topics(1, {"T", "U"}), 5);
    CHECK(f.table.route("U")->brokers[0].addrs ==
          std::map<std::int64_t, std::string>{{0, "10.0.0.9:10911"}});
  }

  // Statement 64, first half.
  // broker §23.64
  TEST_CASE("a lost connection drops its broker at once, and the last one takes the topics along") {
    Fixture f;
    f.add(kMaster, topics(1, {"T"}), 1);
    f.add(kSlave, topics(1, {}), 2);
    CHECK(f.table.connection_closed(99).empty());
    CHECK(f.table.connection_closed(1) == std::vector<std::string>{"10.0.0.1:10911"});
    const auto route = f.table.route("T");
    REQUIRE(route.has_value());
    CHECK(route->brokers[0].addrs == std::map<std::int64_t, std::string>{{1, "10.0.0.2:10911"}});
    f.table.connection_closed(2);
    CHECK_FALSE(f.table.route("T").has_value());
    CHECK(f.table.all_topics().topics.empty());
    CHECK(f.table.cluster_info().clusters.empty());
    CHECK(f.table.cluster_info().brokers.empty());
    CHECK(f.table.live_count() == 0);
  }

  TEST_CASE("the old connection of a broker that has registered over a new one means nothing") {
    Fixture f;
    f.add(kMaster, topics(1, {"T"}), 1);
    f.add(kMaster, topics(1, {"T"}), 2);
    CHECK(f.table.connection_closed(1).empty());
    CHECK(f.table.route("T").has_value());
  }

  // Statement 64, second half.
  // broker §23.64
  TEST_CASE("a silent broker is dropped after the timeout, not before") {
    Fixture f;
    f.add(kMaster, topics(1, {"T"}), 1);
    f.clock.advance_ms(120'000);
    CHECK(f.table.drop_silent().empty());
    f.clock.advance_ms(1);
    CHECK(f.table.drop_silent() == std::vector<ConnectionId>{1});
    CHECK_FALSE(f.table.route("T").has_value());
  }

  TEST_CASE("an unchanged version and a heartbeat are signs of life, a changed version is not") {
    Fixture f;
    const auto t = topics(1, {"T"});
    f.add(kMaster, t, 1);
    f.clock.advance_ms(100'000);
    CHECK_FALSE(f.table.is_changed(kMaster.address, t.version));
    f.clock.advance_ms(100'000);
    CHECK(f.table.drop_silent().empty());
    f.table.refresh(kMaster.address);
    f.clock.advance_ms(100'000);
    CHECK(f.table.drop_silent().empty());
    CHECK(f.table.is_changed(kMaster.address, topics(2, {}).version));
    f.clock.advance_ms(30'000);
    CHECK(f.table.drop_silent().size() == 1);
    CHECK(f.table.is_changed(kMaster.address, t.version));
    CHECK_FALSE(f.table.version_of(kMaster.address).has_value());
  }

  TEST_CASE("a broker may bring its own timeout") {
    Fixture f;
    const auto t = topics(1, {"T"});
    f.table.register_broker({kMaster, "", &t, 1, 10'000});
    f.clock.advance_ms(10'001);
    CHECK(f.table.drop_silent().size() == 1);
  }

  TEST_CASE("unregistering removes one id; the last one takes the name along") {
    Fixture f;
    f.add(kMaster, topics(1, {"T"}), 1);
    f.add(kSlave, topics(1, {}), 2);
    f.table.unregister_broker(kMaster);
    CHECK(f.table.route("T").has_value());
    f.table.unregister_broker(kSlave);
    CHECK_FALSE(f.table.route("T").has_value());
    f.table.unregister_broker(kSlave);
    CHECK(f.table.connection_closed(1).empty());
  }

  TEST_CASE("lists of topics: all, of a cluster, of the system, of units") {
    Fixture f;
    auto t = topics(1, {"T", "Unit", "Sub", "Both"});
    t.topics["Unit"].sys_flag = 1;
    t.topics["Sub"].sys_flag = 2;
    t.topics["Both"].sys_flag = 3;
    f.add(kMaster, t);
    f.add(kOther, topics(1, {"T", "Z"}), 3);
    using L = std::vector<std::string>;
    CHECK(f.table.all_topics().topics == L{"Both", "Sub", "T", "Unit", "Z"});
    CHECK(f.table.topics_of_cluster("C2").topics == L{"T", "Z"});
    CHECK(f.table.topics_of_cluster("none").topics.empty());
    CHECK(f.table.system_topics().topics == L{"C", "a", "C2", "b"});
    CHECK(f.table.system_topics().broker_addr == "10.0.0.1:10911");
    CHECK(f.table.unit_topics(UnitFilter::kUnit).topics == L{"Both", "Unit"});
    CHECK(f.table.unit_topics(UnitFilter::kUnitSub).topics == L{"Both", "Sub"});
    CHECK(f.table.unit_topics(UnitFilter::kUnitSubNotUnit).topics == L{"Sub"});
  }

  TEST_CASE("a topic may be deleted in one cluster only") {
    Fixture f;
    f.add(kMaster, topics(1, {"T"}));
    f.add(kOther, topics(1, {"T"}), 3);
    f.table.delete_topic("T", "C2");
    REQUIRE(f.table.route("T").has_value());
    CHECK(f.table.route("T")->queues.size() == 1);
    f.table.delete_topic("T", "none");
    CHECK(f.table.route("T").has_value());
    f.table.delete_topic("T", "C");
    CHECK_FALSE(f.table.route("T").has_value());
  }

  TEST_CASE("topics can be registered from outside for known brokers") {
    Fixture f;
    f.add(kMaster, topics(1, {"T"}));
    f.table.register_topic("N", {{"a", 2, 3, 6, 0}, {"unknown", 1, 1, 6, 0}});
    REQUIRE(f.table.route("N").has_value());
    CHECK(f.table.route("N")->queues == std::vector<proto::QueueData>{{"a", 2, 3, 6, 0}});
    CHECK(f.table.member_group("C", "a").addrs.size() == 1);
    CHECK(f.table.member_group("C2", "a").addrs.empty());
  }
}
