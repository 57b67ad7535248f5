// The rule of append-only growth over two layout texts (api/abi/HISTORY.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace abi {

enum class Verdict { kEqual, kAppended, kBroken };

struct Comparison {
  Verdict verdict = Verdict::kEqual;
  std::vector<std::string> differences{};
};

/// Per struct, the old members must be a prefix of the new ones with the same offsets, sizes and signatures; the
/// size may only grow; constants and texts may only be added.
Comparison compare_layouts(std::string_view before, std::string_view after);

}  // namespace abi
