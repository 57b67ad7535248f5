#include "consumer_core.h"
#include "fake_cluster.h"
#include "paths.h"
#include "producer_core.h"

#include "tenon/sdk/client.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;

TEST_SUITE("sdk/client_config") {
  TEST_CASE("every option can stand in a file") {
    const auto o = ClientOptions::from_toml_text(R"(
name_servers = "10.0.0.1:9876;10.0.0.2:9876"
name_server_url = "http://ns.example/nsaddr"
io_threads = 2
connections_per_broker = 3
instance_name = "i"
client_ip = "10.0.0.9"
unit_name = "u"
namespace = "ns"
stream_requests = true
header_encoding = "json"
plugin_dirs = ["/opt/strategies"]
route_refresh_ms = "10s"
heartbeat_ms = 20000
api_timeout_ms = 1500
connect_timeout_ms = 500
switch_after_ms = 250

[credentials]
access_key = "a"
secret_key = "s"
security_token = "t"
file = "/etc/key.yml"

[tls]
enabled = true
verify = false
ca_file = "ca.pem"
check_name = false
server_name = "broker"
certificate_file = "me.pem"
key_file = "me.key"
key_password = "secret"

[trace]
enabled = true
topic = "Traces"

[strategies]
selector = "tenon.selector.latency"
allocator = "AVG_BY_CIRCLE"
)")
                       .value();
    CHECK(o.name_servers == "10.0.0.1:9876;10.0.0.2:9876");
    CHECK(o.name_server_url == "http://ns.example/nsaddr");
    CHECK(o.io_threads == 2);
    CHECK(o.connections_per_broker == 3);
    CHECK(o.instance_name == "i");
    CHECK(o.client_ip == "10.0.0.9");
    CHECK(o.unit_name == "u");
    CHECK(o.name_space == "ns");
    CHECK(o.stream_requests);
    CHECK(o.header_encoding == HeaderEncoding::kJson);
    CHECK(o.plugin_dirs == std::vector<std::string>{"/opt/strategies"});
    CHECK(o.route_refresh == 10s);
    CHECK(o.heartbeat == 20s);
    CHECK(o.api_timeout == 1500ms);
    CHECK(o.connect_timeout == 500ms);
    CHECK(o.switch_after == 250ms);
    CHECK(o.credentials.access_key == "a");
    CHECK(o.credentials.secret_key == "s");
    CHECK(o.credentials.security_token == "t");
    CHECK(o.credentials_file == "/etc/key.yml");
    CHECK(o.tls.enabled);
    CHECK_FALSE(o.tls.verify);
    CHECK(o.tls.ca_file == "ca.pem");
    CHECK_FALSE(o.tls.check_name);
    CHECK(o.tls.server_name == "broker");
    CHECK(o.tls.certificate_file == "me.pem");
    CHECK(o.tls.key_file == "me.key");
    CHECK(o.tls.key_password == "secret");
    CHECK(o.trace.enabled);
    CHECK(o.trace.topic == "Traces");
    CHECK(o.selector == "tenon.selector.latency");
    CHECK(o.allocator == "AVG_BY_CIRCLE");
  }

  TEST_CASE("what a file does not say keeps its default; a file is read as a text is") {
    const auto path = std::filesystem::temp_directory_path() /
                      ("tenon_client_" + std::to_string(getpid()) + ".toml");
    std::ofstream(path) << "name_servers = \"x:1\"\n";
    const auto o = ClientOptions::from_toml(path.string()).value();
    std::filesystem::remove(path);
    const ClientOptions defaults;
    CHECK(o.name_servers == "x:1");
    CHECK(o.header_encoding == defaults.header_encoding);
    CHECK(o.heartbeat == defaults.heartbeat);
    CHECK(o.credentials.empty());
    CHECK_FALSE(o.tls.enabled);
    CHECK(o.tls.verify);
    CHECK(ClientOptions::from_toml(path.string()).error().is(Errc::kInvalidArgument));
  }

  TEST_CASE("the file of the examples is one") {
    const auto o =
        ClientOptions::from_toml(tenon::test::data_dir() + "/../../sdk/examples/client.toml");
    REQUIRE(o.has_value());
    CHECK(o->tls.enabled);
    CHECK(o->selector == "tenon.selector.least-in-flight");
  }

  TEST_CASE("all mistakes are named with their place") {
    const auto r = ClientOptions::from_toml_text(
        "name_server = \"x:1\"\nio_threads = 65\n[tls]\nenabled = \"yes\"\n");
    REQUIRE(r.error().is(Errc::kInvalidArgument));
    const std::string text = r.error().text();
    CAPTURE(text);
    CHECK(text.find("options:1:1") != std::string::npos);
    CHECK(text.find("name_servers") != std::string::npos);  // what was meant
    CHECK(text.find("options:2:") != std::string::npos);
    CHECK(text.find("options:4:") != std::string::npos);
    CHECK(ClientOptions::from_toml_text("= 1").error().is(Errc::kInvalidArgument));
  }

  TEST_CASE("strategies of the client are those of producers and consumers that name none") {
    FakeCluster cluster;
    ClientOptions o;
    o.selector = "nobody.selector";
    o.allocator = "NOBODYS";
    auto client = cluster.client(nullptr, o);
    CHECK(detail::ProducerCore::create(*client, {}).error().is(Errc::kNotFound));
    ProducerOptions tolerant;  // built in, and not together with a selector
    tolerant.fault_tolerance = FaultTolerance::kQuick;
    CHECK(detail::ProducerCore::create(*client, tolerant).has_value());
    PushConsumerOptions consumer;
    consumer.group = "g";
    consumer.subscriptions["T"] = Subscription();
    const auto nothing = [](std::span<const MessageView>) { return Ack::success(); };
    CHECK(detail::ConsumerCore::create(*client, consumer, nothing).error().is(Errc::kNotFound));
    consumer.allocator = "AVG";
    CHECK(detail::ConsumerCore::create(*client, consumer, nothing).has_value());
  }

  TEST_CASE("files of TLS that are not there are an error of connect()") {
    ClientOptions o;
    o.name_servers = "127.0.0.1:1";
    o.tls.enabled = true;
    o.tls.ca_file = "/nonexistent/ca.pem";
    const auto r = Client::connect(o);
    REQUIRE(r.error().is(Errc::kInvalidArgument));
    CHECK(r.error().text().find("/nonexistent/ca.pem") != std::string::npos);
    o.tls.ca_file.clear();
    o.tls.certificate_file = "/nonexistent/me.pem";
    CHECK(Client::connect(o).error().is(Errc::kInvalidArgument));  // without its key
    o.tls.key_file = "/nonexistent/me.key";
    CHECK(Client::connect(o).error().is(Errc::kInvalidArgument));
  }
}
