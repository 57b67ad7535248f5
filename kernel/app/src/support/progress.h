// One line on standard error that shows how far a long command is. Nothing if that is no terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::app {

/// Thread: one.
class Progress {
 public:
  /// total 0: unknown
  Progress(std::string_view what, std::uint64_t total, bool wanted = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Redraws at most ten times a second.
  void show(std::uint64_t done);
  /// The same with a total that is known only now.
  void show(std::uint64_t done, std::uint64_t total) {
    total_ = total;
    show(done);
  }
  void clear();

 private:
  std::string what_;
  std::uint64_t total_;
  bool on_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace tenon::app
