// The broker as a program.
#include "config/broker_program.h"
#include "servers/broker_node.h"
#include "servers/log_scope.h"
#include "support/exit_code.h"
#include "support/memory.h"
#include "support/ready.h"
#include "support/stop_signal.h"
#include "support/version.h"

#include "tenon/config/toml.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

namespace {

using namespace tenon;
using namespace tenon::app;

/// Options that override the file.
struct Options {
  std::string file{};
  std::optional<std::uint16_t> port{};
  std::optional<std::string> name{};
  std::optional<std::string> store{};
  std::string namesrv{};
  std::string log_level{};
  std::vector<std::string> plugin_path{};
};

int failed(std::string_view text, int code) {
  std::fprintf(stderr, "tenon-broker: %.*s\n", static_cast<int>(text.size()), text.data());
  return code;
}

std::vector<std::string> split_addresses(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = text.find(';');
    if (end != 0) {
      out.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

Result<BrokerProgram> program_of(const Options& o) {
  BrokerProgram out;
  if (!o.file.empty()) {
    TENON_TRY(const ConfigNode root, config::parse_toml_file(o.file));
    TENON_TRY(out, read_broker_program(root));
  }
  out.broker.port = o.port.value_or(out.broker.port);
  out.broker.name = o.name.value_or(out.broker.name);
  if (o.store) {
    out.broker.store_root = *o.store;
  }
  if (!o.namesrv.empty()) {
    out.broker.namesrv = split_addresses(o.namesrv);
  } else if (const char* env = std::getenv("NAMESRV_ADDR");
             env != nullptr && out.broker.namesrv.empty()) {
    out.broker.namesrv = split_addresses(env);
  }
  out.log.level = logging::level_of(o.log_level).value_or(out.log.level);
  out.plugins.search_path.insert(
      out.plugins.search_path.begin(), o.plugin_path.begin(), o.plugin_path.end());
  out.broker.store_root = std::filesystem::absolute(out.broker.store_root);
  TENON_TRY(broker::validate(out.broker));
  return out;
}

int serve(const Options& options, StopSignal& stop, const StartClock& clock) {
  auto program = program_of(options);
  if (!program) {
    return failed(program.error().detail, kExitUsage);
  }
  const auto log = LogScope::open(program.value().log);
  if (!log) {
    return failed(log.error().detail, kExitFailed);
  }
  const std::string store = program.value().broker.store_root.string();
  auto node = BrokerNode::start(std::move(program).value(), stop);
  if (!node) {
    return failed(node.error().detail, kExitFailed);
  }
  trim_memory();
  fmt::print("serving: broker {} at {}, store {}, started in {:.0f} ms\n",
             node.value()->broker().config().name,
             node.value()->broker().advertised_address(),
             store,
             clock.ms());
  std::fflush(stdout);
  stop.wait();
  const std::string fault = stop.fault();
  node.value()->stop();
  return fault.empty() ? kExitOk : failed(fmt::format("stopped: {}", fault), kExitFailed);
}

}  // namespace

int main(int argc, char** argv) {
  const StartClock clock;
  tune_allocator();
  std::signal(SIGPIPE, SIG_IGN);
  StopSignal stop;
  Options options;
  CLI::App app("Broker for RocketMQ clients. Runs without a file; options override it.",
               "tenon-broker");
  app.add_option("--config,-c", options.file, "Configuration file (`tenon config print broker`)");
  app.add_option(
      "--namesrv,-n", options.namesrv, "Name servers, host:port;host:port [NAMESRV_ADDR]");
  app.add_option("--port,-p", options.port, "Port for clients, 0: any");
  app.add_option("--name", options.name, "Name of the broker");
  app.add_option("--store", options.store, "Folder of all data");
  app.add_option("--plugin-path", options.plugin_path, "Folder to look for plug-ins in first");
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
