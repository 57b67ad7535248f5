// Calls to an address that does not answer at all, and connections that fall silent.
#include "black_hole.h"

#include <map>

using namespace tenon;
using namespace tenon::net;
using namespace tenon::net::test;

namespace {

struct Client {
  explicit Client(RpcClientOptions options = {})
      : pool(IoPool::start({.threads = 1, .name = "cli"}).value()),
        rpc(RpcClient::create(*pool, options)) {}
  ~Client() {
    rpc->stop();
    pool->stop();
  }
  std::unique_ptr<IoPool> pool;
  std::unique_ptr<RpcClient> rpc;
};

struct Outcomes : Waiter {
  std::map<Errc, int> errors{};
  int answers = 0;
  int written = 0;
  RpcCallback callback() {
    return [this](Result<RpcAnswer> r) {
      change([&] {
        if (!r) {
          ++errors[r.error().code];
        } else if (r.value().command == nullptr) {
          ++written;
        } else {
          ++answers;
        }
      });
    };
  }
};

const RpcEncoder kRequest = [](std::string& out, std::int32_t opaque) {
  proto::Command c{.code = 1, .opaque = opaque, .body = std::string(100, 'x')};
  c.encode(out);
};

}  // namespace

TEST_SUITE("net/connect_wait") {
  TEST_CASE("a call gives up after its connect_wait, the next at once; connecting goes on") {
    BlackHole hole;
    Client client({.connect_timeout = 20s});
    Outcomes quick;
    Outcomes patient;
    client.rpc->call(hole.address(), kRequest, 20s, patient.callback(), 0, 0ms);
    client.rpc->call(hole.address(), kRequest, 20s, quick.callback(), 0, 60ms);
    client.rpc->oneway_within(hole.address(), kRequest, 60ms, quick.callback());
    REQUIRE(quick.wait([&] { return quick.errors[Errc::kNotReady] == 2; }));
    client.rpc->call(hole.address(), kRequest, 20s, quick.callback(), 0, 60ms);
    client.rpc->oneway_within(hole.address(), kRequest, 60ms, quick.callback());
    REQUIRE(quick.wait([&] { return quick.errors[Errc::kNotReady] == 4; }, 5s));
    CHECK(patient.errors.empty());
    // Only what still waits is written, when the connection comes.
    CHECK(hole.opens_and_reads(100));
    // Now there is one: no call waits for it.
    client.rpc->oneway_within(hole.address(), kRequest, 60ms, quick.callback());
    CHECK(quick.written == 1);
    client.rpc->stop();
    CHECK(patient.errors == std::map<Errc, int>{{Errc::kCancelled, 1}});
  }

  TEST_CASE("after an attempt that was in vain the next call does not wait again") {
    BlackHole hole;
    Client client({.connect_timeout = 200ms});
    Outcomes done;
    client.rpc->call(hole.address(), kRequest, 20s, done.callback(), 0, 10s);
    REQUIRE(done.wait([&] { return done.errors[Errc::kNotReady] == 1; }));
    // Ten seconds have not passed since the first attempt, a hundred milliseconds have.
    client.rpc->call(hole.address(), kRequest, 20s, done.callback(), 0, 100ms);
    REQUIRE(done.wait([&] { return done.errors[Errc::kNotReady] == 2; }, 5s));
    // That has begun another attempt, in which others wait.
    client.rpc->oneway_within(hole.address(), kRequest, 20s, done.callback());
    REQUIRE(done.wait([&] { return done.errors[Errc::kNotReady] == 3; }));
  }

  TEST_CASE("a call that waited for the connection has the rest of its time for the answer") {
    TestServer server;
    Client client;
    Outcomes done;
    client.rpc->call(server.address(), kRequest, 20s, done.callback(), 0, 10s);
    client.rpc->oneway_within(server.address(), kRequest, 10s, done.callback());
    REQUIRE(done.wait([&] { return done.answers == 1 && done.written == 1; }));
    CHECK(done.errors.empty());
    CHECK(server.handler.wait([&] { return server.handler.commands == 2; }));
  }

  TEST_CASE("a connection that is silent for all the time of a call is given up") {
    TestServer server;
    std::atomic<bool> silent{true};
    server.handler.on_command =
        [&](const ConnectionPtr& c, const proto::CommandView& v, const BufferRef&) {
          if (!silent) {
            c->send(frame(0, v.opaque, "", proto::kFlagResponse));
          }
        };
    Client client;
    Outcomes done;
    client.rpc->call(server.address(), kRequest, 1'100ms, done.callback());
    client.rpc->call(server.address(), kRequest, 20s, done.callback());
    REQUIRE(done.wait([&] { return done.errors[Errc::kClosed] == 1; }));
    CHECK(done.errors[Errc::kTimeout] == 1);
    silent = false;
    client.rpc->call(server.address(), kRequest, 20s, done.callback());
    REQUIRE(done.wait([&] { return done.answers == 1; }));
    CHECK(server.handler.wait([&] { return server.handler.closed.size() == 1; }));
  }

  TEST_CASE("a short time-out, or one while others are answered, gives up nothing") {
    TestServer server;
    server.handler.on_command =
        [&](const ConnectionPtr& c, const proto::CommandView& v, const BufferRef&) {
          if (v.code == 2) {
            c->send(frame(0, v.opaque, "", proto::kFlagResponse));
          }
        };
    Client client;
    Outcomes done;
    client.rpc->call(server.address(), kRequest, 20ms, done.callback());
    REQUIRE(done.wait([&] { return done.errors[Errc::kTimeout] == 1; }));
    client.rpc->call(server.address(), kRequest, 1'100ms, done.callback());
    REQUIRE(client.rpc->call_blocking(server.address(), {.code = 2}, 20s).has_value());
    REQUIRE(done.wait([&] { return done.errors[Errc::kTimeout] == 2; }));
    REQUIRE(client.rpc->call_blocking(server.address(), {.code = 2}, 20s).has_value());
    CHECK(server.handler.opened_count() == 1);
    CHECK(server.handler.wait([&] { return server.handler.closed.empty(); }));
  }
}
