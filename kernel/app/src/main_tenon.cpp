// The command-line tool.
#include "commands/context.h"
#include "support/memory.h"
#include "support/version.h"

#include "tenon/base/similar.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    names.push_back(command->get_name());
  }
  return names;
}

/// The word where a command should stand, if it is none: "topci" of `tenon --json topci list`.
std::string_view unknown_command(std::span<const std::string> names, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--namesrv") {
      ++i;
    } else if (!word.starts_with('-')) {
      return std::find(names.begin(), names.end(), word) == names.end() ? word : std::string_view{};
    }
  }
  return {};
}

int usage_problem(const CLI::App& app, const CLI::ParseError& problem, int argc, char** argv) {
  const std::vector<std::string> names = command_names(app);
  const std::string_view word = unknown_command(names, argc, argv);
  if (word.empty()) {
    return app.exit(problem) == 0 ? tenon::app::kExitOk : tenon::app::kExitUsage;
  }
  std::fprintf(stderr,
               "tenon: there is no command \"%.*s\"%s; see tenon --help\n",
               static_cast<int>(word.size()),
               word.data(),
               tenon::did_you_mean(word, std::span<const std::string>(names)).c_str());
  return tenon::app::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenon::app;
  tune_allocator();
  StopSignal stop;
  Context context{.stop = stop};

  CLI::App app(
      "Tenon, a message broker for RocketMQ clients.\n"
      "Try it: `tenon dev` starts a name server and a broker; then in another terminal\n"
      "  tenon consume --topic Hello\n"
      "  tenon send --topic Hello --body 'first message'",
      "tenon");
  const char* from_environment = std::getenv("NAMESRV_ADDR");
  context.namesrv = from_environment != nullptr ? from_environment : "127.0.0.1:9876";
  app.add_option("--namesrv", context.namesrv, "Name servers, host:port;host:port [NAMESRV_ADDR]")
      ->capture_default_str();
  app.add_flag("--json", context.json, "Results as JSON on standard output");
  app.add_flag("--verbose,-v", context.verbose, "Log lines on standard error");
  app.set_version_flag("--version", kVersion);
  app.fallthrough();  // --namesrv and --json may follow the command
  app.require_subcommand(1);
  app.get_formatter()->column_width(36);
  add_dev(app, context);
  add_topic(app, context);
  add_group(app, context);
  add_send(app, context);
  add_consume(app, context);
  add_query(app, context);
  add_bench(app, context);
  add_plugin(app, context);
  add_config(app, context);
  add_store(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return usage_problem(app, problem, argc, argv);
  }
  try {
    return context.run ? context.run() : kExitUsage;
  } catch (const std::exception& problem) {
    return failed(context, problem.what());
  }
}
