// tenon bench send: connections with a constant number of sends in flight. A completed send starts
// the next one from its callback, on the I/O thread: no thread is woken up per message.
#include "commands/bench.h"
#include "support/histogram.h"
#include "support/progress.h"

#include "tenon/sdk/admin.h"
#include "tenon/sdk/producer.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>

namespace tenon::app {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct BenchSend {
  std::string topic{};  ///< empty: "TenonBench_<size>"
  std::size_t connections = 4;
  std::size_t window = 32;
  std::size_t size = 1024;
  std::uint64_t count = 200'000;
  std::uint64_t warmup = 20'000;
  std::size_t io_threads = 1;
  int queues = 8;
  bool json_headers = false;
  pid_t broker_pid = 0;
};

/// After so many failed sends a run gives up.
constexpr std::uint64_t kErrorsMax = 100;

/// What all lanes of a run share.
struct Run {
  std::atomic<std::size_t> lanes_left{0};
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::uint64_t> errors{0};
  std::atomic<std::int64_t> end_ns{0};  ///< SteadyClock, when the last lane finished
  Histogram latency_ns{};
  std::mutex mutex{};
  std::string first_error{};  ///< guarded by mutex
};

/// One producer on one connection. Thread: start() on the main thread, the rest in callbacks.
class Lane {
 public:
  Lane(sdk::Producer producer, const BenchSend& options)
      : producer_(std::move(producer)),
        topic_(options.topic),
        body_(options.size, 'x') {}

  void start(Run& run, std::uint64_t quota, std::size_t window) {
    run_ = &run;
    quota_ = quota;
    begun_ = 0;
    finished_ = 0;
    for (std::size_t i = 0; i < window && i < quota; ++i) {
      next();
    }
  }

 private:
  void next() {
    if (begun_.fetch_add(1, std::memory_order_relaxed) >= quota_) {
      return;
    }
    sdk::Message message;
    message.topic = topic_;
    message.body = body_;
    const SteadyClock::time_point begin = SteadyClock::now();
    producer_.async_send(std::move(message),
                         [this, begin](sdk::Result<sdk::Receipt> r) { finish(begin, r); });
  }

  void finish(SteadyClock::time_point begin, const sdk::Result<sdk::Receipt>& result) {
    const SteadyClock::time_point now = SteadyClock::now();
    if (result) {
      run_->latency_ns.record(static_cast<std::uint64_t>((now - begin).count()));
      run_->done.fetch_add(1, std::memory_order_relaxed);
    } else if (note_error(result.error()) >= kErrorsMax) {
      // What is not begun yet is given up.
      const std::uint64_t begun = begun_.exchange(quota_);
      leave(begun < quota_ ? 1 + quota_ - begun : 1, now);
      return;
    }
    next();
    leave(1, now);
  }

  void leave(std::uint64_t n, SteadyClock::time_point now) {
    if (finished_.fetch_add(n, std::memory_order_acq_rel) + n == quota_) {
      const std::int64_t at = now.time_since_epoch().count();
      std::int64_t seen = run_->end_ns.load(std::memory_order_relaxed);
      while (at > seen && !run_->end_ns.compare_exchange_weak(seen, at)) {
      }
      run_->lanes_left.fetch_sub(1, std::memory_order_acq_rel);
    }
  }

  std::uint64_t note_error(const sdk::Error& error) {
    const std::scoped_lock lock(run_->mutex);
    if (run_->first_error.empty()) {
      run_->first_error = error.text();
    }
    return run_->errors.fetch_add(1) + 1;
  }

  sdk::Producer producer_;
  std::string topic_;
  std::string body_;
  Run* run_ = nullptr;
  std::uint64_t quota_ = 0;
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> finished_{0};
};

/// Sends `count` messages. @return seconds, or nothing if the user interrupted it
std::optional<double> run_lanes(Context& context,
                                std::deque<Lane>& lanes,
                                Run& run,
                                std::uint64_t count,
                                std::size_t window,
                                Progress& progress) {
  run.lanes_left = lanes.size();
  const SteadyClock::time_point begin = SteadyClock::now();
  std::uint64_t left = count;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const std::uint64_t share = left / (lanes.size() - i);
    left -= share;
    if (share == 0) {
      run.lanes_left.fetch_sub(1);
      continue;
    }
    lanes[i].start(run, share, window);
  }
  while (run.lanes_left.load(std::memory_order_acquire) != 0) {
    if (context.stop.wait(std::chrono::milliseconds(20))) {
      return std::nullopt;
    }
    progress.show(run.done.load(std::memory_order_relaxed));
  }
  progress.clear();
  return static_cast<double>(run.end_ns.load() - begin.time_since_epoch().count()) / 1e9;
}

int report(const Context& context,
           const BenchSend& o,
           const Run& run,
           double seconds,
           const Usage& usage) {
  const auto done = run.done.load();
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const double mb = rate * static_cast<double>(o.size) / 1e6;
  const auto us = [&](double percent) {
    return static_cast<double>(run.latency_ns.percentile(percent)) / 1e3;
  };
  const double max_us = static_cast<double>(run.latency_ns.max()) / 1e3;
  if (context.json) {
    Json json;
    json.begin_object().field("connections", o.connections).field("window", o.window);
    json.field("size", o.size).field("messages", done).field("errors", run.errors.load());
    json.field("seconds", seconds).field("msg_per_s", rate).field("mb_per_s", mb);
    json.field("mean_us", run.latency_ns.mean() / 1e3).field("p50_us", us(50));
    json.field("p90_us", us(90)).field("p99_us", us(99)).field("p999_us", us(99.9));
    json.field("max_us", max_us);
    usage.to_json(json);
    if (!run.first_error.empty()) {
      json.field("error", run.first_error);
    }
    print_line(json.end_object().text());
  } else {
    print_line(fmt::format("sent     {} messages of {} B on {} connections, {} in flight on each",
                           done,
                           o.size,
                           o.connections,
                           o.window));
    print_line(fmt::format(
        "rate     {:.0f} msg/s, {} MB/s in {} s", rate, three_digits(mb), three_digits(seconds)));
    print_line(fmt::format("latency  p50 {} us, p90 {} us, p99 {} us, p99.9 {} us, max {} us",
                           three_digits(us(50)),
                           three_digits(us(90)),
                           three_digits(us(99)),
                           three_digits(us(99.9)),
                           three_digits(max_us)));
    print_line(usage.text(done));
    if (run.errors.load() != 0) {
      print_line(fmt::format("errors   {}, first: {}", run.errors.load(), run.first_error));
    }
  }
  return run.errors.load() == 0 ? kExitOk : kExitFailed;
}

/// Opens one producer for each connection; the client spreads them.
sdk::Result<void> open_lanes(sdk::Client& client, const BenchSend& o, std::deque<Lane>& lanes) {
  for (std::size_t i = 0; i < o.connections; ++i) {
    sdk::ProducerOptions options;
    options.group = fmt::format("tenon_bench_{}", i);
    options.send_timeout = std::chrono::seconds(10);
    options.retries_async = 0;
    options.compression = sdk::Compression::kNone;
    auto producer = sdk::Producer::open(client, options);
    if (!producer) {
      return std::move(producer).error();
    }
    lanes.emplace_back(*std::move(producer), o);
  }
  return {};
}

/// The topic with as many queues as wished, unless it exists.
sdk::Result<void> make_topic(sdk::Client& client, const BenchSend& o) {
  auto admin = sdk::Admin::open(client);
  if (!admin) {
    return std::move(admin).error();
  }
  if (admin->route(o.topic)) {
    return {};
  }
  auto brokers = admin->brokers();
  if (!brokers) {
    return std::move(brokers).error();
  }
  if (brokers->empty()) {
    sdk::Error none;
    none.code = make_error_code(sdk::Errc::kNotFound);
    none.remark = "no broker is registered at the name server";
    return none;
  }
  return admin->create_topic(brokers->front().cluster, o.topic, o.queues);
}

int bench_send(Context& context, BenchSend& o) {
  o.topic = o.topic.empty() ? bench_topic(o.size) : o.topic;
  sdk::ClientOptions client_options;
  client_options.connections_per_broker = o.connections;
  client_options.io_threads = o.io_threads;
  client_options.header_encoding =
      o.json_headers ? sdk::HeaderEncoding::kJson : sdk::HeaderEncoding::kBinary;
  auto client = connect(context, client_options);
  if (!client) {
    return failed(context, client.error());
  }
  if (const auto made = make_topic(*client, o); !made) {
    return failed(context, made.error());
  }
  std::deque<Lane> lanes;
  if (const auto opened = open_lanes(*client, o, lanes); !opened) {
    return failed(context, opened.error());
  }
  {
    const auto warm = std::make_unique<Run>();
    Progress progress("warming up", o.warmup, !context.json);
    if (o.warmup != 0 && !run_lanes(context, lanes, *warm, o.warmup, o.window, progress)) {
      lanes.clear();
      return failed(context, "interrupted");
    }
    if (warm->errors != 0) {
      lanes.clear();
      return failed(context, warm->first_error);
    }
  }
  const auto run = std::make_unique<Run>();
  Usage usage(o.broker_pid);
  if (!usage.problem().empty()) {
    return failed(context, usage.problem());
  }
  Progress progress("sending", o.count, !context.json);
  const auto seconds = run_lanes(context, lanes, *run, o.count, o.window, progress);
  usage.stop();
  lanes.clear();  // before the run, which callbacks look at
  if (!seconds) {
    return failed(context, "interrupted");
  }
  return report(context, o, *run, *seconds, usage);
}

}  // namespace

void add_bench_send(CLI::App& bench, Context& context) {
  const auto o = std::make_shared<BenchSend>();
  CLI::App* c = bench.add_subcommand("send", "Send messages with a constant number in flight");
  c->add_option("--topic,-t", o->topic, "Topic; made if it does not exist [TenonBench_<size>]");
  c->add_option("--queues", o->queues, "Queues of a topic that is made")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  c->add_option("--connections,-c", o->connections, "Connections to each broker")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  c->add_option("--window,-w", o->window, "Sends in flight on each connection")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  c->add_option("--size,-s", o->size, "Bytes of each body")
      ->capture_default_str()
      ->check(CLI::Range(1, 4 * 1024 * 1024));
  c->add_option("--count,-n", o->count, "Messages that are measured")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  c->add_option("--warmup", o->warmup, "Messages before that")->capture_default_str();
  c->add_option("--io-threads", o->io_threads, "Threads of the client")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  c->add_flag("--json-headers", o->json_headers, "Write request headers as JSON, as Java does");
  c->add_option("--broker-pid", o->broker_pid, "Also report this process's CPU time and memory");
  c->callback([&context, o] { context.run = [&context, o] { return bench_send(context, *o); }; });
}

}  // namespace tenon::app
