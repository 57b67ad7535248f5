// A configuration value as a tree that remembers where it stood in the file and whether somebody
// read it. tenon::config fills it from TOML; tenon::host shows a plug-in its own part of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tenon {

/// Thread: written by one thread while loading, then read-only except for the `read` marks, which
/// belong to the control thread.
struct ConfigNode {
  using Array = std::vector<ConfigNode>;
  using Table = std::vector<std::pair<std::string, ConfigNode>>;  ///< in file order
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Table> value{};
  std::string file{};  ///< empty for values that did not come from a file
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  mutable bool read =
      false;  ///< somebody asked for it; what nobody asked for is reported as an unknown key

  const ConfigNode* find(std::string_view key)
      const;  ///< member of a table, nullptr if absent or not a table; marks it as read
  ConfigNode& set(
      std::string_view key,
      ConfigNode node);       ///< makes this a table if it is none; replaces an existing member
  std::string where() const;  ///< "file:line:column", or "<built-in>" without a file
  std::string_view type_name() const;
};

}  // namespace tenon
