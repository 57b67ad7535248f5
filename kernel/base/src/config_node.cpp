#include "tenon/base/config_node.h"

#include <fmt/format.h>

namespace tenon {

const ConfigNode* ConfigNode::find(std::string_view key) const {
  if (const auto* table = std::get_if<Table>(&value)) {
    for (const auto& [name, node] : *table) {
      if (name == key) {
        node.read = true;
        return &node;
      }
    }
  }
  return nullptr;
}

ConfigNode& ConfigNode::set(std::string_view key, ConfigNode node) {
  if (!std::holds_alternative<Table>(value)) {
    value = Table{};
  }
  auto& table = std::get<Table>(value);
  for (auto& [name, existing] : table) {
    if (name == key) {
      existing = std::move(node);
      return existing;
    }
  }
  return table.emplace_back(std::string(key), std::move(node)).second;
}

std::string ConfigNode::where() const {
  return file.empty() ? std::string("<built-in>") : fmt::format("{}:{}:{}", file, line, column);
}

std::string_view ConfigNode::type_name() const {
  static constexpr std::string_view kNames[] = {
      "nothing", "boolean", "integer", "float", "string", "array", "table"};
  return kNames[value.index()];
}

}  // namespace tenon
