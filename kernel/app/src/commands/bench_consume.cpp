// tenon bench consume: how fast a new group reads what a topic holds.
#include "commands/bench.h"
#include "support/progress.h"

#include "tenon/sdk/push_consumer.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <span>

#include <unistd.h>

namespace tenon::app {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct BenchConsume {
  std::string topic{};  ///< empty: "TenonBench_<size>"
  std::string group{};
  std::size_t consumers = 1;
  std::size_t threads = 1;
  std::size_t io_threads = 1;
  std::size_t batch = 32;
  std::size_t window = 32;
  std::size_t size = 1024;
  std::uint64_t count = 200'000;
  std::string idle_timeout = "10s";
  pid_t broker_pid = 0;
};

/// Written by listener threads.
struct Tally {
  std::atomic<std::uint64_t> messages{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::int64_t> first_ns{0};  ///< SteadyClock; 0: none yet
  std::atomic<std::int64_t> last_ns{0};   ///< when the wanted number was reached
};

std::int64_t now_ns() {
  return SteadyClock::now().time_since_epoch().count();
}

sdk::Ack count(Tally& tally, std::uint64_t wanted, std::span<const sdk::MessageView> batch) {
  std::int64_t none = 0;
  tally.first_ns.compare_exchange_strong(none, now_ns(), std::memory_order_relaxed);
  std::uint64_t bytes = 0;
  for (const sdk::MessageView& message : batch) {
    bytes += message.raw_body().size();
  }
  tally.bytes.fetch_add(bytes, std::memory_order_relaxed);
  const std::uint64_t before = tally.messages.fetch_add(batch.size(), std::memory_order_acq_rel);
  if (before < wanted && before + batch.size() >= wanted) {
    tally.last_ns.store(now_ns(), std::memory_order_release);
  }
  return sdk::Ack::success();
}

/// @return empty, or why the wanted number was not reached
std::string wait_for(Context& context, const BenchConsume& o, const Tally& tally) {
  Progress progress("consuming", o.count, !context.json);
  const auto patience = duration_of(o.idle_timeout);
  std::uint64_t seen = 0;
  SteadyClock::time_point moved = SteadyClock::now();
  while (tally.last_ns.load(std::memory_order_acquire) == 0) {
    if (context.stop.wait(std::chrono::milliseconds(20))) {
      return "interrupted";
    }
    const std::uint64_t now = tally.messages.load(std::memory_order_relaxed);
    progress.show(now);
    if (now != seen) {
      seen = now;
      moved = SteadyClock::now();
    } else if (SteadyClock::now() - moved > patience) {
      return fmt::format("{} of {} messages came, then none for {}", now, o.count, o.idle_timeout);
    }
  }
  return {};
}

int report(const Context& context, const BenchConsume& o, const Tally& tally, const Usage& usage) {
  const double seconds =
      std::max(1e-9, static_cast<double>(tally.last_ns.load() - tally.first_ns.load()) / 1e9);
  const auto messages = tally.messages.load();
  const double rate = static_cast<double>(messages) / seconds;
  const double mb = static_cast<double>(tally.bytes.load()) / seconds / 1e6;
  if (context.json) {
    Json json;
    json.begin_object().field("connections", o.consumers).field("messages", messages);
    json.field("bytes", tally.bytes.load()).field("seconds", seconds);
    json.field("msg_per_s", rate).field("mb_per_s", mb);
    usage.to_json(json);
    return print_line(json.end_object().text());
  }
  print_line(fmt::format("consumed {} messages by {} consumers", messages, o.consumers));
  print_line(fmt::format(
      "rate     {:.0f} msg/s, {} MB/s in {} s", rate, three_digits(mb), three_digits(seconds)));
  return print_line(usage.text(messages));
}

int bench_consume(Context& context, const BenchConsume& o) {
  Tally tally;
  Usage usage(o.broker_pid);
  if (!usage.problem().empty()) {
    return failed(context, usage.problem());
  }
  std::deque<sdk::Client> clients;  // two members of a group need two clients
  std::deque<sdk::PushConsumer> consumers;
  sdk::PushConsumerOptions options;
  options.group =
      o.group.empty() ? fmt::format("tenon_bench_{}_{}", ::getpid(), now_ns()) : o.group;
  options.subscriptions[o.topic.empty() ? bench_topic(o.size) : o.topic] = {};
  options.start = sdk::FromFirst{};
  options.threads = o.threads;
  options.batch_max = o.batch;
  options.pull_batch = o.window;
  options.cached_max_messages = 20'000;
  options.cached_max_span = 65'535;
  options.drain_on_close = std::chrono::milliseconds(0);
  for (std::size_t i = 0; i < o.consumers; ++i) {
    sdk::ClientOptions client_options;
    client_options.io_threads = o.io_threads;
    auto client = connect(context, client_options);
    if (!client) {
      return failed(context, client.error());
    }
    clients.push_back(*std::move(client));
    auto consumer = sdk::PushConsumer::concurrent(
        clients.back(), options, [&](std::span<const sdk::MessageView> batch) {
          return count(tally, o.count, batch);
        });
    if (!consumer) {
      return failed(context, consumer.error());
    }
    consumers.push_back(*std::move(consumer));
  }
  const std::string problem = wait_for(context, o, tally);
  usage.stop();
  const int code = problem.empty() ? report(context, o, tally, usage) : failed(context, problem);
  consumers.clear();  // before the tally, which listeners look at
  return code;
}

}  // namespace

void add_bench_consume(CLI::App& bench, Context& context) {
  const auto o = std::make_shared<BenchConsume>();
  CLI::App* c = bench.add_subcommand("consume", "Read a topic from its first message on");
  c->add_option("--topic,-t", o->topic, "Topic [TenonBench_<size>]");
  c->add_option("--size,-s", o->size, "Which of the topics that `bench send` makes")
      ->capture_default_str();
  c->add_option("--window,-w", o->window, "Messages that each pull asks for")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  c->add_option("--group,-g", o->group, "Consumer group; default: a new one");
  c->add_option("--count,-n", o->count, "Messages after which to stop")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  c->add_option("--connections,-c", o->consumers, "Members of the group, each with a connection")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  c->add_option("--threads", o->threads, "Listener threads of each")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  c->add_option("--io-threads", o->io_threads, "I/O threads of each")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  c->add_option("--batch", o->batch, "Messages for each listener call")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  c->add_option("--idle-timeout", o->idle_timeout, "Give up after this time without a message")
      ->capture_default_str()
      ->check(check_duration);
  c->add_option("--broker-pid", o->broker_pid, "Also report this process's CPU time and memory");
  c->callback(
      [&context, o] { context.run = [&context, o] { return bench_consume(context, *o); }; });
}

}  // namespace tenon::app
