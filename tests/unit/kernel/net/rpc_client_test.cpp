#include "black_hole.h"

#include <map>

using namespace tenon;
using namespace tenon::net;
using namespace tenon::net::test;

namespace {

struct Client {
  explicit Client(RpcClientOptions options = {},
                  ConnectionHandler* requests = nullptr,
                  std::size_t threads = 1)
      : pool(IoPool::start({.threads = threads, .name = "cli"}).value()),
        rpc(RpcClient::create(*pool, options, requests)) {}
  ~Client() {
    rpc->stop();
    pool->stop();
  }
  std::unique_ptr<IoPool> pool;
  std::unique_ptr<RpcClient> rpc;
};

/// An address at which nobody listens.
std::string dead_address() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&at), size) == 0);
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0);
  ::close(fd);
  return "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
}

/// Collects how calls ended.
struct Outcomes : Waiter {
  std::map<Errc, int> errors{};
  int answers = 0;
  std::size_t total = 0;
  RpcCallback callback() {
    return [this](Result<RpcAnswer> r) {
      change([&] {
        ++total;
        if (r) {
          ++answers;
        } else {
          ++errors[r.error().code];
        }
      });
    };
  }
  bool wait_for(std::size_t count) {
    return wait([&] { return total >= count; });
  }
};

void ignore_all(TestServer& server) {
  server.handler.on_command =
      [](const ConnectionPtr&, const proto::CommandView&, const BufferRef&) {};
}

}  // namespace

TEST_SUITE("net/rpc_client") {
  TEST_CASE("a blocking call gets its answer, by numeric address and by name") {
    TestServer server;
    Client client;
    for (const std::string& host : {std::string("127.0.0.1"), std::string("localhost")}) {
      const auto answer = client.rpc->call_blocking(
          host + ":" + std::to_string(server.port()), {.code = 5, .body = "hello"}, 5s);
      REQUIRE(answer.has_value());
      CHECK(answer.value().body == "hello");
      CHECK(answer.value().flag == proto::kFlagResponse);
    }
  }

  TEST_CASE("calls of many threads all get their own answer over one connection") {
    TestServer server(2);
    Client client;
    const std::string address = server.address();
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i) {
          const std::string body = std::to_string(t * 1000 + i) + std::string(100, '.');
          const auto answer = client.rpc->call_blocking(address, {.code = 1, .body = body}, 20s);
          if (!answer || answer.value().body != body) {
            ++wrong;
          }
        }
      });
    }
    for (auto& t : threads) {
      t.join();
    }
    CHECK(wrong == 0);
    CHECK(server.handler.opened_count() == 1);
  }

  TEST_CASE("a call started by the callback of another one works, and many in flight do") {
    TestServer server;
    Client client;
    const std::string address = server.address();
    Outcomes done;
    std::atomic<int> left{20'000};
    std::function<void()> next = [&] {
      if (left.fetch_sub(1) <= 0) {
        done.change([&] { ++done.total; });
        return;
      }
      client.rpc->call(
          address,
          [](std::string& out, std::int32_t opaque) { out += frame(1, opaque, "b"); },
          20s,
          [&](Result<RpcAnswer> r) {
            CHECK(r.has_value());
            next();
          });
    };
    for (int i = 0; i < 64; ++i) {
      next();
    }
    REQUIRE(done.wait_for(64));
    CHECK(server.handler.command_count() == 20'000);
  }

  TEST_CASE("answers in any order find their calls") {
    TestServer server;
    std::vector<std::pair<ConnectionPtr, proto::Command>> asked;
    server.handler.on_command =
        [&](const ConnectionPtr& c, const proto::CommandView& v, const BufferRef&) {
          asked.emplace_back(c, proto::Command::from(v));
          if (asked.size() == 10) {
            for (auto it = asked.rbegin(); it != asked.rend(); ++it) {
              it->first->send(frame(0, it->second.opaque, it->second.body, proto::kFlagResponse));
            }
          }
        };
    Client client;
    Outcomes done;
    for (int i = 0; i < 10; ++i) {
      const std::string body = std::to_string(i);
      client.rpc->call(
          server.address(), {.code = 1, .body = body}, 20s, [&, body](Result<RpcAnswer> r) {
            CHECK(r.has_value());
            CHECK(proto::Command::from(*r.value().command).body == body);
            done.change([&] { ++done.total; });
          });
    }
    REQUIRE(done.wait_for(10));
  }

  TEST_CASE("a call without answer times out, a late answer is dropped, others are not disturbed") {
    TestServer server;
    std::atomic<std::int32_t> late{0};
    server.handler.on_command =
        [&](const ConnectionPtr& c, const proto::CommandView& v, const BufferRef&) {
          if (v.code == 1) {
            late = v.opaque;
          } else {
            if (v.code == 3) {
              c->send(frame(0, late, "late", proto::kFlagResponse));
            }
            echo(c->out(), v);
          }
        };
    Client client;
    Outcomes done;
    const auto start = std::chrono::steady_clock::now();
    client.rpc->call(server.address(), {.code = 2}, 20s, done.callback());
    client.rpc->call(server.address(), {.code = 1}, 80ms, done.callback());
    REQUIRE(done.wait_for(2));
    CHECK(std::chrono::steady_clock::now() - start >= 80ms);
    CHECK(done.errors == std::map<Errc, int>{{Errc::kTimeout, 1}});
    CHECK(
        client.rpc->call_blocking(server.address(), {.code = 3, .body = "own"}, 20s).value().body ==
        "own");
    CHECK(server.handler.opened_count() == 1);
  }

  TEST_CASE("timeouts of different length fire in their order") {
    TestServer server;
    ignore_all(server);
    Client client;
    Outcomes done;
    std::string order;
    const auto call = [&](char name, std::chrono::milliseconds timeout) {
      client.rpc->call(server.address(), {.code = 1}, timeout, [&, name](Result<RpcAnswer>) {
        done.change([&] {
          order += name;
          ++done.total;
        });
      });
    };
    call('c', 150ms);
    call('a', 30ms);
    call('b', 90ms);
    REQUIRE(done.wait_for(3));
    CHECK(order == "abc");
  }

  TEST_CASE("without a server the call says at once that nothing was sent") {
    Client client;
    const auto r = client.rpc->call_blocking(dead_address(), {.code = 1}, 20s);
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().code == Errc::kNotReady);
    CHECK(r.error().detail.find("127.0.0.1") != std::string::npos);
    CHECK(client.rpc->call_blocking("no port", {.code = 1}, 20s).error().code == Errc::kNotReady);
    CHECK(client.rpc->call_blocking("host.invalid:1", {.code = 1}, 20s).error().code ==
          Errc::kNotReady);
  }

  TEST_CASE("a call that runs out of time before there is a connection was never sent") {
    const BlackHole hole;
    Client client({.connect_timeout = 300ms});
    Outcomes done;
    client.rpc->call(hole.address(), {.code = 1}, 50ms, done.callback());
    client.rpc->call(hole.address(), {.code = 1}, 20s, done.callback());
    REQUIRE(done.wait_for(2));
    CHECK(done.errors == std::map<Errc, int>{{Errc::kNotReady, 2}});
  }

  TEST_CASE("a lost connection ends the calls in flight, the next call connects anew") {
    TestServer server;
    server.handler.on_command =
        [&](const ConnectionPtr& c, const proto::CommandView& v, const BufferRef&) {
          if (v.code == 1) {
            c->close(CloseReason::kLocal);
          } else {
            echo(c->out(), v);
          }
        };
    Client client;
    for (int i = 0; i < 20; ++i) {
      const auto lost = client.rpc->call_blocking(server.address(), {.code = 1}, 20s);
      REQUIRE_FALSE(lost.has_value());
      CHECK(lost.error().code == Errc::kClosed);
      CHECK(client.rpc->call_blocking(server.address(), {.code = 2}, 20s).has_value());
    }
  }

  TEST_CASE("disconnect ends the calls in flight and the address stays usable") {
    TestServer server;
    ignore_all(server);
    Client client;
    Outcomes done;
    client.rpc->call(server.address(), {.code = 1}, 20s, done.callback());
    REQUIRE(server.handler.wait([&] { return server.handler.commands == 1; }));
    client.rpc->disconnect(server.address());
    client.rpc->disconnect("unknown:1");
    REQUIRE(done.wait_for(1));
    CHECK(done.errors == std::map<Errc, int>{{Errc::kClosed, 1}});
    client.rpc->call(server.address(), {.code = 1}, 20s, done.callback());
    CHECK(server.handler.wait([&] { return server.handler.commands == 2; }));
    client.rpc->stop();
  }

  TEST_CASE("stop cancels every call once, and later calls too") {
    TestServer server;
    ignore_all(server);
    Client client({}, nullptr, 2);
    Outcomes done;
    std::atomic<bool> go_on{true};
    std::vector<std::thread> threads;
    std::atomic<std::size_t> started{0};
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        while (go_on) {
          ++started;
          client.rpc->call(server.address(), {.code = 1}, 20s, done.callback());
        }
      });
    }
    REQUIRE(server.handler.wait([&] { return server.handler.commands > 500; }));
    client.rpc->stop();
    go_on = false;
    for (auto& t : threads) {
      t.join();
    }
    client.rpc->stop();
    REQUIRE(done.wait_for(started));
    CHECK(done.total == started);
    CHECK(done.answers == 0);
    CHECK(done.errors.size() == (done.errors.contains(Errc::kBusy) ? 2u : 1u));
    CHECK(done.errors[Errc::kCancelled] > 0);
    const auto late = client.rpc->call_blocking(server.address(), {.code = 1}, 20s);
    CHECK(late.error().code == Errc::kCancelled);
  }

  TEST_CASE("a pool that stops first ends the calls too") {
    TestServer server;
    ignore_all(server);
    Client client;
    Outcomes done;
    client.rpc->call(server.address(), {.code = 1}, 20s, done.callback());
    REQUIRE(server.handler.wait([&] { return server.handler.commands == 1; }));
    client.pool->stop();
    CHECK(done.total == 1);
    client.rpc->call(server.address(), {.code = 1}, 20s, done.callback());
    CHECK(done.total == 2);
    client.rpc->stop();
  }

  TEST_CASE("too many calls in flight are refused") {
    TestServer server;
    ignore_all(server);
    Client client({.in_flight_max = 10});
    Outcomes done;
    for (int i = 0; i < 11; ++i) {
      client.rpc->call(server.address(), {.code = 1}, 20s, done.callback());
    }
    REQUIRE(done.wait_for(1));
    CHECK(done.errors == std::map<Errc, int>{{Errc::kBusy, 1}});
    client.rpc->stop();
    CHECK(done.total == 11);
  }

  TEST_CASE("lanes have their own connections") {
    TestServer server;
    Client client({.connections_per_address = 3});
    Outcomes done;
    for (std::size_t lane = 0; lane < 9; ++lane) {
      client.rpc->call(
          server.address(),
          [](std::string& out, std::int32_t opaque) { out += frame(1, opaque); },
          20s,
          done.callback(),
          lane);
    }
    REQUIRE(done.wait_for(9));
    CHECK(done.answers == 9);
    CHECK(server.handler.opened_count() == 3);
  }

  TEST_CASE("one-way requests arrive and need no answer") {
    TestServer server;
    Client client;
    for (int i = 0; i < 100; ++i) {
      client.rpc->oneway(server.address(), {.code = 7});
    }
    CHECK(server.handler.wait([&] { return server.handler.commands == 100; }));
  }

  TEST_CASE("large requests and answers pass, many at a time") {
    TestServer server;
    Client client;
    Outcomes done;
    const std::string body(3'000'000, 'z');
    for (int i = 0; i < 12; ++i) {
      client.rpc->call(server.address(), {.code = 1, .body = body}, 60s, [&](Result<RpcAnswer> r) {
        CHECK((r && r.value().command->body.size() == body.size()));
        done.change([&] { ++done.total; });
      });
    }
    REQUIRE(done.wait_for(12));
  }
}

TEST_SUITE("net/reverse_calls") {
  struct Caller final : ConnectionHandler {
    std::unique_ptr<ReverseCalls> calls = ReverseCalls::create();
    TestHandler inner{};
    void on_open(const ConnectionPtr& c) override { inner.on_open(c); }
    void on_commands(const ConnectionPtr& connection,
                     std::span<const proto::CommandView> commands,
                     const BufferRef& keep) override {
      for (const auto& c : commands) {
        if (!calls->on_response(connection, c, keep)) {
          inner.on_commands(connection, std::span(&c, 1), keep);
        }
      }
    }
    void on_close(const ConnectionPtr& c, CloseReason r) override {
      calls->on_close(c);
      inner.on_close(c, r);
    }
  };

  TEST_CASE("a server calls its client over the client's connection while the client calls it") {
    auto pool = IoPool::start({}).value();
    Caller caller;
    auto server = Server::listen(*pool, {.host = "127.0.0.1"}, caller).value();
    const std::string address = "127.0.0.1:" + std::to_string(server->port());
    TestHandler requests;
    Outcomes done;
    {
      Client client({}, &requests);
      REQUIRE(client.rpc->call_blocking(address, {.code = 1}, 20s).has_value());
      const ConnectionPtr c = caller.inner.first_connection();
      // Both sides count their opaques from the same number: only the response bit tells them apart.
      for (int i = 0; i < 50; ++i) {
        caller.calls->call(c, {.code = 39, .body = "check"}, 20s, done.callback());
        client.rpc->call(address, {.code = 1}, 20s, done.callback());
      }
      caller.calls->oneway(c, {.code = 40});
      REQUIRE(done.wait_for(100));
      CHECK(done.answers == 100);
      CHECK(requests.wait([&] { return requests.commands == 51; }));
    }
    CHECK(requests.wait([&] { return requests.closed.size() == 1; }));
    caller.inner.change([&] { caller.inner.opened.clear(); });
    server->stop();
  }

  TEST_CASE("without a handler the client answers requests with code 3") {
    auto pool = IoPool::start({}).value();
    Caller caller;
    auto server = Server::listen(*pool, {.host = "127.0.0.1"}, caller).value();
    Client client;
    Waiter waiter;
    std::int32_t code = -1;
    REQUIRE(
        client.rpc->call_blocking("127.0.0.1:" + std::to_string(server->port()), {.code = 1}, 20s)
            .has_value());
    caller.calls->call(
        caller.inner.first_connection(), {.code = 39}, 20s, [&](Result<RpcAnswer> r) {
          waiter.change([&] { code = r ? r.value().command->code : -2; });
        });
    REQUIRE(waiter.wait([&] { return code != -1; }));
    CHECK(code == 3);
    client.rpc->stop();
    caller.inner.change([&] { caller.inner.opened.clear(); });
    server->stop();
  }

  TEST_CASE("a reverse call ends by timeout, by the end of the connection and after it") {
    auto pool = IoPool::start({}).value();
    Caller caller;
    auto server = Server::listen(*pool, {.host = "127.0.0.1"}, caller).value();
    Outcomes done;
    auto client = std::make_unique<RawClient>(server->port());
    const ConnectionPtr c = caller.inner.first_connection();
    caller.calls->call(c, {.code = 39}, 30ms, done.callback());
    REQUIRE(done.wait_for(1));
    CHECK(done.errors[Errc::kTimeout] == 1);
    caller.calls->call(c, {.code = 39}, 20s, done.callback());
    client.reset();
    REQUIRE(done.wait_for(2));
    CHECK(done.errors[Errc::kClosed] == 1);
    caller.calls->call(c, {.code = 39}, 20s, done.callback());
    REQUIRE(done.wait_for(3));
    CHECK(done.errors[Errc::kClosed] == 2);
    server->stop();
  }
}
