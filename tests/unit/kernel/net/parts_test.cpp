// The small parts: receive buffers, outgoing batches, the table of pending calls, rate-limited log
// lines, addresses.
#include "buffer_pool.h"
#include "out_batch.h"
#include "peer_log.h"
#include "pending_table.h"
#include "socket_util.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace tenon;
using namespace tenon::net;

namespace {

/// Takes up to `limit` bytes out of a batch as a socket would.
std::string take_bytes(OutBatch& batch, std::size_t limit) {
  std::array<iovec, OutBatch::kIovMax> pieces;
  const std::size_t count = batch.describe(pieces);
  std::string out;
  for (std::size_t i = 0; i < count && out.size() < limit; ++i) {
    const std::size_t n = std::min(limit - out.size(), pieces[i].iov_len);
    out.append(static_cast<const char*>(pieces[i].iov_base), n);
  }
  batch.advance(out.size());
  return out;
}

}  // namespace

TEST_SUITE("net/parts") {
  TEST_CASE("the buffer pool reuses buffers of its sizes and keeps a bounded amount") {
    BufferPool pool(2 * BufferPool::kSmallBytes);
    auto a = pool.take(1);
    CHECK(a->capacity == BufferPool::kSmallBytes);
    const void* first = a->data.get();
    a.reset();
    CHECK(pool.kept_bytes() == BufferPool::kSmallBytes);
    auto b = pool.take(BufferPool::kSmallBytes);
    CHECK(b->data.get() == first);
    auto c = pool.take(1);
    auto d = pool.take(1);
    b.reset();
    c.reset();
    d.reset();
    CHECK(pool.kept_bytes() == 2 * BufferPool::kSmallBytes);
    auto exact = pool.take(BufferPool::kLargeBytes + 1);
    CHECK(exact->capacity == BufferPool::kLargeBytes + 1);
    exact.reset();
    CHECK(pool.kept_bytes() == 2 * BufferPool::kSmallBytes);
  }

  TEST_CASE("a large buffer takes the place of small ones that are kept") {
    constexpr std::size_t kLarge = BufferPool::kLargeBytes;
    constexpr std::size_t kSmall = BufferPool::kSmallBytes;
    BufferPool pool(kLarge + kSmall);
    {
      std::vector<std::shared_ptr<ReadBuffer>> taken;
      while (taken.size() * kSmall < kLarge + kSmall) {
        taken.push_back(pool.take(kSmall));
      }
    }
    CHECK(pool.kept_bytes() == kLarge + kSmall);
    auto large = pool.take(kLarge);
    const void* const first = large->data.get();
    large.reset();
    CHECK(pool.kept_bytes() == kLarge + kSmall);
    CHECK(pool.take(kLarge)->data.get() == first);
    auto one = pool.take(kSmall);
    auto two = pool.take(kSmall);
    one.reset();
    two.reset();  // but not the other way round
    CHECK(pool.kept_bytes() == kLarge + kSmall);
    CHECK(pool.take(kLarge)->data.get() == first);
  }

  TEST_CASE("a buffer may outlive its pool") {
    std::shared_ptr<ReadBuffer> left;
    {
      BufferPool pool;
      left = pool.take(100);
    }
    left->data[0] = std::byte{1};
    CHECK(left->data[0] == std::byte{1});
  }

  TEST_CASE("a batch gives its bytes in order however few the socket takes, and releases once") {
    for (const std::size_t step : {1u, 2u, 3u, 7u, 1000u}) {
      int released_first = 0;
      int released_second = 0;
      const std::string piece = "PIECES";
      std::vector<QueuedFrame> queue;
      OutFrame one;
      one.head = "head";
      one.pieces = {as_bytes(piece), {}, as_bytes(std::string_view(piece).substr(0, 3))};
      one.release = [&] { ++released_first; };
      queue.emplace_back(std::move(one));
      queue.emplace_back(OutFrame{});
      OutFrame two;
      two.pieces = {as_bytes(piece)};
      two.release = [&] { ++released_second; };
      queue.emplace_back(std::move(two));
      queue.emplace_back(OutFrame{"tail", {}, {}});
      OutBatch batch;
      batch.take(queue);
      CHECK(queue.empty());
      std::string all;
      while (!batch.empty()) {
        const std::string some = take_bytes(batch, step);
        if (some.empty()) {
          break;
        }
        all += some;
        CHECK(released_first == (all.size() >= 13 ? 1 : 0));
        CHECK(released_second == (all.size() >= 19 ? 1 : 0));
      }
      CHECK(all == "headPIECESPIEPIECEStail");
      CHECK(batch.empty());
      CHECK(released_first == 1);
      CHECK(released_second == 1);
    }
  }

  TEST_CASE("a dropped batch releases what was not written, once") {
    int released = 0;
    {
      OutBatch batch;
      OutFrame f;
      f.head = "abc";
      f.release = [&] { ++released; };
      batch.push(QueuedFrame(std::move(f)));
      CHECK(take_bytes(batch, 2) == "ab");
      CHECK(released == 0);
      batch.clear();
      CHECK(released == 1);
    }
    CHECK(released == 1);
  }

  TEST_CASE("more pieces than one call can take are written in several") {
    OutBatch batch;
    std::string expected;
    std::vector<std::string> texts(OutBatch::kIovMax * 2 + 5, "x");
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i] = std::to_string(i);
      expected += texts[i];
      OutFrame f;
      f.pieces = {as_bytes(texts[i])};
      batch.push(QueuedFrame(std::move(f)));
    }
    std::string all;
    while (!batch.empty()) {
      all += take_bytes(batch, 1u << 20);
    }
    CHECK(all == expected);
  }

  TEST_CASE("the pending table finds, expires and forgets calls, across the wrap of the opaque") {
    PendingTable table(0xffff'fff0u);
    std::vector<int> answered;
    std::vector<std::pair<std::int32_t, int>> live;
    std::mt19937 random(7);
    int name = 0;
    for (int step = 0; step < 50'000; ++step) {
      if (live.size() < 300 && random() % 2 == 0) {
        const int n = name++;
        live.emplace_back(
            table.add(1000 + n, [&answered, n](Result<RpcAnswer>) { answered.push_back(n); }), n);
      } else if (!live.empty()) {
        const std::size_t i = random() % live.size();
        RpcCallback done;
        REQUIRE(table.contains(live[i].first));
        REQUIRE(table.take(live[i].first, done));
        REQUIRE_FALSE(table.take(live[i].first, done));
        done(Error{});
        REQUIRE(answered.back() == live[i].second);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
      }
      REQUIRE(table.size() == live.size());
    }
    RpcCallback none;
    CHECK_FALSE(table.take(table.skip(), none));
    std::vector<RpcCallback> all;
    table.take_all(all);
    CHECK(all.size() == live.size());
    CHECK(table.size() == 0);
  }

  TEST_CASE("expired calls are taken out and the earliest deadline left is told") {
    PendingTable table;
    std::vector<RpcCallback> expired;
    CHECK(table.take_expired(5, expired) == PendingTable::kNever);
    table.add(10, [](Result<RpcAnswer>) {});
    table.add(30, [](Result<RpcAnswer>) {});
    table.add(20, [](Result<RpcAnswer>) {});
    CHECK(table.take_expired(9, expired) == 10);
    CHECK(expired.empty());
    CHECK(table.take_expired(20, expired) == 30);
    CHECK(expired.size() == 2);
    CHECK(table.size() == 1);
  }

  TEST_CASE("a peer gets one log line per interval, with the number of those left out") {
    PeerLog log(1000, 2);
    proto::HostAddr a{{1, 2, 3, 4}, 10, false};
    const proto::HostAddr b{{1, 2, 3, 5}, 10, false};
    const proto::HostAddr c{{1, 2, 3, 6}, 10, false};
    CHECK(log.may_write(a, 0) == 0);
    a.port = 11;
    CHECK_FALSE(log.may_write(a, 1).has_value());
    CHECK_FALSE(log.may_write(a, 999).has_value());
    CHECK(log.may_write(b, 999) == 0);
    CHECK_FALSE(log.may_write(c, 999).has_value());
    CHECK(log.may_write(a, 1000) == 2);
    CHECK(log.may_write(c, 2000) == 0);
  }

  TEST_CASE("host and port are taken apart") {
    CHECK(split_host_port("a.b:9876").value().host == "a.b");
    CHECK(split_host_port("a.b:9876").value().port == 9876);
    CHECK(split_host_port("[::1]:1").value().host == "::1");
    for (const char* bad : {"", "a", "a:", ":1", "a:0", "a:65536", "a:1x", "::1:5", "[::1:5"}) {
      CAPTURE(bad);
      CHECK_FALSE(split_host_port(bad).has_value());
    }
  }
}
