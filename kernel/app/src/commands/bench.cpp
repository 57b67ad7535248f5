// tenon bench: the group of its commands.
#include "commands/bench.h"

#include <fmt/format.h>

namespace tenon::app {

void add_bench(CLI::App& app, Context& context) {
  CLI::App* bench = app.add_subcommand("bench", "Measure throughput and latency");
  bench->require_subcommand(1);
  add_bench_send(*bench, context);
  add_bench_consume(*bench, context);
}

std::string bench_topic(std::size_t size) {
  return fmt::format("TenonBench_{}", size);
}

Usage::Usage(pid_t broker)
    : broker_(broker) {
  if (const auto own = process_stats()) {
    client_before_ = own.value().cpu_seconds;
  }
  if (broker_ == 0) {
    return;
  }
  if (const auto other = process_stats(broker_)) {
    broker_before_ = other.value().cpu_seconds;
  } else {
    problem_ = other.error().detail;
  }
}

void Usage::stop() {
  if (const auto own = process_stats()) {
    client_cpu_s = own.value().cpu_seconds - client_before_;
  }
  if (broker_ == 0) {
    return;
  }
  if (const auto other = process_stats(broker_)) {
    broker_cpu_s = other.value().cpu_seconds - broker_before_;
    broker_rss_anon_bytes = other.value().rss_anon_bytes;
  } else {
    problem_ = other.error().detail;
  }
}

void Usage::to_json(Json& json) const {
  json.field("client_cpu_s", client_cpu_s);
  if (broker_ != 0) {
    json.field("broker_cpu_s", broker_cpu_s);
    json.field("broker_rss_anon_bytes", broker_rss_anon_bytes);
  }
}

std::string Usage::text(std::uint64_t messages) const {
  const auto per_message = [&](double seconds) {
    return three_digits(messages == 0 ? 0 : seconds * 1e6 / static_cast<double>(messages));
  };
  std::string out = fmt::format("CPU      client {} s ({} us a message)",
                                three_digits(client_cpu_s),
                                per_message(client_cpu_s));
  if (broker_ != 0) {
    out += fmt::format(", broker {} s ({} us a message)\nmemory   broker RssAnon {} MB",
                       three_digits(broker_cpu_s),
                       per_message(broker_cpu_s),
                       three_digits(static_cast<double>(broker_rss_anon_bytes) / 1e6));
  }
  return out;
}

}  // namespace tenon::app
