// Hooks around requests (client §4.15, RPCHook).
#include "client_core.h"
#include "fake_cluster.h"
#include "producer_core.h"

#include "tenon/base/endian.h"
#include "tenon/proto/acl.h"

#include <doctest/doctest.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;
namespace proto = tenon::proto;
using proto::RequestCode;

namespace {

Message message() {
  Message m;
  m.topic = "T";
  m.body = "body";
  return m;
}

struct Fixture {
  explicit Fixture(ClientOptions options, const tenon::Clock* clock = nullptr) {
    cluster.add_topic("T", {"a"}, 1);
    client = cluster.client(clock, std::move(options));
    producer = detail::ProducerCore::create(*client, {.group = "pg", .retries = 0}).value();
    client->add(producer).value();
  }
  ~Fixture() { producer->stop(); }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  FakeCluster cluster;
  std::shared_ptr<detail::ClientCore> client;
  std::shared_ptr<detail::ProducerCore> producer;
};

}  // namespace

TEST_SUITE("sdk/rpc_hook") {
  TEST_CASE("every request is seen before it is written, its answer when it comes") {
    tenon::ManualClock clock;
    std::mutex mutex;
    std::vector<std::string> seen;
    const auto note = [&](std::string text) {
      const std::scoped_lock lock(mutex);
      seen.push_back(std::move(text));
    };
    ClientOptions options;
    options.rpc_hooks.push_back(
        {.before =
             [&](const RpcRequest& r, auto&) {
               note("before " + std::to_string(r.code) + " " + std::string(r.address) + " " +
                    std::string(r.field("b").value_or("-")) + " " + std::string(r.body) +
                    (r.oneway ? " oneway" : ""));
             },
         .after =
             [&](const RpcRequest& r,
                 const Result<RpcResponse>& answer,
                 std::chrono::milliseconds cost) {
               CHECK(cost == 7ms);
               note("after " + std::to_string(r.code) + " " + std::to_string(answer->code) + " " +
                    std::string(answer->remark) + " " +
                    std::string(answer->field("queueId").value_or("-")));
             }});
    Fixture f(options, &clock);
    f.cluster.set_hook([&](const Request&) -> std::optional<Outcome> {
      clock.advance_ms(7);
      return std::nullopt;
    });
    REQUIRE(f.producer->send(message(), {}).has_value());
    f.cluster.set_hook([&](const Request& r) -> std::optional<Outcome> {
      clock.advance_ms(7);
      return r.oneway ? std::nullopt : std::optional(Outcome::code(13, "no"));
    });
    CHECK(f.producer->send(message(), {}).error().response == 13);
    CHECK(f.producer->send_oneway(message(), {}).has_value());
    const std::scoped_lock lock(mutex);
    const std::vector<std::string> expected{"before 105 ns:9876 - ",
                                            "after 105 0  -",
                                            "before 310 a:10911 T body",
                                            "after 310 0  0",
                                            "before 310 a:10911 T body",
                                            "after 310 13 no -",
                                            "before 310 a:10911 T body oneway"};
    CHECK(seen == expected);
  }

  TEST_CASE("fields are added once, under the signature, and replace nothing") {
    ClientOptions options;
    options.credentials = {"key", "secret", ""};
    options.stream_requests = true;
    options.rpc_hooks.push_back({.before = [](const RpcRequest& r, auto& add) {
      CHECK(r.field("ReqT") == "0");
      CHECK_FALSE(r.field("Signature").has_value());
      add["token"] = "first";
      add["a"] = "another group";
      add["topic"] = "another topic";
      add[""] = "no name";
    }});
    options.rpc_hooks.push_back({.before = [](const RpcRequest& r, auto& add) {
      CHECK(r.field("token") == "first");
      add["token"] = "second";
      add["more"] = std::string(r.field("token").value_or(""));
    }});
    options.rpc_hooks.push_back({});
    for (const auto encoding : {HeaderEncoding::kBinary, HeaderEncoding::kJson}) {
      options.header_encoding = encoding;
      Fixture f(options);
      REQUIRE(f.producer->send(message(), {}).has_value());
      const auto route = f.cluster.requests(RequestCode::kGetRouteinfoByTopic).at(0).command;
      CHECK(route.field("topic") == "T");
      const auto send = f.cluster.requests(RequestCode::kSendMessageV2).at(0).command;
      CHECK(send.field("a") == "pg");
      CHECK(send.field("topic") == "another topic");
      CHECK_FALSE(send.field("").has_value());
      for (const proto::Command& c : {route, send}) {
        CHECK(c.field("token") == "first");
        CHECK(c.field("more") == "first");
        std::vector<proto::Field> fields;
        for (const auto& [name, value] : c.fields) {
          if (name != proto::kAclSignature) {
            fields.push_back({name, value});
          }
        }
        CHECK(c.field(proto::kAclSignature) ==
              proto::acl_signature("secret", fields, tenon::as_bytes(c.body)));
      }
    }
  }

  TEST_CASE("what a hook throws changes nothing; a failed call is told as an error") {
    std::atomic<int> failed{0};
    ClientOptions options;
    options.rpc_hooks.push_back({.before =
                                     [](const RpcRequest&, auto& add) {
                                       add["kept"] = "yes";
                                       throw std::runtime_error("before");
                                     },
                                 .after =
                                     [&](const RpcRequest& r,
                                         const Result<RpcResponse>& answer,
                                         std::chrono::milliseconds) {
                                       if (!answer) {
                                         CHECK(answer.error().is(Errc::kClosed));
                                         CHECK(answer.error().outcome_unknown);
                                         CHECK(answer.error().broker == r.address);
                                         ++failed;
                                       }
                                       throw 1;
                                     }});
    Fixture f(options);
    REQUIRE(f.producer->send(message(), {}).has_value());
    CHECK(f.cluster.requests(RequestCode::kSendMessageV2).at(0).command.field("kept") == "yes");
    f.cluster.set_hook([](const Request& r) -> std::optional<Outcome> {
      return r.command.code == RequestCode::kSendMessageV2
                 ? std::optional(Outcome::fail(tenon::Errc::kClosed))
                 : std::nullopt;
    });
    CHECK(f.producer->send(message(), {}).error().is(Errc::kClosed));
    CHECK(failed == 1);
  }
}
