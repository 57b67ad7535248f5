#include "support/memory.h"

#include <malloc.h>

namespace tenon::app {

void tune_allocator() {
  // glibc makes up to eight arenas per core, each of which keeps its own free memory. The hot paths
  // do not allocate, so the threads do not wait for each other either.
  ::mallopt(M_ARENA_MAX, 2);
  ::mallopt(M_TRIM_THRESHOLD, 256 * 1024);
  ::mallopt(M_MMAP_THRESHOLD, 256 * 1024);
}

void trim_memory() {
  ::malloc_trim(0);
}

}  // namespace tenon::app
