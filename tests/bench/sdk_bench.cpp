// What a consumer of the SDK costs: allocations per message, throughput, memory per subscription.
// The broker is in another process: with_broker sdk_bench [consume [MESSAGES [BYTES [BATCH [PULL]]]]] [memory [TOPICS]]
#include "../support/counting_new.h"

#include "tenon/sdk.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

namespace {

using namespace tenon::sdk;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

long resident_kib() {
  long pages = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%*s %ld", &pages) != 1) {
      pages = 0;
    }
    std::fclose(f);
  }
  return pages * (::sysconf(_SC_PAGESIZE) / 1024);
}

template <class F>
bool wait_for(F done, std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  while (!done()) {
    if (Clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

bool fill(Client& client, const std::string& topic, std::uint64_t messages, std::size_t bytes) {
  auto admin = Admin::open(client).value();
  if (auto r = admin.create_topic("DefaultCluster", topic, 4); !r) {
    std::fprintf(stderr, "%s\n", r.error().text().c_str());
    return false;
  }
  auto producer = Producer::open(client, {.group = "bench"}).value();
  std::vector<Message> batch;
  for (std::uint64_t i = 0; i < messages; ++i) {
    batch.push_back({.topic = topic, .body = std::string(bytes, 'x')});
    if (batch.size() == 100 || i + 1 == messages) {
      if (auto r = producer.send_batch(batch); !r) {
        std::fprintf(stderr, "%s\n", r.error().text().c_str());
        return false;
      }
      batch.clear();
    }
  }
  return true;
}

/// Fills a topic, then measures from the first to the last message of a new group.
int consume(std::uint64_t messages,
            std::size_t bytes,
            std::size_t batch_max,
            std::size_t pull_batch) {
  auto client = Client::connect().value();
  const std::string topic = "BenchConsume" + std::to_string(bytes);
  if (!fill(client, topic, messages, bytes)) {
    return 1;
  }
  struct Mark {
    std::uint64_t allocations = 0;
    std::uint64_t bytes = 0;
    double cpu = 0;
    Clock::time_point at{};
  };
  const auto mark = [] {
    return Mark{
        tenon::test::allocations(), tenon::test::allocated_bytes(), cpu_seconds(), Clock::now()};
  };
  // The first tenth warms up.
  const std::uint64_t warm = messages / 10;
  Mark begin;
  Mark end;
  std::atomic<std::uint64_t> got{0};
  std::atomic<std::uint64_t> sum{0};
  std::atomic<bool> done{false};
  PushConsumerOptions options{.group = "bench" + std::to_string(::getpid()),
                              .subscriptions = {{topic, {}}},
                              .start = FromFirst{}};
  options.batch_max = batch_max;
  options.pull_batch = pull_batch;
  options.threads = 2;
  auto consumer = PushConsumer::concurrent(client, options, [&](std::span<const MessageView> b) {
    for (const MessageView& m : b) {
      sum.fetch_add(static_cast<unsigned char>(m.body().back()), std::memory_order_relaxed);
    }
    const std::uint64_t before = got.fetch_add(b.size());
    if (before < warm && before + b.size() >= warm) {
      begin = mark();
    }
    if (before + b.size() == messages) {
      end = mark();
      done = true;
    }
    return Ack::success();
  });
  if (!consumer || !wait_for([&] { return done.load(); }, 120s)) {
    std::fprintf(stderr, "only %llu messages came\n", static_cast<unsigned long long>(got.load()));
    return 1;
  }
  const double n = static_cast<double>(messages - warm);
  const double seconds = std::chrono::duration<double>(end.at - begin.at).count();
  std::printf(
      "consume: %llu messages of %zu bytes, %zu per call, %zu per pull: %.0f/s, %.1f MB/s, %.2f us "
      "CPU, %.4f "
      "allocations and "
      "%.0f bytes allocated per message\n",
      static_cast<unsigned long long>(messages),
      bytes,
      batch_max,
      pull_batch,
      n / seconds,
      n * static_cast<double>(bytes) / seconds / 1e6,
      (end.cpu - begin.cpu) / n * 1e6,
      static_cast<double>(end.allocations - begin.allocations) / n,
      static_cast<double>(end.bytes - begin.bytes) / n);
  return 0;
}

/// One consumer with so many topics of one queue each, all of which it pulls.
int memory(int topics) {
  auto client = Client::connect().value();
  auto admin = Admin::open(client).value();
  std::map<std::string, Subscription> subscriptions;
  for (int i = 0; i < topics; ++i) {
    const std::string topic = "BenchMemory" + std::to_string(i);
    if (auto r = admin.create_topic("DefaultCluster", topic, 1); !r) {
      std::fprintf(stderr, "%s\n", r.error().text().c_str());
      return 1;
    }
    subscriptions[topic] = Subscription();
  }
  ::malloc_trim(0);
  const long before_kib = resident_kib();
  const std::size_t before_bytes = ::mallinfo2().uordblks;
  const auto begin = Clock::now();
  auto consumer = PushConsumer::concurrent(
      client,
      {.group = "bench_memory", .subscriptions = subscriptions, .start = FromFirst{}},
      [](std::span<const MessageView>) { return Ack::success(); });
  if (!consumer ||
      !wait_for([&] { return consumer->owned().size() >= static_cast<std::size_t>(topics); },
                120s)) {
    std::fprintf(stderr, "the queues were not taken over\n");
    return 1;
  }
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  std::this_thread::sleep_for(2s);  // all pulls are parked at the broker
  const auto kib = static_cast<double>(resident_kib() - before_kib);
  const auto used = static_cast<double>(::mallinfo2().uordblks - before_bytes);
  std::printf(
      "memory: %d subscriptions taken over in %.2f s: %.0f KiB more resident, %.0f KiB in use, "
      "%.2f KiB each; process %ld KiB\n",
      topics,
      took,
      kib,
      used / 1024,
      used / 1024 / topics,
      resident_kib());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  int result = 0;
  if (what.empty() || what == "consume") {
    const auto number = [&](int index, std::uint64_t otherwise) {
      return argc > index ? std::strtoull(argv[index], nullptr, 10) : otherwise;
    };
    result |= consume(number(2, 200'000), number(3, 1024), number(4, 32), number(5, 32));
  }
  if (what.empty() || what == "memory") {
    result |= memory(argc > 2 ? std::atoi(argv[2]) : 1000);
  }
  return result;
}
