// What the bench commands share.
#pragma once

#include "commands/context.h"
#include "support/process_stats.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/types.h>

namespace tenon::app {

void add_bench_send(CLI::App& bench, Context& context);
void add_bench_consume(CLI::App& bench, Context& context);

/// Topic of messages of one size, so that runs of several sizes do not mix.
std::string bench_topic(std::size_t size);

/// CPU time and memory of this process and of a broker on the same machine, between construction and
/// stop(). Thread: one.
class Usage {
 public:
  explicit Usage(pid_t broker);
  void stop();
  const std::string& problem() const { return problem_; }  ///< why the broker cannot be looked at
  void to_json(Json& json) const;
  std::string text(std::uint64_t messages) const;

  double client_cpu_s = 0;
  double broker_cpu_s = 0;
  std::uint64_t broker_rss_anon_bytes = 0;

 private:
  pid_t broker_;
  double client_before_ = 0;
  double broker_before_ = 0;
  std::string problem_;
};

}  // namespace tenon::app
