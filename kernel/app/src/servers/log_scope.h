// The log of a server program, from configuration to the last line.
#pragma once

#include "config/common_keys.h"

#include "tenon/base/result.h"
#include "tenon/logging/logging.h"

#include <memory>

namespace tenon::app {

/// Lines go to the configured places while this exists. Thread: main.
class LogScope {
 public:
  static Result<std::unique_ptr<LogScope>> open(const LogConfig& config);
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  explicit LogScope(std::unique_ptr<logging::Logging> log);
  std::unique_ptr<logging::Logging> log_;
};

}  // namespace tenon::app
