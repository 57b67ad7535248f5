#include "servers/log_scope.h"

#include "tenon/base/log.h"

namespace tenon::app {

Result<std::unique_ptr<LogScope>> LogScope::open(const LogConfig& config) {
  TENON_TRY(auto log, logging::Logging::create(config.options()));
  return std::unique_ptr<LogScope>(new LogScope(std::move(log)));
}

LogScope::LogScope(std::unique_ptr<logging::Logging> log)
    : log_(std::move(log)) {
  set_log_sink(log_.get());
}

LogScope::~LogScope() {
  set_log_sink(nullptr);
}

}  // namespace tenon::app
