#include "tenon/namesrv/name_server.h"

#include "../kernel/net/net_fixture.h"
#include "recorded.h"

#include "tenon/base/crc32.h"
#include "tenon/base/endian.h"
#include "tenon/proto/bodies.h"
#include "tenon/proto/codes.h"

#include <filesystem>
#include <set>

#include <stdlib.h>

using namespace tenon;
using namespace tenon::namesrv;
using namespace tenon::namesrv::test;
using namespace tenon::net::test;
using proto::Command;
using proto::RequestCode;

namespace {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tenon-ns-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

struct Server {
  explicit Server(NamesrvConfig config = {}) {
    config.listen_host = "127.0.0.1";
    config.listen_port = 0;
    server = NameServer::start(std::move(config)).value();
  }
  net::test::RawClient connect() const { return net::test::RawClient(server->port()); }
  Command ask(Command c) const {
    net::test::RawClient client = connect();
    return ask(client, std::move(c));
  }
  static Command ask(net::test::RawClient& client, Command c) {
    c.version = c.version == proto::kVersion ? 407 : c.version;
    std::string out;
    c.encode(out);
    client.write(out);
    return client.read_command();
  }
  std::unique_ptr<NameServer> server{};
};

Command registration(const std::string& name,
                     std::int64_t id,
                     const std::string& address,
                     const proto::RegisterBrokerBody& body,
                     const std::string& cluster = "DefaultCluster") {
  Command c{.code = RequestCode::kRegisterBroker};
  c.body = proto::encode(body);
  c.set("brokerName", name).set("brokerAddr", address).set("clusterName", cluster);
  c.set("brokerId", id).set("haServerAddr", "127.0.0.1:10912").set("compressed", "false");
  c.set("bodyCrc32", std::int64_t{crc32_java(as_bytes(c.body))});
  return c;
}

proto::RegisterBrokerBody body_with(const std::vector<std::string>& names,
                                    std::int64_t version = 1) {
  proto::RegisterBrokerBody body;
  body.topics.version = {.timestamp = 5, .counter = version};
  for (const std::string& name : names) {
    body.topics.topics[name].name = name;
  }
  return body;
}

std::string body_of(const Command& c) {
  return normalized(c.body);
}

/// Equal but for version and the order in lists; properties of the server itself are not compared.
void check_same(const Exchange& e, const std::string& got) {
  CAPTURE(e.step);
  const Command request = decode(e.request);
  const Command expected = decode(e.answer);
  const Command actual = decode(got);
  CAPTURE(request.code);
  CHECK(actual.code == expected.code);
  CHECK(actual.opaque == expected.opaque);
  CHECK(actual.flag == expected.flag);
  CHECK(actual.kind == expected.kind);
  CHECK(actual.remark == expected.remark);
  CHECK(actual.has_fields == expected.has_fields);
  auto fields = [](const Command& c) {
    return std::map<std::string, std::string>(c.fields.begin(), c.fields.end());
  };
  CHECK(fields(actual) == fields(expected));
  if (request.code == RequestCode::kGetNamesrvConfig) {
    CHECK(actual.body.find("orderMessageEnable=false\n") != std::string::npos);
    CHECK(actual.body.find("listenPort=") != std::string::npos);
  } else if (request.code == RequestCode::kGetRouteinfoByTopic ||
             request.code == RequestCode::kGetBrokerClusterInfo) {
    CHECK(actual.body == expected.body);  // byte for byte
  } else {
    CHECK(body_of(actual) == body_of(expected));
  }
}

std::string read_frame(net::test::RawClient& client) {
  std::string head = client.read(4);
  if (head.size() < 4) {
    return {};
  }
  return head + client.read(load_be<std::uint32_t>(head.data()));
}

/// Makes the server know what the recorded answer to `e` speaks of.
void prepare(net::test::RawClient& broker, const Exchange& e, std::int64_t version) {
  const Command request = decode(e.request);
  const Command answer = decode(e.answer);
  proto::RegisterBrokerBody body = body_with({"TBW102"}, version);
  if (request.code == RequestCode::kGetRouteinfoByTopic && answer.code == 0) {
    const proto::TopicRoute route = proto::decode_topic_route(answer.body).value();
    REQUIRE(route.queues.size() == 1);
    proto::TopicConfig& topic =
        body.topics.topics[std::string(request.field("topic").value_or(""))];
    topic.perm = route.queues[0].perm;
    topic.read_queue_count = route.queues[0].read_queue_count;
    topic.write_queue_count = route.queues[0].write_queue_count;
  } else if (request.code == RequestCode::kGetAllTopicListFromNameserver) {
    const auto list = proto::decode_topic_list(answer.body).value().topics;
    body = body_with(list, version);
  } else if (const auto wiped = answer.field_long("wipeTopicCount")) {
    for (int i = 1; i < *wiped; ++i) {
      body.topics.topics["T" + std::to_string(i)];
    }
  } else if (const auto added = answer.field_long("addTopicCount")) {
    for (int i = 1; i < *added; ++i) {
      body.topics.topics["T" + std::to_string(i)];
    }
  }
  REQUIRE(Server::ask(broker, registration("broker-a", 0, "127.0.0.1:10911", body)).code == 0);
}

}  // namespace

TEST_SUITE("namesrv/recorded frames") {
  TEST_CASE(
      "the conversation of a broker and a tool with Java's name server gets the same answers") {
    Server server;
    std::map<std::int64_t, std::unique_ptr<net::test::RawClient>> clients;
    int compared = 0;
    for (const Exchange& e : recorded("broker-4.9.7.jsonl")) {
      auto& client = clients[e.connection];
      if (!client) {
        client = std::make_unique<net::test::RawClient>(server.server->port());
      }
      REQUIRE(client->write(e.request));
      if (!e.answer.empty()) {
        check_same(e, read_frame(*client));
        ++compared;
      } else {
        // One-way: a question behind it on the same connection shows that it was handled.
        REQUIRE(Server::ask(*client, {.code = RequestCode::kGetNamesrvConfig}).code == 0);
      }
      if (e.last_of_connection) {
        client.reset();
      }
    }
    CHECK(compared >= 30);
  }

  TEST_CASE("what mqadmin and clients asked Java's name server gets the same answers") {
    int compared = 0;
    Server keeper;  // of the key-value configuration, which has a history
    std::int64_t version = 1;
    for (const Exchange& e : recorded("tools.jsonl")) {
      const std::int32_t code = decode(e.request).code;
      const bool key_value =
          code >= RequestCode::kPutKvConfig && code <= RequestCode::kDeleteKvConfig;
      Server fresh;
      Server& server = key_value ? keeper : fresh;
      net::test::RawClient broker = server.connect();
      if (!key_value) {
        prepare(broker, e, ++version);
      }
      net::test::RawClient client = server.connect();
      REQUIRE(client.write(e.request));
      check_same(e, read_frame(client));
      ++compared;
    }
    CHECK(compared >= 50);
  }
}

TEST_SUITE("namesrv/name_server") {
  // broker §23.69
  TEST_CASE("old requesters get unquoted keys, new ones and those who ask get standard JSON") {
    Server server;
    net::test::RawClient broker = server.connect();
    Server::ask(broker, registration("ü", 0, "h:1", body_with({"T"})));
    const auto body = [&](std::int32_t version, bool flag) {
      Command c{.code = RequestCode::kGetRouteinfoByTopic, .version = version};
      c.set("topic", "T");
      if (flag) {
        c.set("acceptStandardJsonOnly", "true");
      }
      return server.ask(c).body;
    };
    CHECK(body(400, false).find("{0:\"h:1\"}") != std::string::npos);
    CHECK(body(400, false).find("\"ü\"") != std::string::npos);
    for (const std::string& standard : {body(401, false), body(121, true), body(479, false)}) {
      CHECK(standard.find("{\"0\":\"h:1\"}") != std::string::npos);
      CHECK(standard.find("\\u00FC") != std::string::npos);
    }
  }

  // broker §23.70
  TEST_CASE("a registration with a wrong checksum or a broken body is refused") {
    Server server;
    Command wrong = registration("a", 0, "h:1", body_with({"T"}));
    wrong.set("bodyCrc32", 12345);
    const Command answer = server.ask(wrong);
    CHECK(answer.code == 1);
    CHECK(answer.remark == "crc32 not match");
    Command broken = registration("a", 0, "h:1", body_with({"T"}));
    broken.body = "{\"topicConfig";
    broken.set("bodyCrc32", 0);
    CHECK(server.ask(broken).code == 1);
    Command nameless{.code = RequestCode::kRegisterBroker};
    CHECK(server.ask(nameless).code == 1);
    CHECK(server.server->broker_count() == 0);
  }

  TEST_CASE("a broker is gone when its connection is") {
    Server server;
    net::test::RawClient watcher = server.connect();
    const auto route_code = [&] {
      Command c{.code = RequestCode::kGetRouteinfoByTopic};
      c.set("topic", "T");
      return Server::ask(watcher, c).code;
    };
    for (const bool hard : {false, true}) {
      net::test::RawClient broker = server.connect();
      Server::ask(broker, registration("a", 0, "h:1", body_with({"T"})));
      CHECK(route_code() == 0);
      hard ? broker.reset() : broker.close();
      CHECK(Waiter::poll([&] { return route_code() == 17; }));
    }
  }

  TEST_CASE("a silent broker is dropped and its connection closed") {
    NamesrvConfig config;
    config.scan_first_ms = 5;
    config.scan_interval_ms = 10;
    config.broker_timeout_ms = 100;
    Server server(config);
    net::test::RawClient broker = server.connect();
    Server::ask(broker, registration("a", 0, "h:1", body_with({"T"})));
    CHECK(broker.at_end());
    CHECK(server.server->broker_count() == 0);
  }

  // broker §23.66, §23.71
  TEST_CASE("a slave learns its master and gets the order configuration") {
    Server server;
    net::test::RawClient master = server.connect();
    net::test::RawClient slave = server.connect();
    CHECK(Server::ask(master, registration("a", 0, "h:1", body_with({"T"}))).body.empty());
    Command put{.code = RequestCode::kPutKvConfig};
    put.set("namespace", "ORDER_TOPIC_CONFIG").set("key", "T").set("value", "a:4");
    CHECK(server.ask(put).code == 0);
    const Command answer = Server::ask(slave, registration("a", 1, "h:2", body_with({})));
    CHECK(answer.field("masterAddr") == "h:1");
    CHECK(answer.field("haServerAddr") == "127.0.0.1:10912");
    CHECK(answer.body == R"({"table":{"T":"a:4"}})");
  }

  TEST_CASE("orderTopicConf is given only when enabled, which can be changed while running") {
    Server server;
    net::test::RawClient broker = server.connect();
    Server::ask(broker, registration("a", 0, "h:1", body_with({"T"})));
    Command put{.code = RequestCode::kPutKvConfig};
    put.set("namespace", "ORDER_TOPIC_CONFIG").set("key", "T").set("value", "a:4");
    server.ask(put);
    Command route{.code = RequestCode::kGetRouteinfoByTopic};
    route.set("topic", "T");
    CHECK(server.ask(route).body.find("orderTopicConf") == std::string::npos);
    CHECK(
        server.ask({.code = RequestCode::kUpdateNamesrvConfig, .body = "orderMessageEnable=true\n"})
            .code == 0);
    CHECK(server.ask(route).body.find("\"orderTopicConf\":\"a:4\"") != std::string::npos);
    CHECK(server.ask({.code = RequestCode::kGetNamesrvConfig})
              .body.find("orderMessageEnable=true\n") != std::string::npos);
    for (const char* key : {"kvConfigPath", "configStorePath", "rocketmqHome", "configBlackList"}) {
      const Command refused = server.ask(
          {.code = RequestCode::kUpdateNamesrvConfig, .body = std::string(key) + "=/x\n"});
      CHECK(refused.code == 16);
      CHECK(refused.remark == "Can not update config in black list.");
    }
  }

  // Statement 71.
  // broker §23.71
  TEST_CASE("the key-value configuration survives a restart, and its copy stands in for it") {
    TempFolder folder;
    NamesrvConfig config;
    config.kv_config_path = folder / "kvConfig.json";
    const auto get = [](const Server& server, const char* key) {
      Command c{.code = RequestCode::kGetKvConfig};
      c.set("namespace", "N").set("key", key);
      return server.ask(c);
    };
    {
      Server server(config);
      for (const char* key : {"k1", "k2"}) {
        Command c{.code = RequestCode::kPutKvConfig};
        c.set("namespace", "N").set("key", key).set("value", "v ü \"");
        CHECK(server.ask(c).code == 0);
      }
      Command none{.code = RequestCode::kPutKvConfig};
      none.set("namespace", "N");
      CHECK(server.ask(none).code == 1);
    }
    {
      Server server(config);
      CHECK(get(server, "k1").field("value") == "v ü \"");
      CHECK(get(server, "k2").field("value") == "v ü \"");
      CHECK(get(server, "k3").code == 22);
    }
    std::filesystem::remove(folder / "kvConfig.json");
    {
      Server server(config);
      CHECK(get(server, "k1").field("value") == "v ü \"");
      CHECK(get(server, "k2").code == 22);  // the copy is from before the second put
    }
    std::ofstream(folder / "kvConfig.json") << "no json";
    const auto refused = NameServer::start([&] {
      config.listen_port = 0;
      return config;
    }());
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == Errc::kCorrupt);
    CHECK(refused.error().detail.find("kvConfig.json") != std::string::npos);
  }

  TEST_CASE("unknown codes are answered with 3, one-way requests not at all") {
    Server server;
    net::test::RawClient client = server.connect();
    const Command unknown = Server::ask(client, {.code = 9999});
    CHECK(unknown.code == 3);
    CHECK(unknown.remark == " request type 9999 not supported");
    std::string out;
    Command{.code = 9999, .opaque = 5, .flag = proto::kFlagOneway}.encode(out);
    Command{.code = RequestCode::kGetBrokerClusterInfo, .opaque = 6}.encode(out);
    REQUIRE(client.write(out));
    CHECK(client.read_command().opaque == 6);
  }

  TEST_CASE("binary headers are answered in kind") {
    Server server;
    const Command answer = server.ask(
        {.code = RequestCode::kGetBrokerClusterInfo, .kind = proto::HeaderKind::kRocketMq});
    CHECK(answer.kind == proto::HeaderKind::kRocketMq);
    CHECK(answer.body == R"({"brokerAddrTable":{},"clusterAddrTable":{}})");
  }

  TEST_CASE("requests of 5.x brokers: heartbeat, member group, topic registration") {
    Server server;
    net::test::RawClient broker = server.connect();
    Server::ask(broker, registration("a", 0, "h:1", body_with({"T"}), "C"));
    Command beat{.code = RequestCode::kBrokerHeartbeat};
    beat.set("brokerAddr", "h:1").set("brokerName", "a").set("clusterName", "C");
    CHECK(Server::ask(broker, beat).code == 0);
    Command group{.code = RequestCode::kGetBrokerMemberGroup};
    group.set("clusterName", "C").set("brokerName", "a");
    CHECK(server.ask(group).body ==
          R"({"brokerMemberGroup":{"brokerAddrs":{0:"h:1"},"brokerName":"a","cluster":"C"}})");
    Command topic{.code = RequestCode::kRegisterTopicInNamesrv};
    topic.set("topic", "N");
    topic.body = proto::encode(
        proto::TopicRoute{.queues = {{.broker_name = "a", .read_queue_count = 1}}}, true);
    CHECK(server.ask(topic).code == 0);
    Command route{.code = RequestCode::kGetRouteinfoByTopic};
    route.set("topic", "N");
    CHECK(server.ask(route).code == 0);
  }

  TEST_CASE("a taken port is a start-up error that names it; start and stop are quick") {
    Server first;
    NamesrvConfig config;
    config.listen_host = "127.0.0.1";
    config.listen_port = first.server->port();
    const auto second = NameServer::start(config);
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().code == Errc::kConflict);
    CHECK(second.error().detail.find(std::to_string(config.listen_port)) != std::string::npos);
    first.server->stop();
    const auto third = NameServer::start(config);
    CHECK(third.has_value());
  }

  TEST_CASE("it runs on threads of somebody else") {
    auto pool = net::IoPool::start({.threads = 2}).value();
    NamesrvConfig config;
    config.listen_host = "127.0.0.1";
    config.listen_port = 0;
    auto server = NameServer::start(config, pool.get()).value();
    net::test::RawClient client(server->port());
    CHECK(Server::ask(client, {.code = RequestCode::kGetBrokerClusterInfo}).code == 0);
    server.reset();
    CHECK(client.at_end());
  }
}
