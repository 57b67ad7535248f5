// Log front-end. The program sets the back-end once (tenon::logging, or a plug-in's host log
// service); until then lines of level warn and above go to stderr.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <source_location>
#include <string_view>
#include <type_traits>

namespace tenon {

/// error = somebody must act; warn = degraded or a peer misbehaves; info = state changes an
/// operator asks about; debug = per connection; trace = per request.
enum class LogLevel : std::int8_t {
  kTrace = 0,
  kDebug = 1,
  kInfo = 2,
  kWarn = 3,
  kError = 4,
  kCritical = 5,
  kOff = 6
};

#ifdef __cpp_lib_source_location
using SourceLocation = std::source_location;
#else
/// Stand-in for compilers that libstdc++ gives no std::source_location (clang 14, which builds the
/// fuzz targets).
class SourceLocation {
 public:
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          unsigned line = __builtin_LINE()) noexcept {
    SourceLocation where;
    where.file_ = file;
    where.line_ = line;
    return where;
  }
  constexpr const char* file_name() const noexcept { return file_; }
  constexpr unsigned line() const noexcept { return line_; }

 private:
  const char* file_ = "";
  unsigned line_ = 0;
};
#endif

/// Receives finished lines. Thread: any; must not block for long and must not throw.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual bool enabled(LogLevel level, std::string_view component) noexcept = 0;
  virtual void write(LogLevel level,
                     std::string_view component,
                     std::string_view text,
                     const SourceLocation& where) noexcept = 0;
};

/// Replaces the back-end; nullptr restores stderr. The sink must outlive its use. Thread: any,
/// meant for start-up and shutdown.
void set_log_sink(LogSink* sink) noexcept;

bool log_enabled(LogLevel level, std::string_view component) noexcept;
void log_write(LogLevel level,
               std::string_view component,
               std::string_view text,
               const SourceLocation& where) noexcept;

/// Format string that also captures where it was written.
template <class... Args>
struct LogText {
  template <class S>
  consteval LogText(const S& s, SourceLocation w = SourceLocation::current())
      : text(s),
        where(w) {}  // NOLINT(google-explicit-constructor)
  fmt::format_string<Args...> text;
  SourceLocation where;
};

/// log(LogLevel::kInfo, "broker", "topic created topic={} queues={}", topic, queues): lower-case
/// sentence fragment, then key=value.
template <class... Args>
void log(LogLevel level,
         std::string_view component,
         LogText<std::type_identity_t<Args>...> format,
         Args&&... args) noexcept {
  if (!log_enabled(level, component)) {
    return;
  }
  try {
    log_write(
        level, component, fmt::format(format.text, std::forward<Args>(args)...), format.where);
  } catch (...) {  // a failed format must never take a request down
    log_write(level, component, "log line could not be formatted", format.where);
  }
}

template <class... Args>
void log_debug(std::string_view component,
               LogText<std::type_identity_t<Args>...> format,
               Args&&... args) noexcept {
  log<Args...>(LogLevel::kDebug, component, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(std::string_view component,
              LogText<std::type_identity_t<Args>...> format,
              Args&&... args) noexcept {
  log<Args...>(LogLevel::kInfo, component, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warn(std::string_view component,
              LogText<std::type_identity_t<Args>...> format,
              Args&&... args) noexcept {
  log<Args...>(LogLevel::kWarn, component, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(std::string_view component,
               LogText<std::type_identity_t<Args>...> format,
               Args&&... args) noexcept {
  log<Args...>(LogLevel::kError, component, format, std::forward<Args>(args)...);
}

}  // namespace tenon
