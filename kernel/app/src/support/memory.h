// Settings of the allocator for the servers.
#pragma once

namespace tenon::app {

/// Few arenas, early return of freed memory. Call first in main: threads that exist already keep
/// their arena.
void tune_allocator();

/// Gives back what start-up and recovery have used and freed.
void trim_memory();

}  // namespace tenon::app
