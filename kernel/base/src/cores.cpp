#include "tenon/base/cores.h"

#include <algorithm>
#include <thread>

#include <sched.h>

namespace tenon {

std::size_t usable_cores() noexcept {
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) {
    return static_cast<std::size_t>(std::max(1, CPU_COUNT(&mask)));
  }
  return std::max(1u, std::thread::hardware_concurrency());  // more cores than a mask counts
}

}  // namespace tenon
