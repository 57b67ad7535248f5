// What the commands of the tool share: options of the program, and how results and failures are
// shown.
#pragma once

#include "support/exit_code.h"
#include "support/json.h"
#include "support/stop_signal.h"

#include "tenon/sdk/admin.h"
#include "tenon/sdk/client.h"
#include "tenon/sdk/message.h"
#include "tenon/sdk/result.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::app {

/// Filled by the command line. Thread: main.
struct Context {
  StopSignal& stop;            ///< Ctrl-C; signals are blocked from the start of the program
  std::string namesrv{};       ///< "host:port;host:port"
  bool json = false;           ///< results as JSON on standard output
  bool verbose = false;        ///< log lines on standard error
  std::function<int()> run{};  ///< the chosen command
};

/// Each adds its command with options and help; the command sets Context::run.
void add_dev(CLI::App& app, Context& context);
void add_topic(CLI::App& app, Context& context);
void add_group(CLI::App& app, Context& context);
void add_send(CLI::App& app, Context& context);
void add_consume(CLI::App& app, Context& context);
void add_query(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);
void add_plugin(CLI::App& app, Context& context);
void add_config(CLI::App& app, Context& context);
void add_store(CLI::App& app, Context& context);

/// Says what failed: on standard error, with --json also as {"error":…} on standard output.
/// @return kExitFailed, or the code given
int failed(const Context& context, std::string_view text, int exit_code = kExitFailed);
int failed(const Context& context, const sdk::Error& error);

/// A line of the result on standard output. @return kExitOk
int print_line(std::string_view text);

/// A client of the name servers on the command line.
sdk::Result<sdk::Client> connect(const Context& context, sdk::ClientOptions options = {});

/// Runs `use` with an Admin of such a client.
int with_admin(const Context& context, const std::function<int(sdk::Admin&)>& use);
/// The cluster to work on: the one that was named, or the only one there is.
sdk::Result<std::string> choose_cluster(sdk::Admin& admin, const std::string& wanted);

/// A received message as one line for people, or as members of an open JSON object.
std::string message_line(const sdk::MessageView& message);
void message_json(Json& json, const sdk::MessageView& message);

/// "12.3 MB/s", "4.5 ms": three significant digits.
std::string three_digits(double value);

/// CLI11 check for "250ms", "30s", "5m".
std::string check_duration(const std::string& text);
std::chrono::milliseconds duration_of(const std::string& text);  ///< of a checked text

}  // namespace tenon::app
