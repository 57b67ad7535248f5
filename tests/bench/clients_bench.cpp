// The consumer table with many clients: what a heartbeat, a pull's look-up and the end of a
// connection cost.
//
//   clients_bench [CONNECTIONS [GROUPS]]        default: 20000 2000
//
// Every connection is a member of one group with two subscriptions. Look-ups run on 1, 2 and 4
// threads at the same time as heartbeats on another.
#include "client/consumers.h"

#include "tenon/net/io_pool.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace {

using namespace tenon;
using broker::Consumers;
using Clock = std::chrono::steady_clock;

/// Swallows what is sent.
class Sink final : public net::Connection {
 public:
  Sink(std::uint64_t id, net::IoThread& thread, std::atomic<std::uint64_t>& sent)
      : Connection(id),
        thread_(thread),
        sent_(sent) {}
  net::IoThread& io_thread() noexcept override { return thread_; }
  std::string& out() noexcept override { return out_; }
  void flush() override {}
  void send(net::OutFrame frame) override {
    sent_.fetch_add(frame.bytes() > 0 ? 1 : 0, std::memory_order_relaxed);
  }
  void close(net::CloseReason) override {}
  std::size_t queued_bytes() const noexcept override { return 0; }

 private:
  net::IoThread& thread_;
  std::atomic<std::uint64_t>& sent_;
  std::string out_{};
};

long resident_kb() {
  long pages = 0;
  long resident = 0;
  std::FILE* f = std::fopen("/proc/self/statm", "r");
  if (f != nullptr) {
    if (std::fscanf(f, "%ld %ld", &pages, &resident) != 2) {
      resident = 0;
    }
    std::fclose(f);
  }
  return resident * (::sysconf(_SC_PAGESIZE) / 1024);
}

double ns_each(Clock::time_point begin, std::size_t n) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() /
         static_cast<double>(n);
}

struct Bench {
  std::size_t connections = 20'000;
  std::size_t groups = 2'000;
  std::unique_ptr<net::IoPool> pool = net::IoPool::start({.threads = 1, .name = "io"}).value();
  std::atomic<std::uint64_t> notices{0};
  broker::BrokerConfig config{};
  broker::Filters filters{};
  broker::ConsumerFilters expressions{config, system_clock(), filters};
  Consumers consumers{expressions};
  std::vector<std::string> names{};
  std::vector<net::ConnectionPtr> clients{};
  std::vector<proto::ConsumerData> beats{};

  void prepare() {
    for (std::size_t g = 0; g < groups; ++g) {
      names.push_back(fmt::format("group_of_consumers_{}", g));
      proto::ConsumerData& data = beats.emplace_back();
      data.group = names.back();
      data.subscriptions = {{.topic = "OrderTopic", .sub_version = 1},
                            {.topic = "%RETRY%" + names.back(), .sub_version = 1}};
    }
    for (std::size_t i = 0; i < connections; ++i) {
      clients.push_back(std::make_shared<Sink>(i + 1, pool->at(0), notices));
    }
  }

  void beat(std::size_t i, const std::string& id) {
    consumers.heartbeat(
        {clients[i], id, proto::Language::kJava, 409, static_cast<std::int64_t>(i), true},
        beats[i % groups]);
  }

  void heartbeats(const char* what) {
    std::vector<std::string> ids;
    for (std::size_t i = 0; i < connections; ++i) {
      ids.push_back(fmt::format("10.0.0.{}@client#{}", i % 250, i));
    }
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < connections; ++i) {
      beat(i, ids[i]);
    }
    fmt::print("{:<44} {:>9.0f} ns\n", what, ns_each(begin, connections));
  }

  /// Pulls' look-ups on some threads while another one sends heartbeats.
  void lookups(std::size_t threads, bool with_heartbeats) {
    constexpr std::size_t kEach = 2'000'000;
    std::atomic<bool> stop{false};
    std::thread beating;
    if (with_heartbeats) {
      beating = std::thread([&] {
        std::vector<std::string> ids;
        for (std::size_t i = 0; i < connections; ++i) {
          ids.push_back(fmt::format("10.0.0.{}@client#{}", i % 250, i));
        }
        while (!stop.load(std::memory_order_relaxed)) {
          for (std::size_t i = 0; i < connections && !stop.load(std::memory_order_relaxed); ++i) {
            beat(i, ids[i]);
          }
        }
      });
    }
    std::atomic<std::uint64_t> found{0};
    std::vector<std::thread> readers;
    const auto begin = Clock::now();
    for (std::size_t t = 0; t < threads; ++t) {
      readers.emplace_back([&, t] {
        std::uint64_t n = 0;
        std::size_t g = t * 977;
        for (std::size_t i = 0; i < kEach; ++i) {
          g = (g + 7919) % groups;
          n += consumers.pull_view(names[g], "OrderTopic").subscription != nullptr ? 1 : 0;
        }
        found.fetch_add(n);
      });
    }
    for (std::thread& reader : readers) {
      reader.join();
    }
    const double ns = ns_each(begin, kEach);
    stop.store(true);
    if (beating.joinable()) {
      beating.join();
    }
    if (found.load() != threads * kEach) {
      fmt::print("look-ups failed: {} of {}\n", found.load(), threads * kEach);
      std::exit(1);
    }
    fmt::print(
        "{:<44} {:>9.0f} ns\n",
        fmt::format(
            "look-up on {} threads{}", threads, with_heartbeats ? ", heartbeats beside" : ""),
        ns);
  }

  void ends() {
    const std::size_t n = connections / 2;
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < n; ++i) {
      consumers.connection_closed(clients[i], true);
    }
    fmt::print("{:<44} {:>9.0f} ns\n", "end of a connection, rest is told", ns_each(begin, n));
  }
};

}  // namespace

int main(int argc, char** argv) {
  Bench bench;
  bench.connections = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : bench.connections;
  bench.groups = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : bench.groups;
  fmt::print("{} connections in {} groups\n", bench.connections, bench.groups);
  bench.prepare();
  const long before_kb = resident_kb();
  bench.heartbeats("first heartbeat, all members are told");
  fmt::print("{:<44} {:>9} B\n",
             "memory of the table for each connection",
             (resident_kb() - before_kb) * 1024 / static_cast<long>(bench.connections));
  bench.heartbeats("further heartbeat");
  for (const std::size_t threads : {1u, 2u, 4u}) {
    bench.lookups(threads, false);
  }
  for (const std::size_t threads : {1u, 2u, 4u}) {
    bench.lookups(threads, true);
  }
  bench.ends();
  fmt::print("{} notices\n", bench.notices.load());
  bench.pool->stop();
  return 0;
}
