// What the server programs have in common: process set-up, options that each has, exit codes, how a failure is told.
#pragma once

#include "support/exit_code.h"
#include "support/ready.h"
#include "support/stop_signal.h"

#include <CLI/App.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace tenon::app {

/// One object in main, made first: start-up time counts from here. Thread: main.
class ServerMain {
 public:
  ServerMain(std::string name, const std::string& about);

  CLI::App& options() noexcept { return app_; }
  StopSignal& stop() noexcept { return stop_; }
  double ms_since_start() const { return clock_.ms(); }
  const std::string& log_level() const noexcept { return log_level_; }  ///< empty: not given

  /// Parses the command line and serves. @return the exit code of the program
  int run(int argc, char** argv, const std::function<int()>& serve);
  /// Writes "<program>: text" to standard error. @return code
  int failed(std::string_view text, int code) const;

 private:
  StartClock clock_{};
  std::string name_;
  StopSignal stop_;
  CLI::App app_;
  std::string log_level_{};
};

}  // namespace tenon::app
