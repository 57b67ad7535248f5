// Old-style namespaces (client §1.3) and the stream request type (client §1.1). What a namespace does
// to a program is shown with a broker, in tests/unit/testing.
#include "name_space.h"

#include "client_core.h"
#include "fake_cluster.h"
#include "producer_core.h"

#include "tenon/base/endian.h"
#include "tenon/proto/acl.h"

#include <doctest/doctest.h>

#include <string>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
namespace proto = tenon::proto;
using proto::RequestCode;

TEST_SUITE("sdk/name_space") {
  TEST_CASE("names are wrapped once, those of the system never") {  // client §14.3, §1.3
    const NameSpace ns("MQ_INST_1");
    CHECK(ns.wrap("T") == "MQ_INST_1%T");
    CHECK(ns.wrap("%RETRY%g") == "%RETRY%MQ_INST_1%g");
    CHECK(ns.wrap("%DLQ%g") == "%DLQ%MQ_INST_1%g");
    CHECK(ns.wrap("MQ_INST_1%T") == "MQ_INST_1%T");
    CHECK(ns.wrap("%RETRY%MQ_INST_1%g") == "%RETRY%MQ_INST_1%g");
    CHECK(ns.wrap("MQ_INST_1") == "MQ_INST_1%MQ_INST_1");
    CHECK(ns.wrap("MQ_INST_10%T") == "MQ_INST_1%MQ_INST_10%T");
    CHECK(ns.wrap("").empty());
    CHECK(NameSpace().wrap("T") == "T");
    for (const char* name : {"TBW102",
                             "SCHEDULE_TOPIC_XXXX",
                             "BenchmarkTest",
                             "RMQ_SYS_TRANS_HALF_TOPIC",
                             "RMQ_SYS_TRACE_TOPIC",
                             "RMQ_SYS_TRANS_OP_HALF_TOPIC",
                             "TRANS_CHECK_MAX_TIME_TOPIC",
                             "SELF_TEST_TOPIC",
                             "OFFSET_MOVED_EVENT",
                             "rmq_sys_wheel_timer",
                             "CID_RMQ_SYS_TRANS"}) {
      CAPTURE(name);
      CHECK(ns.wrap(name) == name);
      CHECK(ns.unwrap(name) == name);
      CHECK(ns.holds(name));
    }
  }

  TEST_CASE("names are unwrapped, those of others are left alone") {  // client §14.3
    const NameSpace ns("MQ_INST_1");
    CHECK(ns.unwrap("%DLQ%MQ_INST_1%g") == "%DLQ%g");
    CHECK(ns.unwrap("%RETRY%MQ_INST_1%g") == "%RETRY%g");
    CHECK(ns.unwrap("MQ_INST_1%T") == "T");
    CHECK(ns.unwrap("MQ_INST_2%T") == "MQ_INST_2%T");
    CHECK(ns.unwrap("T") == "T");
    CHECK(NameSpace().unwrap("MQ_INST_1%T") == "MQ_INST_1%T");
    for (const char* name : {"T", "%RETRY%g", "%DLQ%g", "a%b", "%", "TBW102"}) {
      CAPTURE(name);
      CHECK(ns.unwrap(ns.wrap(name)) == name);
      CHECK(ns.wrap(ns.wrap(name)) == ns.wrap(name));
      CHECK(ns.holds(ns.wrap(name)));
    }
    CHECK_FALSE(ns.holds("T"));
    CHECK_FALSE(ns.holds("MQ_INST_2%T"));
    CHECK(NameSpace().holds("T"));
  }

  TEST_CASE("the address of an instance names its namespace") {  // client §1.3
    CHECK(name_space_of("http://MQ_INST_123_BXabc.region.example:80") == "MQ_INST_123_BXabc");
    CHECK(name_space_of("MQ_INST_123_BXabc.region.example:9876") == "MQ_INST_123_BXabc");
    CHECK(name_space_of("MQ_INST_1_2_3.x") == "MQ_INST_1_2_3");
    for (const char* text : {"",
                             "10.0.0.1:9876",
                             "MQ_INST_123.region.example",
                             "MQ_INST_123_.example",
                             "MQ_INST__.example",
                             "MQ_INST_123_a:9876",
                             "http://MQ_INST_1-2_3.example",
                             "://MQ_INST_1_2.example",
                             "a:1;MQ_INST_1_2.example:1",
                             "http://proxy/MQ_INST_1_2.example"}) {
      CAPTURE(text);
      CHECK(name_space_of(text).empty());
    }
    CHECK(NameSpace::check("a-b_C9").has_value());
    CHECK(NameSpace::check("").has_value());
    CHECK(NameSpace::check("a%b").error().is(Errc::kInvalidArgument));
    CHECK(NameSpace::check("a b").error().is(Errc::kInvalidArgument));
  }

  TEST_CASE("what is sent names the namespace, the limits hold for the whole name") {
    FakeCluster cluster;
    cluster.add_topic("ns%T", {"a"}, 2);
    ClientOptions options;
    options.name_space = "ns";
    const auto client = cluster.client(nullptr, options);
    const auto producer = detail::ProducerCore::create(*client, {.group = "pg"}).value();
    client->add(producer).value();
    CHECK(producer->group() == "ns%pg");
    const auto message = [](std::string topic) {
      Message m;
      m.topic = std::move(topic);
      m.body = "x";
      return m;
    };
    const auto receipt = producer->send(message("T"), {});
    REQUIRE(receipt.has_value());
    CHECK(receipt->queue.topic == "T");
    const Queue queue{"T", "a", 1};
    SendOptions there;
    there.queue = &queue;
    CHECK(producer->send(message("T"), there)->queue == queue);
    CHECK(producer->send(message("ns%T"), there)->queue == queue);
    const auto sends = cluster.requests(RequestCode::kSendMessageV2);
    REQUIRE(sends.size() == 3);
    for (const Request& r : sends) {
      CHECK(r.command.field("a") == "ns%pg");
      CHECK(r.command.field("b") == "ns%T");
      CHECK(r.command.field("i").value_or("").find("INSTANCE_ID\x01ns") != std::string::npos);
    }
    CHECK(producer->send(message(std::string(125, 't')), {}).error().is(Errc::kInvalidArgument));
    CHECK(producer->send(message(std::string(124, 't')), {}).error().is(Errc::kNoRoute));
    std::vector<Message> batch{message("T"), message("T")};
    CHECK(producer->send_batch(batch, {}, nullptr).value().at(0).queue.topic == "T");
    const auto batches = cluster.requests(RequestCode::kSendBatchMessage);
    REQUIRE(batches.size() == 1);
    CHECK(batches[0].command.field("b") == "ns%T");
    CHECK(batches[0].command.field("i").value_or("").find("INSTANCE_ID\x01ns") !=
          std::string::npos);
    producer->stop();
  }

  TEST_CASE("the namespace of an instance's address is that of the client") {
    FakeCluster cluster;
    ClientOptions options;
    options.name_servers = "http://MQ_INST_1_a.example:80";
    CHECK(cluster.client(nullptr, options)->names().name() == "MQ_INST_1_a");
    options.name_space = "mine";
    CHECK(cluster.client(nullptr, options)->names().name() == "mine");
    CHECK(Client::connect({.name_servers = "a:1", .name_space = "a%b"})
              .error()
              .is(Errc::kInvalidArgument));
  }

  TEST_CASE("all requests of a stream client say so, under the signature") {  // client §1.1, §3.5
    FakeCluster cluster;
    cluster.add_topic("T", {"a"}, 1);
    ClientOptions options;
    options.unit_name = "unit";
    options.stream_requests = true;
    options.credentials = {"key", "secret", ""};
    const auto client = cluster.client(nullptr, options);
    CHECK(client->id().ends_with("@unit@STREAM"));  // client §14.1
    const auto producer = detail::ProducerCore::create(*client, {.group = "pg"}).value();
    client->add(producer).value();
    Message m;
    m.topic = "T";
    m.body = "x";
    CHECK(producer->send(m, {}).has_value());
    CHECK(producer->send_oneway(m, {}).has_value());
    client->heartbeat_blocking();
    std::size_t seen = 0;
    for (const auto code : {RequestCode::kGetRouteinfoByTopic,
                            RequestCode::kSendMessageV2,
                            RequestCode::kHeartBeat}) {
      for (const Request& r : cluster.requests(code)) {
        ++seen;
        CHECK(r.command.field("ReqT") == "0");
        std::vector<proto::Field> fields;
        for (const auto& [name, value] : r.command.fields) {
          if (name != proto::kAclSignature) {
            fields.push_back({name, value});
          }
        }
        CHECK(r.command.field(proto::kAclSignature) ==
              proto::acl_signature("secret", fields, tenon::as_bytes(r.command.body)));
      }
    }
    CHECK(seen == 4);
    CHECK_FALSE(cluster.client()->id().ends_with("@STREAM"));
    producer->stop();
  }
}
