// Log back-end of the programs: lines go through a bounded queue to a writer thread, and from there
// to the console and to a file that rolls over. The library's user sees no spdlog.
#pragma once

#include "tenon/base/log.h"
#include "tenon/base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::logging {

struct LogOptions {
  LogLevel level = LogLevel::kInfo;                        ///< of components without their own
  std::vector<std::pair<std::string, LogLevel>> levels{};  ///< component → level
  bool console = true;                                     ///< to standard error
  std::filesystem::path file{};                            ///< empty = no file
  std::uint64_t file_max_bytes = 64u * 1024 * 1024;        ///< then the next file begins
  std::uint32_t file_count = 10;                           ///< kept, the current one not counted
  std::size_t queue_lines = 1024;  ///< waiting lines; beyond, the oldest is dropped and counted
};

/// Receives the lines of one program. The writer thread starts with the first line, so a program
/// that logs nothing pays nothing.
class Logging : public LogSink {
 public:
  /// Opens the file at once, so that a wrong path is a start-up error.
  /// @return kIo: the file cannot be opened, the text names it; kInvalid: queue or file size 0
  static Result<std::unique_ptr<Logging>> create(const LogOptions& options);

  /// Writes what is queued and joins the writer. set_log_sink(nullptr) must come first.
  ~Logging() override = default;

  /// Changes the level of a component, or the default if the name is empty. At most 64 components
  /// can have their own; more are ignored. Thread: any, takes effect at once.
  virtual void set_level(std::string_view component, LogLevel level) = 0;
  virtual LogLevel level(std::string_view component) const = 0;

  /// Lines lost because the writer could not keep up. Thread: any.
  virtual std::uint64_t dropped_count() const = 0;

  /// Waits until the lines written before are on their way to the system. Thread: any but the
  /// writer.
  virtual void flush() = 0;
};

/// "trace" … "critical", "off".
std::optional<LogLevel> level_of(std::string_view word);
std::string_view to_string(LogLevel level);

}  // namespace tenon::logging
