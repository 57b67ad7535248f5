// The command-line tool.
#include "commands/context.h"
#include "support/memory.h"
#include "support/version.h"

#include <csignal>
#include <cstdlib>
#include <exception>

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
  add_send(app, context);
  add_consume(app, context);
  add_query(app, context);
  add_bench(app, context);
  add_plugin(app, context);
  add_config(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? kExitOk : kExitUsage;
  }
  try {
    return context.run ? context.run() : kExitUsage;
  } catch (const std::exception& problem) {
    return failed(context, problem.what());
  }
}
