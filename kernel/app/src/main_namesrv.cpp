// The name server as a program.
#include "config/namesrv_program.h"
#include "servers/log_scope.h"
#include "support/exit_code.h"
#include "support/memory.h"
#include "support/ready.h"
#include "support/stop_signal.h"
#include "support/version.h"

#include "tenon/config/toml.h"
#include "tenon/namesrv/name_server.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>

namespace {

using namespace tenon;
using namespace tenon::app;

/// Options that override the file.
struct Options {
  std::string file{};
  std::string host{};
  std::optional<std::uint16_t> port{};
  std::string kv_config{};
  std::string log_level{};
};

int failed(std::string_view text, int code) {
  std::fprintf(stderr, "tenon-namesrv: %.*s\n", static_cast<int>(text.size()), text.data());
  return code;
}

Result<NamesrvProgram> program_of(const Options& o) {
  NamesrvProgram out;
  if (!o.file.empty()) {
    TENON_TRY(const ConfigNode root, config::parse_toml_file(o.file));
    TENON_TRY(out, read_namesrv_program(root));
  }
  out.namesrv.listen_port = o.port.value_or(out.namesrv.listen_port);
  if (!o.host.empty()) {
    out.namesrv.listen_host = o.host;
  }
  if (!o.kv_config.empty()) {
    out.namesrv.kv_config_path = o.kv_config;
  }
  out.log.level = logging::level_of(o.log_level).value_or(out.log.level);
  return out;
}

int serve(const Options& options, StopSignal& stop, const StartClock& clock) {
  const auto program = program_of(options);
  if (!program) {
    return failed(program.error().detail, kExitUsage);
  }
  const auto log = LogScope::open(program.value().log);
  if (!log) {
    return failed(log.error().detail, kExitFailed);
  }
  const auto server = namesrv::NameServer::start(program.value().namesrv);
  if (!server) {
    return failed(server.error().detail, kExitFailed);
  }
  trim_memory();
  fmt::print("serving: name server at {}:{}, started in {:.0f} ms\n",
             program.value().namesrv.listen_host,
             server.value()->port(),
             clock.ms());
  std::fflush(stdout);
  stop.wait();
  server.value()->stop();
  return stop.fault().empty() ? kExitOk : failed(stop.fault(), kExitFailed);
}

}  // namespace

int main(int argc, char** argv) {
  const StartClock clock;
  tune_allocator();
  std::signal(SIGPIPE, SIG_IGN);
  StopSignal stop;
  Options options;
  CLI::App app("Name server for RocketMQ clients. Runs without a file; options override it.",
               "tenon-namesrv");
  app.add_option("--config,-c", options.file, "Configuration file (`tenon config print namesrv`)");
  app.add_option("--port,-p", options.port, "Port, 0: any");
  app.add_option("--host", options.host, "Address to listen on");
  app.add_option("--kv-config", options.kv_config, "File of the key-value configuration");
  app.add_option("--log-level", options.log_level, "trace, debug, info, warn, error, critical, off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "critical", "off"}));
  app.set_version_flag("--version", kVersion);
  try {
    app.parse(argc, argv);
    return serve(options, stop, clock);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? kExitOk : kExitUsage;
  } catch (const std::exception& problem) {
    return failed(problem.what(), kExitFailed);
  }
}
