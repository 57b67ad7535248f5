#include "net_fixture.h"

using namespace tenon;
using namespace tenon::net;
using namespace tenon::net::test;

namespace {

struct Client {
  explicit Client(RpcClientOptions options = {}, ConnectionHandler* requests = nullptr)
      : pool(IoPool::start({.threads = 1, .name = "cli"}).value()),
        rpc(RpcClient::create(*pool, options, requests)) {}
  ~Client() {
    rpc->stop();
    pool->stop();
  }
  std::unique_ptr<IoPool> pool;
  std::unique_ptr<RpcClient> rpc;
};

}  // namespace

TEST_SUITE("net/rpc_client") {
  TEST_CASE("a blocking call gets its answer") {
    TestServer server;
    Client client;
    const auto answer =
        client.rpc->call_blocking(server.address(), {.code = 5, .body = "hello"}, 5s);
    REQUIRE(answer.has_value());
    CHECK(answer.value().body == "hello");
    CHECK(answer.value().flag == proto::kFlagResponse);
  }
}
