// How much of the machine the process may use.
#pragma once

#include <cstddef>

namespace tenon {

/// Cores that this process may run on: those of its affinity mask (taskset, a container's cpuset), not
/// those of the machine. At least 1. Thread: any.
std::size_t usable_cores() noexcept;

}  // namespace tenon
