// What a process has used so far, read from /proc.
#pragma once

#include "tenon/base/result.h"

#include <cstdint>

#include <sys/types.h>

namespace tenon::app {

struct ProcessStats {
  double cpu_seconds = 0;            ///< user and system time of all threads
  std::uint64_t rss_anon_bytes = 0;  ///< memory that is not backed by a file
};

/// pid 0: this process. @return kNotFound if there is no such process or it may not be seen
Result<ProcessStats> process_stats(pid_t pid = 0);

}  // namespace tenon::app
