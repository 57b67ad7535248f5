// Load from our client, the counterpart of the cases "sdk" of java/Bench.java: same messages, same
// number in flight, same defaults. sdk_compare.py runs both. Prints one JSON line per case; CPU
// seconds are those of this process, after the warm-up.
//
//   sdk_load sync NAMESRV TOPIC SECONDS BYTES              one thread, one message after another
//   sdk_load async NAMESRV TOPIC SECONDS BYTES IN_FLIGHT   a callback sends the next one
//   sdk_load fill NAMESRV TOPIC COUNT BYTES                creates the topic, with eight queues
//   sdk_load consume NAMESRV TOPIC COUNT BATCH             a new group reads the topic
#include "tenon/sdk.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace tenon::sdk;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = 120s;  ///< for whatever is waited for
/// About what a send of 128 bytes and its answer have on the wire.
constexpr std::size_t kRequestBytes = 400;
constexpr std::size_t kAnswerBytes = 250;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::_Exit(1);
}

template <class T>
T must(Result<T> r) {
  if (!r) {
    fail(r.error().text());
  }
  return std::move(*r);
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double at(std::vector<std::int64_t>& ns, double q) {
  if (ns.empty()) {
    return 0;
  }
  std::sort(ns.begin(), ns.end());
  const auto i = static_cast<std::size_t>(static_cast<double>(ns.size()) * q);
  return static_cast<double>(ns[std::min(i, ns.size() - 1)]) / 1e3;
}

Message message_of(const std::string& topic, std::size_t bytes, std::uint64_t i) {
  return {.topic = topic,
          .body = std::string(bytes, 'x'),
          .tag = "TagA",
          .keys = {"k" + std::to_string(i)}};
}

// ---- the plain socket round trip: blocking calls on both sides, another process answers ----

bool read_all(int fd, char* to, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::read(fd, to, bytes);
    if (n <= 0) {
      return false;
    }
    to += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

class Echo {
 public:
  /// Before any thread is started: forks.
  Echo() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener, plain, length) != 0 || ::listen(listener, 1) != 0 ||
        ::getsockname(listener, plain, &length) != 0) {
      fail("no socket for the round trips");
    }
    child_ = ::fork();
    if (child_ == 0) {
      serve(listener);
    }
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(fd_, plain, length) != 0) {
      fail("no connection for the round trips");
    }
    no_delay(fd_);
    ::close(listener);
  }
  ~Echo() {
    ::close(fd_);
    ::waitpid(child_, nullptr, 0);
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  void round_trip() {
    static char buffer[kRequestBytes];
    if (::write(fd_, buffer, kRequestBytes) != static_cast<ssize_t>(kRequestBytes) ||
        !read_all(fd_, buffer, kAnswerBytes)) {
      fail("a round trip failed");
    }
  }

 private:
  static void no_delay(int fd) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  [[noreturn]] static void serve(int listener) {
    const int fd = ::accept(listener, nullptr, nullptr);
    no_delay(fd);
    static char buffer[kRequestBytes];
    while (read_all(fd, buffer, kRequestBytes) &&
           ::write(fd, buffer, kAnswerBytes) == static_cast<ssize_t>(kAnswerBytes)) {
    }
    std::_Exit(0);
  }
  pid_t child_ = 0;
  int fd_ = -1;
};

// ---- sends ----

int sync(const std::string& servers, const std::string& topic, int seconds, std::size_t bytes) {
  Echo echo;
  auto client = must(Client::connect({.name_servers = servers}));
  auto producer = must(Producer::open(client, {.group = "bench"}));
  std::vector<std::int64_t> took;
  std::vector<std::int64_t> plain;
  std::uint64_t sent = 0;
  const auto run = [&](std::chrono::milliseconds length) {
    for (const auto end = Clock::now() + length; Clock::now() < end;) {
      const auto begin = Clock::now();
      must(producer.send(message_of(topic, bytes, ++sent)));
      took.push_back((Clock::now() - begin).count());
    }
  };
  run(1s);
  took.clear();
  double cpu = 0;
  double busy = 0;
  // In turns, so that both meet the same machine.
  for (int turn = 0; turn < 10; ++turn) {
    for (int i = 0; i < 2'000; ++i) {
      const auto begin = Clock::now();
      echo.round_trip();
      if (i >= 500) {
        plain.push_back((Clock::now() - begin).count());
      }
    }
    const double cpu_before = cpu_seconds();
    const auto begin = Clock::now();
    run(std::chrono::milliseconds(seconds * 100));
    busy += seconds_since(begin);
    cpu += cpu_seconds() - cpu_before;
  }
  std::printf(
      "{\"case\":\"sync\",\"count\":%zu,\"per_second\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
      "\"round_trip_p50_us\":%.1f,\"round_trip_p99_us\":%.1f,\"client_cpu\":%.3f}\n",
      took.size(),
      static_cast<double>(took.size()) / busy,
      at(took, 0.5),
      at(took, 0.99),
      at(plain, 0.5),
      at(plain, 0.99),
      cpu);
  return 0;
}

/// A constant number of sends in flight: each callback starts the next one.
class Chain {
 public:
  Chain(Producer& producer, std::string topic, std::size_t bytes)
      : producer_(producer),
        topic_(std::move(topic)),
        bytes_(bytes) {}

  /// Thread: the main one. @return messages stored
  std::uint64_t run(int in_flight, std::chrono::seconds length) {
    done_ = 0;
    end_ = Clock::now() + length;
    left_ = in_flight;
    for (int i = 0; i < in_flight; ++i) {
      next();
    }
    std::unique_lock lock(mutex_);
    if (!ended_.wait_for(lock, length + kPatience, [&] { return left_ == 0; })) {
      fail("some sends never ended");
    }
    return done_;
  }

 private:
  void next() {
    producer_.async_send(message_of(topic_, bytes_, done_.load(std::memory_order_relaxed)),
                         [this](Result<Receipt> r) {
                           if (!r) {
                             fail(r.error().text());
                           }
                           done_.fetch_add(1, std::memory_order_relaxed);
                           if (Clock::now() < end_) {
                             next();
                             return;
                           }
                           const std::scoped_lock lock(mutex_);
                           if (--left_ == 0) {
                             ended_.notify_one();
                           }
                         });
  }
  Producer& producer_;
  const std::string topic_;
  const std::size_t bytes_;
  std::atomic<std::uint64_t> done_{0};
  Clock::time_point end_{};
  std::mutex mutex_{};
  std::condition_variable ended_{};
  int left_ = 0;
};

int async(const std::string& servers,
          const std::string& topic,
          int seconds,
          std::size_t bytes,
          int in_flight) {
  auto client = must(Client::connect({.name_servers = servers}));
  auto producer = must(Producer::open(client, {.group = "bench"}));
  Chain chain(producer, topic, bytes);
  chain.run(in_flight, 1s);
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  const std::uint64_t count = chain.run(in_flight, std::chrono::seconds(seconds));
  std::printf(
      "{\"case\":\"async\",\"count\":%llu,\"per_second\":%.0f,\"in_flight\":%d,"
      "\"client_cpu\":%.3f}\n",
      static_cast<unsigned long long>(count),
      static_cast<double>(count) / seconds_since(begin),
      in_flight,
      cpu_seconds() - cpu);
  return 0;
}

int fill(const std::string& servers,
         const std::string& topic,
         std::uint64_t count,
         std::size_t bytes) {
  auto client = must(Client::connect({.name_servers = servers}));
  auto admin = must(Admin::open(client));
  if (auto r = admin.create_topic("DefaultCluster", topic, 8); !r) {
    fail(r.error().text());
  }
  auto producer = must(Producer::open(client, {.group = "bench"}));
  std::vector<Message> batch;
  for (std::uint64_t i = 0; i < count; ++i) {
    batch.push_back(message_of(topic, bytes, i));
    if (batch.size() == 100 || i + 1 == count) {
      must(producer.send_batch(batch));
      batch.clear();
    }
  }
  std::printf("{\"case\":\"fill\",\"count\":%llu}\n", static_cast<unsigned long long>(count));
  return 0;
}

// ---- consuming ----

struct Mark {
  double cpu = 0;
  Clock::time_point at{};
};

int consume(const std::string& servers,
            const std::string& topic,
            std::uint64_t count,
            std::size_t batch_max) {
  auto client = must(Client::connect({.name_servers = servers}));
  const std::uint64_t warm = count / 10;
  Mark begin;
  Mark end;
  std::atomic<std::uint64_t> got{0};
  std::atomic<std::uint64_t> bytes{0};
  std::mutex mutex;
  std::condition_variable reached;
  bool done = false;
  PushConsumerOptions options{
      .group = "bench" + std::to_string(Clock::now().time_since_epoch().count()),
      .subscriptions = {{topic, {}}},
      .start = FromFirst{}};
  options.batch_max = batch_max;
  auto consumer =
      must(PushConsumer::concurrent(client, options, [&](std::span<const MessageView> b) {
        std::uint64_t some = 0;
        for (const MessageView& m : b) {
          some += m.body().size();
        }
        const std::uint64_t before = got.fetch_add(b.size());
        if (before >= warm) {
          bytes.fetch_add(some, std::memory_order_relaxed);
        } else if (before + b.size() >= warm) {
          begin = {cpu_seconds(), Clock::now()};
        }
        if (before < count && before + b.size() >= count) {
          end = {cpu_seconds(), Clock::now()};
          const std::scoped_lock lock(mutex);
          done = true;
          reached.notify_one();
        }
        return Ack::success();
      }));
  std::unique_lock lock(mutex);
  if (!reached.wait_for(lock, kPatience, [&] { return done; })) {
    fail("only " + std::to_string(got.load()) + " of " + std::to_string(count) + " messages came");
  }
  const double seconds = std::chrono::duration<double>(end.at - begin.at).count();
  const auto n = static_cast<double>(count - warm);
  std::printf(
      "{\"case\":\"consume\",\"count\":%.0f,\"per_second\":%.0f,\"mb_per_second\":%.1f,"
      "\"batch\":%zu,\"client_cpu\":%.3f}\n",
      n,
      n / seconds,
      static_cast<double>(bytes.load()) / seconds / 1e6,
      batch_max,
      end.cpu - begin.cpu);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> a(argv + 1, argv + argc);
  const auto number = [&](std::size_t i) { return std::strtoull(a[i].c_str(), nullptr, 10); };
  const auto seconds = [&](std::size_t i) { return static_cast<int>(number(i)); };
  if (a.size() == 5 && a[0] == "sync") {
    return sync(a[1], a[2], seconds(3), number(4));
  }
  if (a.size() == 6 && a[0] == "async") {
    return async(a[1], a[2], seconds(3), number(4), static_cast<int>(number(5)));
  }
  if (a.size() == 5 && a[0] == "fill") {
    return fill(a[1], a[2], number(3), number(4));
  }
  if (a.size() == 5 && a[0] == "consume") {
    return consume(a[1], a[2], number(3), number(4));
  }
  std::fprintf(stderr, "usage: see the top of sdk_load.cpp\n");
  return 2;
}
