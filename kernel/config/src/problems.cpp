#include "tenon/config/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace tenon::config {

void Problems::add(const ConfigNode& at, std::string_view text) {
  entries_.push_back({at.line, at.column, fmt::format("{}: {}", at.where(), text)});
}

std::vector<std::string> Problems::lines() const {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_) {
    order.push_back(&entry);
  }
  std::stable_sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return std::tie(a->line, a->column) < std::tie(b->line, b->column);
  });
  order.resize(std::min(order.size(), kShownMax));
  std::vector<std::string> out;
  for (const Entry* entry : order) {
    out.push_back(entry->text);
  }
  return out;
}

Result<> Problems::result() const {
  if (entries_.empty()) {
    return ok();
  }
  std::string text = count() == 1 ? std::string("1 problem in the configuration")
                                  : fmt::format("{} problems in the configuration", count());
  for (const std::string& line : lines()) {
    text += "\n  " + line;
  }
  if (count() > kShownMax) {
    text += fmt::format("\n  and {} more", count() - kShownMax);
  }
  return Error{Errc::kInvalid, std::move(text)};
}

}  // namespace tenon::config
