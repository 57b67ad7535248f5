#include "net_fixture.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"

#include <map>
#include <random>
#include <set>

#include <malloc.h>
#include <sys/resource.h>

using namespace tenon;
using namespace tenon::net;
using namespace tenon::net::test;

namespace {

/// Counts the log lines of level warn and above.
class CountingSink final : public LogSink {
 public:
  CountingSink() { set_log_sink(this); }
  ~CountingSink() override { set_log_sink(nullptr); }
  bool enabled(LogLevel level, std::string_view) noexcept override {
    return level >= LogLevel::kWarn;
  }
  void write(LogLevel,
             std::string_view,
             std::string_view,
             const std::source_location&) noexcept override {
    ++lines;
  }
  std::atomic<int> lines{0};
};

std::string big_endian(std::uint32_t value) {
  std::string out(4, '\0');
  store_be(out.data(), value);
  return out;
}

/// Bytes of the heap that are in use; resident memory would hide what was freed by tests before.
std::size_t heap_bytes() {
  return ::mallinfo2().uordblks;
}

}  // namespace

TEST_SUITE("net/connection frames") {
  TEST_CASE("a frame is understood wherever it is cut in two") {
    TestServer server;
    RawClient client(server.port());
    const std::string whole = frame(7, 42, "body");
    for (std::size_t cut = 1; cut < whole.size(); ++cut) {
      REQUIRE(client.write(whole.substr(0, cut)));
      REQUIRE(client.write(whole.substr(cut)));
      const proto::Command answer = client.read_command();
      REQUIRE(answer.opaque == 42);
      REQUIRE(answer.body == "body");
    }
  }

  TEST_CASE("a frame is understood byte by byte") {
    TestServer server;
    RawClient client(server.port());
    for (const char c : frame(7, 1, "xyz")) {
      REQUIRE(client.write({&c, 1}));
    }
    CHECK(client.read_command().body == "xyz");
  }

  TEST_CASE("many frames of one write are handed over together and answered in order") {
    TestServer server;
    RawClient client(server.port());
    std::string all;
    for (int i = 0; i < 1000; ++i) {
      all += frame(1, i, std::string(static_cast<std::size_t>(i % 50), 'x'));
    }
    REQUIRE(client.write(all));
    for (int i = 0; i < 1000; ++i) {
      const proto::Command answer = client.read_command();
      REQUIRE(answer.opaque == i);
      REQUIRE(answer.body.size() == static_cast<std::size_t>(i % 50));
    }
    std::size_t calls = 0;
    server.handler.change([&] { calls = server.handler.batches.size(); });
    CHECK(calls < 300);
  }

  TEST_CASE("frames of every size up to the limit arrive whole") {
    TestServer server;
    RawClient client(server.port());
    const std::size_t overhead = frame(1, 1).size();
    for (const std::size_t size : std::initializer_list<std::size_t>{0,
                                                                     1,
                                                                     65'536 - overhead,
                                                                     65'537 - overhead,
                                                                     300'000,
                                                                     1'048'576,
                                                                     4'194'304,
                                                                     16'777'216 - overhead}) {
      std::string body(size, '\0');
      for (std::size_t i = 0; i < size; i += 97) {
        body[i] = static_cast<char>(i);
      }
      std::thread writer([&] { client.write(frame(1, 9, body) + frame(1, 10, "next")); });
      const proto::Command answer = client.read_command();
      CHECK(answer.opaque == 9);
      CHECK(answer.body == body);
      CHECK(client.read_command().body == "next");
      writer.join();
    }
  }

  TEST_CASE("a frame that is too long, too short or no frame closes its connection only") {
    CountingSink log;
    TestServer server;
    RawClient good(server.port());
    REQUIRE(good.write(frame(1, 1)));
    REQUIRE(good.read_command().opaque == 1);
    const std::vector<std::string> bad = {
        big_endian(0x00ff'fffd) + std::string(8, '\0'),      // one byte over 16 MiB
        big_endian(0xffff'ffff),                             // negative
        big_endian(0),                                       // no mark word
        big_endian(3),                                       // half a mark word
        big_endian(8) + big_endian(5) + "abcd",              // header longer than the frame
        big_endian(100) + big_endian(200),                   // the same, found before it is whole
        big_endian(6) + big_endian(0x0700'0002) + "{}",      // unknown header kind
        big_endian(8) + big_endian(4) + "{\"co",             // broken JSON
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8),  // TLS
        std::string("GET / HTTP/1.1\r\n\r\n"),
    };
    for (const std::string& bytes : bad) {
      CAPTURE(bytes);
      RawClient client(server.port());
      REQUIRE(client.write(bytes));
      CHECK(client.at_end());
    }
    REQUIRE(server.handler.wait([&] { return server.handler.closed.size() == bad.size(); }));
    for (const CloseReason reason : server.handler.close_reasons()) {
      CHECK(reason == CloseReason::kBadFrame);
    }
    CHECK(log.lines == 1);  // one peer address, one line
    REQUIRE(good.write(frame(1, 2)));
    CHECK(good.read_command().opaque == 2);
  }

  TEST_CASE("good frames in front of a bad one are served before the connection closes") {
    CountingSink log;
    TestServer server;
    RawClient client(server.port());
    REQUIRE(client.write(frame(1, 5, "last") + big_endian(0)));
    CHECK(client.read_command().body == "last");
    CHECK(client.at_end());
  }

  TEST_CASE("half a frame and then the end of the connection is a close by the peer") {
    TestServer server;
    {
      RawClient client(server.port());
      const std::string whole = frame(1, 5, "body");
      REQUIRE(client.write(whole.substr(0, whole.size() / 2)));
    }
    REQUIRE(server.handler.wait([&] { return server.handler.closed.size() == 1; }));
    CHECK(server.handler.close_reasons()[0] == CloseReason::kPeer);
    CHECK(server.handler.command_count() == 0);
  }

  TEST_CASE("views stay valid as long as their buffer is kept") {
    TestServer server;
    std::vector<std::pair<BufferRef, std::string_view>> kept;
    server.handler.on_command =
        [&](const ConnectionPtr& c, const proto::CommandView& view, const BufferRef& keep) {
          if (view.code == 2) {
            kept.emplace_back(keep, as_text(view.body));
          }
          echo(c->out(), view);
        };
    RawClient client(server.port());
    std::mt19937 random(11);
    std::vector<std::string> sent;
    for (int i = 0; i < 2000; ++i) {
      std::string body(random() % 3000, static_cast<char>('a' + i % 26));
      const bool keep = random() % 3 == 0;
      REQUIRE(client.write(frame(keep ? 2 : 1, i, body)));
      if (keep) {
        sent.push_back(std::move(body));
      }
      if (i % 16 == 15) {
        for (int k = 0; k < 16; ++k) {
          REQUIRE(client.read_command().opaque == i - 15 + k);
        }
      }
    }
    REQUIRE(server.handler.wait([&] { return server.handler.commands == 2000; }));
    REQUIRE(kept.size() == sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      REQUIRE(kept[i].second == sent[i]);
    }
  }
}

TEST_SUITE("net/connection writing") {
  TEST_CASE("frames with pieces arrive whole and are released once each") {
    TestServer server;
    std::atomic<int> released{0};
    const std::string piece(100'000, 'p');
    server.handler.on_command =
        [&](const ConnectionPtr& c, const proto::CommandView& view, const BufferRef&) {
          OutFrame out;
          proto::FrameWriter(out.head, {.opaque = view.opaque, .flag = 1})
              .finish_detached(3 * piece.size());
          out.pieces = {as_bytes(piece), as_bytes(piece), as_bytes(piece)};
          out.release = [&] { ++released; };
          c->send(std::move(out));
        };
    RawClient client(server.port());
    for (int i = 0; i < 50; ++i) {
      REQUIRE(client.write(frame(1, i)));
    }
    for (int i = 0; i < 50; ++i) {
      const proto::Command answer = client.read_command();
      REQUIRE(answer.opaque == i);
      REQUIRE(answer.body == piece + piece + piece);
    }
    CHECK(Waiter::poll([&] { return released == 50; }));
  }

  TEST_CASE("out() and send() of the I/O thread keep their order") {
    TestServer server;
    server.handler.on_command =
        [&](const ConnectionPtr& c, const proto::CommandView& view, const BufferRef&) {
          c->out() += frame(1, view.opaque * 10, "", 1);
          c->send(frame(1, view.opaque * 10 + 1, "", 1));
          c->out() += frame(1, view.opaque * 10 + 2, "", 1);
          if (view.opaque % 3 == 0) {
            c->flush();
          }
          c->send(frame(1, view.opaque * 10 + 3, "", 1));
        };
    RawClient client(server.port());
    std::string all;
    for (int i = 0; i < 200; ++i) {
      all += frame(1, i);
    }
    REQUIRE(client.write(all));
    for (int i = 0; i < 200; ++i) {
      for (int k = 0; k < 4; ++k) {
        REQUIRE(client.read_command().opaque == i * 10 + k);
      }
    }
  }

  TEST_CASE("sends of many threads keep the order of each thread") {
    TestServer server(2);
    RawClient client(server.port());
    const ConnectionPtr connection = server.handler.first_connection();
    REQUIRE(connection);
    constexpr int kThreads = 6;
    constexpr int kFrames = 3000;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kFrames; ++i) {
          connection->send(frame(t, i, std::string(static_cast<std::size_t>(i % 200), 'x')));
        }
      });
    }
    std::vector<int> next(kThreads, 0);
    for (int i = 0; i < kThreads * kFrames; ++i) {
      const proto::Command c = client.read_command();
      REQUIRE(c.code >= 0);
      REQUIRE(c.opaque == next[static_cast<std::size_t>(c.code)]++);
    }
    for (auto& t : threads) {
      t.join();
    }
  }

  TEST_CASE("every release runs exactly once under sends of many threads and random closes") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::atomic<int> sent{0};
    std::vector<std::atomic<int>> released(4 * 4000);
    const std::string piece(5000, 'p');
    {
      TestServer server(2);
      for (int round = 0; round < 20; ++round) {
        RawClient client(server.port());
        ConnectionPtr connection;
        REQUIRE(server.handler.wait([&] { return !server.handler.opened.empty(); }));
        server.handler.change([&] { connection = server.handler.opened.back(); });
        std::vector<std::thread> threads;
        const int close_after = static_cast<int>(random() % 150);
        for (int t = 0; t < 4; ++t) {
          threads.emplace_back([&, t] {
            for (int i = 0; i < 200; ++i) {
              const int n = sent++;
              OutFrame f;
              f.head = frame(1, n, "x");
              f.pieces = {as_bytes(piece)};
              f.release = [&released, n] { ++released[static_cast<std::size_t>(n)]; };
              connection->send(std::move(f));
              if (t == 0 && i == close_after && round % 3 == 0) {
                connection->close(CloseReason::kLocal);
              }
            }
          });
        }
        if (round % 3 == 1) {
          client.read(random() % 100'000);
          client.reset();
        } else if (round % 3 == 2) {
          client.read(random() % 1'000'000);
          client.close();
        }
        for (auto& t : threads) {
          t.join();
        }
        client.close();
        REQUIRE(server.handler.wait([&] { return server.handler.opened.empty(); }));
      }
    }
    for (int i = 0; i < sent; ++i) {
      REQUIRE(released[static_cast<std::size_t>(i)] == 1);
    }
  }

  TEST_CASE("a send on a closed connection is dropped and released") {
    TestServer server;
    ConnectionPtr connection;
    {
      RawClient client(server.port());
      connection = server.handler.first_connection();
    }
    REQUIRE(server.handler.wait([&] { return server.handler.closed.size() == 1; }));
    int released = 0;
    OutFrame f;
    f.head = "x";
    f.release = [&] { ++released; };
    connection->send(std::move(f));
    CHECK(released == 1);
    CHECK_FALSE(connection->is_open());
    connection->close(CloseReason::kLocal);
  }

  TEST_CASE("close sends what is queued first, and on_close comes once") {
    TestServer server;
    server.handler.on_command =
        [&](const ConnectionPtr& c, const proto::CommandView& view, const BufferRef&) {
          echo(c->out(), view);
          c->close(CloseReason::kLocal);
          c->close(CloseReason::kIoError);
        };
    RawClient client(server.port());
    REQUIRE(client.write(frame(1, 77)));
    CHECK(client.read_command().opaque == 77);
    CHECK(client.at_end());
    REQUIRE(server.handler.wait([&] { return !server.handler.closed.empty(); }));
    CHECK(server.handler.close_reasons() == std::vector<CloseReason>{CloseReason::kLocal});
  }
}

TEST_SUITE("net/connection limits") {
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
