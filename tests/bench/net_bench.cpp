// Loopback benchmark of tenon::net: a server that answers every request with a frame of 100 bytes,
// and an RpcClient that keeps a window of calls in flight from its callbacks. One process, one I/O
// thread on each side.
//
//   net_bench [--calls N] [--size BYTES] [--window W] [--connections C]
//
// Without arguments the table of windows 1, 32, 64 and bodies of 128 and 1024 bytes is run.
#include "tenon/net/connection.h"
#include "tenon/net/io_pool.h"
#include "tenon/net/rpc_client.h"
#include "tenon/proto/command.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <time.h>

namespace {

using namespace tenon;
using namespace std::chrono_literals;

/// Answers with an empty header of the binary kind and a body that makes the frame 100 bytes.
class Answerer final : public net::ConnectionHandler {
 public:
  void on_commands(const net::ConnectionPtr& connection,
                   std::span<const proto::CommandView> commands,
                   const net::BufferRef&) override {
    std::string& out = connection->out();
    for (const proto::CommandView& c : commands) {
      proto::FrameWriter(out,
                         {.code = 0,
                          .opaque = c.opaque,
                          .flag = proto::kFlagResponse,
                          .kind = proto::HeaderKind::kRocketMq})
          .finish(std::as_bytes(std::span(body_)));
    }
  }

 private:
  std::array<char, 100 - 8 - 21> body_{};
};

/// One lane: starts the next call from the callback of the last.
struct Lane {
  net::RpcClient& client;
  const std::string& address;
  std::span<const std::byte> body;
  std::size_t lane;
  std::atomic<long>& to_start;
  std::atomic<long>& to_finish;

  void next() {
    if (to_start.fetch_sub(1, std::memory_order_relaxed) <= 0) {
      return;
    }
    client.call(
        address,
        [this](std::string& out, std::int32_t opaque) {
          proto::FrameWriter(out,
                             {.code = 310, .opaque = opaque, .kind = proto::HeaderKind::kRocketMq})
              .finish(body);
        },
        30s,
        [this](Result<net::RpcAnswer> answer) {
          if (!answer) {
            fmt::print(stderr, "call failed: {}\n", answer.error().detail);
            std::abort();
          }
          if (to_finish.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            to_finish.notify_all();
          }
          next();
        },
        lane);
  }
};

double cpu_seconds() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

void run(long calls, std::size_t size, std::size_t window, std::size_t connections) {
  auto server_pool = net::IoPool::start({.threads = 1, .name = "srv"}).value();
  auto client_pool = net::IoPool::start({.threads = 1, .name = "cli"}).value();
  Answerer answerer;
  auto server = net::Server::listen(*server_pool, {.host = "127.0.0.1"}, answerer).value();
  auto client =
      net::RpcClient::create(*client_pool, {.connections_per_address = connections}, nullptr);
  const std::string address = fmt::format("127.0.0.1:{}", server->port());
  // The whole frame has `size` bytes, as in the ceiling program.
  const std::vector<std::byte> body(size > 29 ? size - 29 : 0);
  std::atomic<long> to_start{calls};
  std::atomic<long> to_finish{calls};
  std::vector<std::unique_ptr<Lane>> lanes;
  const double cpu = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < window * connections; ++i) {
    lanes.push_back(
        std::make_unique<Lane>(Lane{*client, address, body, i % connections, to_start, to_finish}));
    lanes.back()->next();
  }
  for (long left = to_finish.load(); left > 0; left = to_finish.load()) {
    to_finish.wait(left);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fmt::print("connections {} window {:3} frame {:5}: {:9.0f} calls/s {:7.1f} MB/s cpu {:.2f} s\n",
             connections,
             window,
             size,
             static_cast<double>(calls) / took.count(),
             static_cast<double>(calls) * static_cast<double>(size) / took.count() / 1e6,
             cpu_seconds() - cpu);
  std::fflush(stdout);
  client->stop();
  server->stop();
}

}  // namespace

int main(int argc, char** argv) {
  long calls = 0;
  std::size_t size = 0;
  std::size_t window = 0;
  std::size_t connections = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const long value = std::atol(argv[i + 1]);
    if (std::strcmp(argv[i], "--calls") == 0) {
      calls = value;
    } else if (std::strcmp(argv[i], "--size") == 0) {
      size = static_cast<std::size_t>(value);
    } else if (std::strcmp(argv[i], "--window") == 0) {
      window = static_cast<std::size_t>(value);
    } else if (std::strcmp(argv[i], "--connections") == 0) {
      connections = static_cast<std::size_t>(value);
    }
  }
  if (window > 0) {
    run(calls > 0 ? calls : 1'000'000, size > 0 ? size : 1024, window, connections);
    return 0;
  }
  for (const std::size_t s : {128u, 1024u}) {
    for (const std::size_t w : {1u, 32u, 64u}) {
      run(calls > 0 ? calls : (w == 1 ? 100'000 : 1'000'000), s, w, connections);
    }
  }
  return 0;
}
