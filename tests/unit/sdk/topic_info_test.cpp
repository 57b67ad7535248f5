#include "topic_info.h"

#include "routes.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tenon::sdk;
namespace proto = tenon::proto;

namespace {

/// spec client §2.4, example: b {r4, w2, perm 6}, a {r4, w4, perm 4}, masters present.
proto::TopicRoute example() {
  proto::TopicRoute r;
  r.queues = {{"b", 4, 2, 6, 0}, {"a", 4, 4, 4, 0}};
  r.brokers = {{"c", "b", {{0, "b:1"}}}, {"c", "a", {{0, "a:1"}}}};
  return r;
}

std::vector<std::string> names(const TopicInfo& info) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < info.publish.size(); ++i) {
    const Queue q = info.queue_at(i);
    out.push_back(q.broker + std::to_string(q.id));
  }
  return out;
}
std::vector<std::string> names(const std::vector<Queue>& queues) {
  std::vector<std::string> out;
  for (const Queue& q : queues) {
    out.push_back(q.broker + std::to_string(q.id));
  }
  return out;
}
using Names = std::vector<std::string>;

}  // namespace

TEST_SUITE("sdk/topic_info") {
  TEST_CASE("publish and subscribe lists of the example") {  // client §14.5
    const TopicInfo info = make_topic_info("T", example());
    CHECK(names(info) == Names{"b0", "b1"});
    CHECK(names(info.subscribe) == Names{"a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"});
  }

  TEST_CASE("an order configuration decides the publish list alone") {  // client §14.5
    proto::TopicRoute r = example();
    r.order_topic_conf = "broker-a:2;broker-b:1";
    const TopicInfo info = make_topic_info("T", r);
    CHECK(names(info) == Names{"broker-a0", "broker-a1", "broker-b0"});
    CHECK(info.subscribe.size() == 8);
  }

  TEST_CASE("queues of a broker without master are not published but can be read") {
    proto::TopicRoute r = example();  // client §14.5
    r.queues[0].write_queue_count = 4;
    r.brokers[0].addrs = {{1, "b:slave"}};
    const TopicInfo info = make_topic_info("T", r);
    CHECK(info.publish.empty());
    CHECK(info.subscribe.size() == 8);
    r.brokers.erase(r.brokers.begin());
    CHECK(make_topic_info("T", r).publish.empty());
  }

  TEST_CASE("brokers sort as text, queues by number") {  // client §14.30, §11 D6
    proto::TopicRoute r;
    r.queues = {{"broker-2", 1, 1, 6, 0}, {"broker-10", 11, 11, 6, 0}};
    r.brokers = {{"c", "broker-2", {{0, "x:1"}}}, {"c", "broker-10", {{0, "y:1"}}}};
    const TopicInfo info = make_topic_info("T", r);
    const Names all = names(info.subscribe);
    CHECK(all.front() == "broker-100");
    CHECK(all[2] == "broker-102");
    CHECK(all[10] == "broker-1010");
    CHECK(all.back() == "broker-20");
    CHECK(names(info) == all);
  }

  TEST_CASE("a topic that does not exist gets min(4, read queues) queues per broker") {
    proto::TopicRoute r;  // client §14.6
    r.queues = {{"a", 8, 8, 7, 0}, {"b", 2, 2, 7, 0}};
    r.brokers = {{"c", "a", {{0, "a:1"}}}, {"c", "b", {{0, "b:1"}}}};
    const TopicInfo info = make_topic_info("T", route_from_template(r, 4));
    CHECK(names(info) == Names{"a0", "a1", "a2", "a3", "b0", "b1"});
  }

  TEST_CASE("routes parse with quoted and unquoted integer keys and compare equal in any order") {
    const char* texts[] = {
        // client §14.7
        R"({"brokerDatas":[{"brokerAddrs":{0:"a:1",1:"a:2"},"brokerName":"a","cluster":"c"},{"brokerAddrs":{0:"b:1"},"brokerName":"b","cluster":"c"}],"filterServerTable":{},"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":1,"topicSynFlag":0,"writeQueueNums":1},{"brokerName":"b","perm":6,"readQueueNums":1,"topicSysFlag":0,"writeQueueNums":1}]})",
        R"({"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":1,"writeQueueNums":1},{"brokerName":"a","perm":6,"readQueueNums":1,"writeQueueNums":1}],"brokerDatas":[{"brokerName":"b","cluster":"c","brokerAddrs":{"0":"b:1"}},{"cluster":"c","brokerName":"a","brokerAddrs":{"0":"a:1","1":"a:2"}}]})"};
    std::vector<TopicInfo> made;
    for (const char* text : texts) {
      auto route = proto::decode_topic_route(text);
      REQUIRE(route.has_value());
      made.push_back(make_topic_info("T", std::move(route).value()));
    }
    CHECK(made[0].route == made[1].route);
    CHECK(made[0].route.brokers[0].addrs.at(1) == "a:2");
    CHECK(names(made[0]) == Names{"a0", "b0"});
  }

  TEST_CASE("lists of name servers") {
    using List = std::vector<std::string>;
    CHECK(split_name_servers("a:1;b:2") == List{"a:1", "b:2"});
    CHECK(split_name_servers(" a:1 ;; ") == List{"a:1"});
    CHECK(split_name_servers("http://a:1") == List{"a:1"});
    CHECK(split_name_servers("").empty());
  }

  TEST_CASE("the chosen name server stays until it fails") {  // client §14.12
    NameServers ns({"a:1", "b:1", "c:1"}, 7);
    const std::string first = ns.chosen();
    CHECK(ns.chosen() == first);
    ns.failed("somebody else");
    CHECK(ns.chosen() == first);
    ns.failed(first);
    const std::string second = ns.chosen();
    CHECK(second != first);
    ns.failed(first);  // a late failure of the one before changes nothing
    CHECK(ns.chosen() == second);
    ns.failed(second);
    ns.failed(ns.chosen());
    CHECK(ns.chosen() == first);
  }
}
