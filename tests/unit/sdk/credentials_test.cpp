#include "consumer_core.h"
#include "fake_cluster.h"
#include "producer_core.h"

#include "tenon/base/endian.h"
#include "tenon/proto/acl.h"
#include "tenon/sdk/client.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <unistd.h>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
namespace proto = tenon::proto;
using proto::RequestCode;

namespace {

/// A file that goes away with the test.
class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("tenon_credentials_" + std::to_string(getpid()))) {
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Set while the object lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value)
      : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

std::string signature_of(const proto::Command& c, std::string_view secret) {
  std::vector<proto::Field> fields;
  for (const auto& [key, value] : c.fields) {
    fields.push_back({key, value});
  }
  return proto::acl_signature(secret, fields, tenon::as_bytes(c.body));
}

ClientOptions signing() {
  ClientOptions o;
  o.credentials = {"RocketMQ", "12345678", ""};
  return o;
}

Result<Receipt> send(detail::ClientCore& client, const std::string& body) {
  ProducerOptions o;
  o.group = "p";
  auto producer = detail::ProducerCore::create(client, std::move(o)).value();
  Message m;
  m.topic = "T";
  m.body = body;
  auto r = producer->send(std::move(m), {});
  producer->stop();
  return r;
}

Credentials parsed(const std::string& text) {
  const TextFile file(text);
  return Credentials::from_file(file.path()).value();
}

}  // namespace

TEST_SUITE("sdk/credentials") {
  TEST_CASE("every request of every kind is signed, with both header encodings") {
    FakeCluster cluster;  // client §3.5
    cluster.add_topic("T", {"a"}, 1);
    std::set<std::int32_t> codes;
    std::mutex mutex;
    int bad = 0;
    cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      const std::scoped_lock lock(mutex);
      codes.insert(r.command.code);
      const bool good =
          r.command.field("AccessKey") == "RocketMQ" &&
          r.command.field("Signature").value_or("") == signature_of(r.command, "12345678");
      bad += good ? 0 : 1;
      return std::nullopt;
    });
    auto client = cluster.client(nullptr, signing());
    cluster.set_members({client->id()});
    REQUIRE(send(*client, "one").has_value());
    PushConsumerOptions o;
    o.group = "g";
    o.subscriptions["T"] = Subscription();
    o.start = FromFirst{};
    std::atomic<int> seen{0};
    auto consumer = detail::ConsumerCore::create(*client, o, [&](auto) {
                      ++seen;
                      return Ack::success();
                    }).value();
    client->add(consumer).value();
    consumer->start().value();
    CHECK(eventually([&] { return seen == 1; }));
    consumer->stop();
    const std::scoped_lock lock(mutex);
    CHECK(bad == 0);
    for (const std::int32_t code : {RequestCode::kGetRouteinfoByTopic,
                                    RequestCode::kSendMessageV2,
                                    RequestCode::kHeartBeat,
                                    RequestCode::kGetConsumerListByGroup,
                                    RequestCode::kPullMessage,
                                    RequestCode::kUpdateConsumerOffset,
                                    RequestCode::kUnregisterClient}) {
      CAPTURE(code);
      CHECK(codes.count(code) == 1);
    }
  }

  TEST_CASE("a request that is sent again to another queue is signed anew") {
    FakeCluster cluster;  // client §14.11
    cluster.add_topic("T", {"a", "b"}, 1);
    std::atomic<int> attempts{0};
    cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kSendMessageV2 && attempts++ == 0
                 ? std::optional(Outcome::fail(tenon::Errc::kNotReady))
                 : std::nullopt;
    });
    auto client = cluster.client(nullptr, signing());
    REQUIRE(send(*client, "again").has_value());
    const auto sends = cluster.requests(RequestCode::kSendMessageV2);
    REQUIRE(sends.size() == 2);
    CHECK(sends[0].address != sends[1].address);
    CHECK(sends[0].command.field("Signature") != sends[1].command.field("Signature"));
    for (const Request& r : sends) {
      CHECK(r.command.field("Signature").value_or("") == signature_of(r.command, "12345678"));
    }
  }

  TEST_CASE("a security token is sent and signed; a source may change the account") {
    FakeCluster cluster;
    cluster.add_topic("T", {"a"}, 1);
    std::atomic<bool> known{true};
    ClientOptions o;
    o.credentials_from = [&] {
      return known ? Credentials{"temporary", "secret", "token"} : Credentials();
    };
    auto client = cluster.client(nullptr, o);
    REQUIRE(send(*client, "x").has_value());
    const auto first = cluster.requests(RequestCode::kSendMessageV2).back().command;
    CHECK(first.field("SecurityToken") == "token");
    CHECK(first.field("Signature").value_or("") == signature_of(first, "secret"));
    known = false;
    REQUIRE(send(*client, "y").has_value());
    const auto second = cluster.requests(RequestCode::kSendMessageV2).back().command;
    CHECK_FALSE(second.field("AccessKey").has_value());
    CHECK_FALSE(second.field("Signature").has_value());
  }

  TEST_CASE("files: YAML, properties, TOML") {
    const Credentials yaml = parsed("# tools\naccessKey: rocketmq2\nsecretKey: '12345678'\n");
    CHECK(yaml.access_key == "rocketmq2");
    CHECK(yaml.secret_key == "12345678");
    CHECK(yaml.security_token.empty());
    const Credentials properties = parsed("AccessKey=a\r\nSecretKey = b=c#d \nSecurityToken=t\n");
    CHECK(properties.access_key == "a");
    CHECK(properties.secret_key == "b=c#d");
    CHECK(properties.security_token == "t");
    const Credentials toml = parsed("[acl]\naccessKey = \"a # b\" # me\nsecretKey = \"s\"\n");
    CHECK(toml.access_key == "a # b");
    CHECK(toml.secret_key == "s");
    CHECK(Credentials::from_file("/nonexistent/key").error().is(Errc::kInvalidArgument));
    const TextFile half("accessKey: a\n");
    CHECK(Credentials::from_file(half.path()).error().is(Errc::kInvalidArgument));
  }

  TEST_CASE("without any in the options the environment gives them; half of them is an error") {
    CHECK(Credentials::from_environment().value().empty());
    const Variable access("TENON_ACCESS_KEY", "env");
    CHECK(Credentials::from_environment().error().is(Errc::kInvalidArgument));
    {
      const Variable secret("TENON_SECRET_KEY", "s");
      FakeCluster cluster;
      cluster.add_topic("T", {"a"}, 1);
      REQUIRE(send(*cluster.client(), "x").has_value());
      CHECK(cluster.requests(RequestCode::kSendMessageV2).back().command.field("AccessKey") ==
            "env");
      REQUIRE(send(*cluster.client(nullptr, signing()), "y").has_value());
      CHECK(cluster.requests(RequestCode::kSendMessageV2).back().command.field("AccessKey") ==
            "RocketMQ");
    }
    ClientOptions half;
    half.name_servers = "127.0.0.1:1";
    half.credentials.access_key = "only";
    CHECK(Client::connect(half).error().is(Errc::kInvalidArgument));
  }

  TEST_CASE("a file may be named by the environment") {
    const TextFile file("accessKey: f\nsecretKey: s\n");
    const Variable name("TENON_CREDENTIALS_FILE", file.path());
    CHECK(Credentials::from_environment().value().access_key == "f");
  }
}
