#include "support/process_stats.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

namespace tenon::app {

Result<ProcessStats> process_stats(pid_t pid) {
  const std::string folder = pid == 0 ? std::string("/proc/self") : fmt::format("/proc/{}", pid);
  std::ifstream stat(folder + "/stat");
  std::string line;
  if (!std::getline(stat, line) || line.rfind(')') == std::string::npos) {
    return Error{Errc::kNotFound, fmt::format("process {} cannot be looked at", pid)};
  }
  // The name in parentheses may contain blanks; after it come state and numbers, proc(5): utime and
  // stime are fields 14 and 15 of the line.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) {
    fields >> skipped;
  }
  std::uint64_t user = 0, system = 0;
  fields >> user >> system;
  ProcessStats out;
  out.cpu_seconds =
      static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::ifstream status(folder + "/status");
  while (std::getline(status, line)) {
    if (line.starts_with("RssAnon:")) {
      out.rss_anon_bytes = std::stoull(line.substr(8)) * 1024;
    }
  }
  return out;
}

}  // namespace tenon::app
