// Makes queues and index of a store anew from its log, and cuts the log where recovery would.
#pragma once

#include "tenon/base/result.h"
#include "tenon/store_tool/inspect.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::store_tool {

struct RepairOptions {
  bool apply = false;        ///< else it is only said what would be done
  bool all = false;          ///< all queues and the index, not only those that are wrong
  bool index = false;        ///< the index too, whatever it is like
  bool keep = true;          ///< what goes is moved to the side folder, else it is removed
  std::int64_t wall_ms = 0;  ///< for names
  OpenOptions open{};
  InspectOptions inspect{};
};

struct RepairPlan {
  Inspection found{};
  std::vector<QueueKey> queues{};  ///< made anew
  bool index = false;              ///< made anew
  std::string side{};  ///< where what goes is kept; empty when nothing goes or nothing was done
  bool nothing() const noexcept { return queues.empty() && !index && !found.cut; }
};

/// First everything new is made beside the store, then the old is moved away and the new put in its
/// place; a crash in between leaves a store that the next start, or the next repair, completes. The
/// folder is locked meanwhile. Afterwards the store counts as stopped cleanly.
/// @return kConflict: a broker uses it; kCorrupt: a file of the log is missing, has a wrong size or does
/// not belong there, which only a backup can repair; nothing was changed
Result<RepairPlan> repair(const std::string& root, const RepairOptions& options);

}  // namespace tenon::store_tool
