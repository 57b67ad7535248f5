#include "servers/server_main.h"

#include "support/memory.h"
#include "support/version.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <csignal>
#include <cstdio>
#include <exception>
#include <utility>

namespace tenon::app {
namespace {

/// Before any thread is made.
StopSignal prepared_process() {
  tune_allocator();
  std::signal(SIGPIPE, SIG_IGN);
  return StopSignal{};
}

}  // namespace

ServerMain::ServerMain(std::string name, const std::string& about)
    : name_(std::move(name)),
      stop_(prepared_process()),
      app_(about, name_) {
  app_.add_option("--log-level", log_level_, "trace, debug, info, warn, error, critical, off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "critical", "off"}));
  app_.set_version_flag("--version", kVersion);
}

int ServerMain::run(int argc, char** argv, const std::function<int()>& serve) {
  try {
    app_.parse(argc, argv);
    return serve();
  } catch (const CLI::ParseError& problem) {
    return app_.exit(problem) == 0 ? kExitOk : kExitUsage;
  } catch (const std::exception& problem) {
    return failed(problem.what(), kExitFailed);
  }
}

int ServerMain::failed(std::string_view text, int code) const {
  std::fprintf(stderr, "%s: %.*s\n", name_.c_str(), static_cast<int>(text.size()), text.data());
  return code;
}

}  // namespace tenon::app
