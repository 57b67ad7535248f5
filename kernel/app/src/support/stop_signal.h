// Waits for SIGINT, SIGTERM, SIGHUP or for the program's own wish to stop.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::app {

/// Construct it in main before any thread starts: it blocks the signals, and threads inherit that.
/// A second signal while the program is stopping ends it at once (exit code 130).
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Makes wait() return. The first reason stays. Thread: any.
  void request(std::string_view fault);

  /// @return false if the time is over. Thread: one.
  bool wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  /// Text of request(), empty if a signal came. Thread: any.
  std::string fault() const;

 private:
  int signals_ = -1;
  int request_ = -1;
  bool signalled_ = false;
  mutable std::mutex mutex_;
  std::string fault_;
};

}  // namespace tenon::app
