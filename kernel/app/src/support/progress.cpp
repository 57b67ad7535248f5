#include "support/progress.h"

#include <fmt/format.h>

#include <cstdio>

#include <unistd.h>

namespace tenon::app {

Progress::Progress(std::string_view what, std::uint64_t total, bool wanted)
    : what_(what),
      total_(total),
      on_(wanted && ::isatty(STDERR_FILENO) != 0),
      begin_(std::chrono::steady_clock::now()),
      next_(begin_) {}

Progress::~Progress() {
  clear();
}

void Progress::show(std::uint64_t done) {
  const auto now = std::chrono::steady_clock::now();
  if (!on_ || now < next_) {
    return;
  }
  next_ = now + std::chrono::milliseconds(100);
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string line = total_ == 0
                         ? fmt::format("{} {}", what_, done)
                         : fmt::format("{} {}/{} ({} %)", what_, done, total_, done * 100 / total_);
  line += fmt::format(", {:.0f}/s", rate);
  if (total_ != 0 && rate > 0 && done < total_) {
    line += fmt::format(", {:.0f} s left", static_cast<double>(total_ - done) / rate);
  }
  std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) {
    std::fputs("\r\x1b[K", stderr);
    std::fflush(stderr);
    drawn_ = false;
  }
}

}  // namespace tenon::app
