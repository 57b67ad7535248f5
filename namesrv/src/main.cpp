// tenon-namesrv: the name server as a program.
//
//   tenon-namesrv [-c FILE] [--host ADDRESS] [--port PORT] [--kv-config FILE]
//
// Prints one line when it serves, ends on SIGINT and SIGTERM. Exit codes: 0 after a clean stop, 1 if
// it could not start, 2 for a wrong command line.
#include "tenon/config/problems.h"
#include "tenon/config/reader.h"
#include "tenon/config/toml.h"
#include "tenon/namesrv/name_server.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include <pthread.h>
#include <signal.h>

namespace {

using namespace tenon;

constexpr std::string_view kUsage =
    "usage: tenon-namesrv [-c FILE] [--host ADDRESS] [--port PORT] [--kv-config FILE]\n";

struct Arguments {
  std::string file{};
  std::optional<std::string> host{};
  std::optional<std::uint16_t> port{};
  std::optional<std::string> kv_config{};
};

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) {
      return std::nullopt;
    }
    const std::string_view value = argv[i + 1];
    if (name == "-c" || name == "--config") {
      a.file = value;
    } else if (name == "--host") {
      a.host = value;
    } else if (name == "--kv-config") {
      a.kv_config = value;
    } else if (name == "--port") {
      std::uint16_t port = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), port);
      if (error != std::errc{} || end != value.data() + value.size()) {
        return std::nullopt;
      }
      a.port = port;
    } else {
      return std::nullopt;
    }
  }
  return a;
}

Result<namesrv::NamesrvConfig> load(const Arguments& a) {
  namesrv::NamesrvConfig config;
  if (!a.file.empty()) {
    TENON_TRY(const ConfigNode root, config::parse_toml_file(a.file));
    config::Problems problems;
    config::Reader reader(root, problems);
    namesrv::describe(reader, config);
    reader.finish();
    TENON_TRY(problems.result());
  }
  config.listen_host = a.host.value_or(config.listen_host);
  config.listen_port = a.port.value_or(config.listen_port);
  config.kv_config_path = a.kv_config.value_or(config.kv_config_path);
  return config;
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  if (!arguments) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  // Blocked before any thread exists, so that only the wait below sees them.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto config = load(*arguments);
  if (!config) {
    fmt::print(stderr, "tenon-namesrv: {}\n", config.error().detail);
    return 1;
  }
  const std::string host = config.value().listen_host;
  auto server = namesrv::NameServer::start(std::move(config).value());
  if (!server) {
    fmt::print(stderr, "tenon-namesrv: {}\n", server.error().detail);
    return 1;
  }
  fmt::print("name server serves on {}:{}\n", host, server.value()->port());
  std::fflush(stdout);
  int received = 0;
  ::sigwait(&signals, &received);
  server.value()->stop();
  return 0;
}
