#include "../../../support/seed.h"
#include "net_fixture.h"

#include "tenon/base/endian.h"

#include <algorithm>
#include <random>

using namespace tenon;
using namespace tenon::net;
using namespace tenon::net::test;

namespace {

std::string big_endian(std::uint32_t value) {
  std::string out(4, '\0');
  store_be(out.data(), value);
  return out;
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

  TEST_CASE("large answers to one connection do not hold up another one of the thread") {
    constexpr int kLarge = 2;
    constexpr int kFrames = 60;
    TestServer server;
    Waiter other;
    bool written = false;
    std::vector<std::int32_t> order;
    server.handler.on_command =
        [&](const ConnectionPtr& c, const proto::CommandView& view, const BufferRef&) {
          order.push_back(view.code);
          if (view.code == kLarge) {
            if (view.opaque == 1) {
              CHECK(other.wait([&] { return written; }));
            }
            c->send(frame(1, view.opaque, std::string(64u * 1024, 'x'), 1));
          } else {
            echo(c->out(), view);
          }
        };
    RawClient reader(server.port());
    RawClient sender(server.port());
    REQUIRE(reader.write(frame(kLarge, 0)));
    REQUIRE(reader.read_command().opaque == 0);
    std::string pulls;
    for (int i = 1; i <= kFrames; ++i) {
      pulls += frame(kLarge, i);
    }
    REQUIRE(reader.write(pulls));
    REQUIRE(sender.write(frame(3, 7, "send")));
    other.change([&] { written = true; });
    CHECK(sender.read_command().body == "send");
    for (int i = 1; i <= kFrames; ++i) {
      const proto::Command answer = reader.read_command();
      REQUIRE(answer.opaque == i);
      REQUIRE(answer.body.size() == 64u * 1024);
    }
    REQUIRE(server.handler.wait([&] { return server.handler.commands == kFrames + 2; }));
    const auto place = std::find(order.begin(), order.end(), 3) - order.begin();
    CHECK(place < 8);
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
    std::mt19937 random(tenon::test::seed_of_run());
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
