// Limits of connections, and the server as a whole.
#include "net_fixture.h"

#include "tenon/proto/peek.h"

#include <map>

#include <malloc.h>
#include <sys/resource.h>

using namespace tenon;
using namespace tenon::net;
using namespace tenon::net::test;

namespace {

/// Bytes of the heap that are in use; resident memory would hide what was freed by tests before.
std::size_t heap_bytes() {
  return ::mallinfo2().uordblks;
}

}  // namespace

TEST_SUITE("net/connection limits") {
  TEST_CASE("a handler that screens takes frames before they are decoded") {
    /// Takes those whose body is "no" and answers from the whole frame.
    class Screen final : public ConnectionHandler {
     public:
      bool screens(const ConnectionPtr&) override { return on = !on; }
      bool take(const ConnectionPtr& connection, std::span<const std::byte> bytes) override {
        const auto peek = proto::peek_command(bytes);
        if (!peek || bytes.back() != std::byte{'o'}) {
          return false;
        }
        proto::AnswerTemplate({.code = 2, .flag = proto::kFlagResponse})
            .append(connection->out(), peek->opaque);
        return true;
      }
      void on_commands(const ConnectionPtr& connection,
                       std::span<const proto::CommandView> commands,
                       const BufferRef&) override {
        for (const auto& c : commands) {
          echo(connection->out(), c);
        }
      }
      bool on = false;
    } screen;
    auto pool = IoPool::start({.threads = 1, .name = "scr"}).value();
    auto server = Server::listen(*pool, {.host = "127.0.0.1"}, screen).value();
    {
      RawClient client(server->port());
      for (const std::int32_t code : {2, 0}) {  // the second read is not screened
        REQUIRE(client.write(frame(1, 7, "yes") + frame(1, 8, "no") + frame(1, 9, "yes")));
        std::map<std::int32_t, std::int32_t> answers;
        for (int i = 0; i < 3; ++i) {
          const proto::Command c = client.read_command();
          answers[c.opaque] = c.code;
        }
        CHECK(answers == std::map<std::int32_t, std::int32_t>{{7, 0}, {8, code}, {9, 0}});
      }
    }
    server->stop();
    pool->stop();
  }

  TEST_CASE("a client that does not read stops being read, and its memory is bounded") {
    ConnectionLimits limits;
    limits.out_pause_bytes = 1u << 20;
    TestServer server(1, limits);
    RawClient client(server.port(), 16 * 1024);
    const std::string request = frame(1, 1, std::string(60'000, 'x'));
    // Until nothing moves any more: the server has paused and the sockets' buffers are full.
    std::size_t written = 0;
    std::size_t offset = 0;
    ConnectionPtr connection = server.handler.first_connection();
    auto last = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - last < 300ms && written < 200'000'000) {
      const ssize_t n = client.write_some(std::string_view(request).substr(offset));
      if (n > 0) {
        written += static_cast<std::size_t>(n);
        offset = (offset + static_cast<std::size_t>(n)) % request.size();
        last = std::chrono::steady_clock::now();
      }
    }
    CHECK(written < 100'000'000);
    CHECK(connection->queued_bytes() >= limits.out_pause_bytes);
    CHECK(connection->queued_bytes() < 4 * limits.out_pause_bytes);
    // Another client is not disturbed, and this one goes on when it reads again.
    RawClient other(server.port());
    REQUIRE(other.write(frame(1, 5)));
    CHECK(other.read_command().opaque == 5);
    std::size_t answers = 0;
    std::thread rest([&] {
      std::string left = offset == 0 ? "" : request.substr(offset);
      client.write(left + frame(1, 99, "end"));
    });
    for (;;) {
      const proto::Command c = client.read_command();
      REQUIRE(c.code == 0);
      if (c.opaque == 99) {
        break;
      }
      ++answers;
    }
    rest.join();
    CHECK(answers == (written + request.size() - 1) / request.size());
  }

  TEST_CASE("a peer that reads nothing for too long is closed") {
    CountingSink log;
    ConnectionLimits limits;
    limits.slow_reader_timeout = 100ms;
    TestServer server(1, limits);
    RawClient client(server.port(), 16 * 1024);
    const ConnectionPtr connection = server.handler.first_connection();
    int released = 0;
    OutFrame f;
    f.head = std::string(30'000'000, 'x');
    f.release = [&] { server.handler.change([&] { ++released; }); };
    connection->send(std::move(f));
    REQUIRE(server.handler.wait([&] { return !server.handler.closed.empty() && released == 1; }));
    CHECK(server.handler.close_reasons()[0] == CloseReason::kSlowReader);
    CHECK(log.lines == 1);
  }

  TEST_CASE("a peer is closed when more is unsent than the limit allows") {
    ConnectionLimits limits;
    limits.out_max_bytes = 1'000'000;
    TestServer server(1, limits);
    RawClient client(server.port(), 16 * 1024);
    const ConnectionPtr connection = server.handler.first_connection();
    for (int i = 0; i < 100 && connection->is_open(); ++i) {
      connection->send(std::string(500'000, 'x'));
    }
    REQUIRE(server.handler.wait([&] { return !server.handler.closed.empty(); }));
    CHECK(server.handler.close_reasons()[0] == CloseReason::kSlowReader);
  }

  TEST_CASE("when all together have too much unsent, each may have little") {
    ConnectionLimits limits;
    limits.shared = std::make_shared<SharedMemory>();
    limits.shared->unsent_max_bytes = 4u << 20;
    TestServer server(1, limits);
    RawClient hog(server.port(), 16 * 1024);
    const ConnectionPtr full = server.handler.first_connection();
    full->send(std::string(30'000'000, 'x'));
    CHECK(limits.shared->unsent.load() > 4u << 20);
    // Another one, far below its own limit, is not read any more with 64 KiB unsent.
    RawClient client(server.port(), 16 * 1024);
    const std::string request = frame(1, 1, std::string(60'000, 'x'));
    std::size_t written = 0;
    std::size_t offset = 0;
    auto last = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - last < 300ms && written < 100'000'000) {
      const ssize_t n = client.write_some(std::string_view(request).substr(offset));
      if (n > 0) {
        written += static_cast<std::size_t>(n);
        offset = (offset + static_cast<std::size_t>(n)) % request.size();
        last = std::chrono::steady_clock::now();
      }
    }
    ConnectionPtr second;
    server.handler.change([&] { second = server.handler.opened.at(1); });
    CHECK(second->queued_bytes() >= SharedMemory::kUnsentShareBytes);
    CHECK(second->queued_bytes() < limits.out_pause_bytes / 2);
    // What is closed counts no more, and the other one goes on.
    full->close(CloseReason::kLocal);
    second.reset();
    std::thread rest(
        [&] { client.write((offset == 0 ? "" : request.substr(offset)) + frame(1, 99, "end")); });
    for (proto::Command c; c.opaque != 99;) {
      c = client.read_command();
      REQUIRE(c.code == 0);
    }
    rest.join();
    CHECK(Waiter::poll([&] { return limits.shared->unsent.load() == 0; }));
  }

  TEST_CASE("large frames that are not complete share a bound; who comes later waits") {
    ConnectionLimits limits;
    limits.shared = std::make_shared<SharedMemory>();
    limits.shared->receive_max_bytes = 3u << 20;
    TestServer server(1, limits);
    const std::string large = frame(1, 7, std::string(2u << 20, 'x'));
    RawClient slow(server.port());
    REQUIRE(slow.write(std::string_view(large).substr(0, 100'000)));
    REQUIRE(Waiter::poll([&] { return limits.shared->receiving.load() == large.size(); }));
    RawClient next(server.port());
    std::thread writer([&] { next.write(large); });
    RawClient small(server.port());
    REQUIRE(small.write(frame(1, 5)));
    CHECK(small.read_command().opaque == 5);  // small ones need no room
    CHECK(next.read(1, 100ms).empty());
    CHECK(limits.shared->receiving.load() == large.size());
    SUBCASE("until the first one is complete") {
      REQUIRE(slow.write(std::string_view(large).substr(100'000)));
      CHECK(slow.read_command().body.size() == 2u << 20);
    }
    SUBCASE("until the first one is gone") {
      slow.close();
    }
    CHECK(next.read_command().body.size() == 2u << 20);
    writer.join();
    CHECK(limits.shared->receiving.load() == 0);
  }

  TEST_CASE("a connection is closed after the idle time, counted from the last byte") {
    ConnectionLimits limits;
    limits.idle_timeout = 150ms;
    TestServer server(1, limits);
    const auto start = std::chrono::steady_clock::now();
    RawClient quiet(server.port());
    RawClient busy(server.port());
    CHECK(quiet.at_end());
    CHECK(std::chrono::steady_clock::now() - start >= 140ms);
    const auto last = std::chrono::steady_clock::now();
    if (busy.write(frame(1, 1))) {
      busy.read_command();
    }
    CHECK(busy.at_end());
    REQUIRE(server.handler.wait([&] { return server.handler.closed.size() == 2; }));
    CHECK(server.handler.close_reasons()[0] == CloseReason::kIdle);
    CHECK(std::chrono::steady_clock::now() - last < 10s);
  }

  TEST_CASE("connections over the limit are closed at once") {
    CountingSink log;
    auto pool = IoPool::start({}).value();
    TestHandler handler;
    auto server =
        Server::listen(*pool, {.host = "127.0.0.1", .connection_max = 2}, handler).value();
    RawClient a(server->port());
    RawClient b(server->port());
    RawClient c(server->port());
    CHECK(c.at_end());
    REQUIRE(a.write(frame(1, 1)));
    CHECK(a.read_command().opaque == 1);
    REQUIRE(b.write(frame(1, 1)));
    CHECK(b.read_command().opaque == 1);
    CHECK(server->connection_count() == 2);
    CHECK(log.lines == 1);
    handler.change([&] { handler.opened.clear(); });
    server->stop();
  }

  TEST_CASE("2000 idle connections that have talked once cost little each") {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    const std::size_t count = 2000;
    if (files.rlim_cur < 2 * count + 200) {
      files.rlim_cur = std::min<rlim_t>(files.rlim_max, 2 * count + 500);
      ::setrlimit(RLIMIT_NOFILE, &files);
    }
    REQUIRE(files.rlim_cur >= 2 * count + 200);
    auto pool = IoPool::start({}).value();
    class Plain final : public ConnectionHandler {
      void on_commands(const ConnectionPtr& connection,
                       std::span<const proto::CommandView> commands,
                       const BufferRef&) override {
        for (const auto& c : commands) {
          echo(connection->out(), c);
        }
      }
    } handler;
    auto server = Server::listen(*pool, {.host = "127.0.0.1"}, handler).value();
    std::vector<RawClient> clients;
    clients.reserve(count);
    const std::string request = frame(1, 1, std::string(1000, 'x'));
    const auto talk = [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) {
        clients.emplace_back(server->port());
        REQUIRE(clients.back().write(request));
        REQUIRE(clients.back().read_command().opaque == 1);
      }
    };
    talk(0, 200);  // buffers and pools are warm
    const std::size_t before = heap_bytes();
    talk(200, count);
    const std::size_t each = (heap_bytes() - before) / (count - 200);
    MESSAGE("bytes per idle connection: " << each);
    CHECK(server->connection_count() == count);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(each < 2048);
#endif
    server->stop();
    CHECK(server->connection_count() == 0);
  }
}

TEST_SUITE("net/server") {
  TEST_CASE("a taken port and a name instead of an address are refused with a reason") {
    TestServer server;
    TestHandler handler;
    const auto taken =
        Server::listen(*server.pool, {.host = "127.0.0.1", .port = server.port()}, handler);
    REQUIRE_FALSE(taken.has_value());
    CHECK(taken.error().code == Errc::kConflict);
    CHECK(taken.error().detail.find(std::to_string(server.port())) != std::string::npos);
    const auto name = Server::listen(*server.pool, {.host = "localhost"}, handler);
    REQUIRE_FALSE(name.has_value());
    CHECK(name.error().code == Errc::kInvalid);
  }

  TEST_CASE("few connections are spread evenly over the threads") {
    TestServer server(3);
    std::vector<RawClient> clients;
    for (int i = 0; i < 6; ++i) {
      clients.emplace_back(server.port());
    }
    REQUIRE(server.handler.wait([&] { return server.handler.opened.size() == 6; }));
    std::map<std::size_t, int> per_thread;
    server.handler.change([&] {
      for (const auto& c : server.handler.opened) {
        ++per_thread[c->io_thread().index()];
      }
    });
    CHECK(per_thread == std::map<std::size_t, int>{{0, 2}, {1, 2}, {2, 2}});
  }

  TEST_CASE("an IPv6 server serves IPv4 peers too and knows both addresses") {
    auto pool = IoPool::start({}).value();
    TestHandler handler;
    auto server = Server::listen(*pool, {.host = "::"}, handler);
    if (!server) {
      MESSAGE("skipped, no IPv6: " << server.error().detail);
      return;
    }
    RawClient client(server.value()->port());
    REQUIRE(client.write(frame(1, 3)));
    CHECK(client.read_command().opaque == 3);
    const ConnectionPtr c = handler.first_connection();
    CHECK_FALSE(c->peer().v6);
    CHECK(proto::to_string(c->local()) == "127.0.0.1:" + std::to_string(server.value()->port()));
    handler.change([&] { handler.opened.clear(); });
    server.value()->stop();
  }

  TEST_CASE(
      "stop closes every connection and reports each once, also with the pool stopped first") {
    for (const bool pool_first : {false, true}) {
      auto pool = IoPool::start({.threads = 2}).value();
      TestHandler handler;
      auto server = Server::listen(*pool, {.host = "127.0.0.1"}, handler).value();
      std::vector<RawClient> clients;
      for (int i = 0; i < 5; ++i) {
        clients.emplace_back(server->port());
        REQUIRE(clients.back().write(frame(1, i)));
        REQUIRE(clients.back().read_command().opaque == i);
      }
      ConnectionPtr survivor = handler.first_connection();
      if (pool_first) {
        pool->stop();
      }
      server->stop();
      server->stop();
      CHECK(handler.close_reasons() == std::vector<CloseReason>(5, CloseReason::kShutdown));
      server.reset();
      pool.reset();
      survivor->send("x");  // harmless, whatever is gone
      survivor->close(CloseReason::kLocal);
      CHECK(survivor->queued_bytes() == 0);
    }
  }

  TEST_CASE("without free descriptors accepting pauses and goes on") {
    CountingSink log;
    TestServer server;
    RawClient first(server.port());
    REQUIRE(first.write(frame(1, 1)));
    REQUIRE(first.read_command().opaque == 1);
    std::vector<int> ballast;
    RawClient second(server.port());  // has its descriptor before they run out
    REQUIRE(second.write(frame(1, 2)));
    REQUIRE(second.read_command().opaque == 2);
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const int spare = ::socket(AF_INET, SOCK_STREAM, 0);
    const int highest = ::dup(spare);
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(highest + 1);
    ::setrlimit(RLIMIT_NOFILE, &few);
    while (true) {  // gaps below the highest descriptor
      const int fd = ::dup(spare);
      if (fd < 0) {
        break;
      }
      ballast.push_back(fd);
    }
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server.port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(spare, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    CHECK(Waiter::poll([&] { return log.lines > 0; }));
    REQUIRE(second.write(frame(1, 3)));
    CHECK(second.read_command().opaque == 3);
    ::setrlimit(RLIMIT_NOFILE, &before);
    for (const int fd : ballast) {
      ::close(fd);
    }
    const std::string request = frame(1, 4);
    REQUIRE(::send(spare, request.data(), request.size(), 0) ==
            static_cast<ssize_t>(request.size()));
    pollfd p{spare, POLLIN, 0};
    CHECK(::poll(&p, 1, 20'000) == 1);
    CHECK(log.lines == 1);
    ::close(spare);
    ::close(highest);
  }
}
