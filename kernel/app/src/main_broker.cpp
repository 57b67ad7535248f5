// The broker as a program.
#include "config/broker_program.h"
#include "servers/broker_node.h"
#include "servers/log_scope.h"
#include "servers/server_main.h"
#include "support/memory.h"

#include "tenon/config/toml.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
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
  std::vector<std::string> plugin_path{};
};

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

Result<BrokerProgram> program_of(const Options& o, std::string_view log_level) {
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
  out.log.level = logging::level_of(log_level).value_or(out.log.level);
  out.plugins.search_path.insert(
      out.plugins.search_path.begin(), o.plugin_path.begin(), o.plugin_path.end());
  out.broker.store_root = std::filesystem::absolute(out.broker.store_root);
  TENON_TRY(broker::validate(out.broker));
  return out;
}

int serve(const Options& options, ServerMain& app) {
  auto program = program_of(options, app.log_level());
  if (!program) {
    return app.failed(program.error().detail, kExitUsage);
  }
  const auto log = LogScope::open(program.value().log);
  if (!log) {
    return app.failed(log.error().detail, kExitFailed);
  }
  const std::string store = program.value().broker.store_root.string();
  auto node = BrokerNode::start(std::move(program).value(), app.stop());
  if (!node) {
    return app.failed(node.error().detail, kExitFailed);
  }
  trim_memory();
  fmt::print("serving: broker {} at {}, store {}, started in {:.0f} ms\n",
             node.value()->broker().config().name,
             node.value()->broker().advertised_address(),
             store,
             app.ms_since_start());
  std::fflush(stdout);
  app.stop().wait();
  const std::string fault = app.stop().fault();
  node.value()->stop();
  return fault.empty() ? kExitOk : app.failed(fmt::format("stopped: {}", fault), kExitFailed);
}

}  // namespace

int main(int argc, char** argv) {
  ServerMain app("tenon-broker",
                 "Broker for RocketMQ clients. Runs without a file; options override it.");
  Options options;
  app.options().add_option(
      "--config,-c", options.file, "Configuration file (`tenon config print broker`)");
  app.options().add_option(
      "--namesrv,-n", options.namesrv, "Name servers, host:port;host:port [NAMESRV_ADDR]");
  app.options().add_option("--port,-p", options.port, "Port for clients, 0: any");
  app.options().add_option("--name", options.name, "Name of the broker");
  app.options().add_option("--store", options.store, "Folder of all data");
  app.options().add_option(
      "--plugin-path", options.plugin_path, "Folder to look for plug-ins in first");
  return app.run(argc, argv, [&] { return serve(options, app); });
}
