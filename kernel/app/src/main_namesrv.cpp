// The name server as a program.
#include "config/namesrv_program.h"
#include "servers/log_scope.h"
#include "servers/server_main.h"
#include "support/memory.h"

#include "tenon/config/toml.h"
#include "tenon/namesrv/name_server.h"

#include <fmt/format.h>

#include <cstdio>
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
};

Result<NamesrvProgram> program_of(const Options& o, std::string_view log_level) {
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
  out.log.level = logging::level_of(log_level).value_or(out.log.level);
  return out;
}

int serve(const Options& options, ServerMain& app) {
  const auto program = program_of(options, app.log_level());
  if (!program) {
    return app.failed(program.error().detail, kExitUsage);
  }
  const auto log = LogScope::open(program.value().log);
  if (!log) {
    return app.failed(log.error().detail, kExitFailed);
  }
  const auto server = namesrv::NameServer::start(program.value().namesrv);
  if (!server) {
    return app.failed(server.error().detail, kExitFailed);
  }
  trim_memory();
  fmt::print("serving: name server at {}:{}, started in {:.0f} ms\n",
             program.value().namesrv.listen_host,
             server.value()->port(),
             app.ms_since_start());
  std::fflush(stdout);
  app.stop().wait();
  server.value()->stop();
  return app.stop().fault().empty() ? kExitOk : app.failed(app.stop().fault(), kExitFailed);
}

}  // namespace

int main(int argc, char** argv) {
  ServerMain app("tenon-namesrv",
                 "Name server for RocketMQ clients. Runs without a file; options override it.");
  Options options;
  app.options().add_option(
      "--config,-c", options.file, "Configuration file (`tenon config print namesrv`)");
  app.options().add_option("--port,-p", options.port, "Port, 0: any");
  app.options().add_option("--host", options.host, "Address to listen on");
  app.options().add_option("--kv-config", options.kv_config, "File of the key-value configuration");
  return app.run(argc, argv, [&] { return serve(options, app); });
}
