#include "tenon/store_tool/finding.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::store_tool {

std::string_view to_string(Severity severity) noexcept {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      break;
  }
  return "error";
}

void Findings::add(Finding finding) {
  errors_ += finding.severity == Severity::kError ? 1 : 0;
  warnings_ += finding.severity == Severity::kWarning ? 1 : 0;
  Count& count = counts_[{finding.kind, finding.file}];
  count.severity = std::max(count.severity, finding.severity);
  if (++count.n <= per_place_ && sink_) {
    sink_(finding);
  }
}

void Findings::finish() {
  for (const auto& entry : counts_) {
    if (entry.second.n > per_place_ && sink_) {
      Finding more;
      more.severity = entry.second.severity;
      more.kind = entry.first.first;
      more.file = entry.first.second;
      more.text = fmt::format("{} more of this kind", entry.second.n - per_place_);
      sink_(more);
    }
  }
}

}  // namespace tenon::store_tool
