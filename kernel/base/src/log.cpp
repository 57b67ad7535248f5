#include "tenon/base/log.h"

#include <atomic>
#include <cstdio>

namespace tenon {
namespace {

std::atomic<LogSink*> sink_in_use{nullptr};

constexpr const char* kLevelNames[] = {
    "trace", "debug", "info", "warn", "error", "critical", "off"};

}  // namespace

void set_log_sink(LogSink* sink) noexcept {
  sink_in_use.store(sink, std::memory_order_release);
}

bool log_enabled(LogLevel level, std::string_view component) noexcept {
  LogSink* sink = sink_in_use.load(std::memory_order_acquire);
  return sink != nullptr ? sink->enabled(level, component) : level >= LogLevel::kWarn;
}

void log_write(LogLevel level,
               std::string_view component,
               std::string_view text,
               const SourceLocation& where) noexcept {
  if (LogSink* sink = sink_in_use.load(std::memory_order_acquire)) {
    sink->write(level, component, text, where);
    return;
  }
  std::fprintf(stderr,
               "%s %.*s: %.*s\n",
               kLevelNames[static_cast<int>(level)],
               static_cast<int>(component.size()),
               component.data(),
               static_cast<int>(text.size()),
               text.data());
}

}  // namespace tenon
