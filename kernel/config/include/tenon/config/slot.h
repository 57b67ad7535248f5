// A place in a configuration where a plug-in is chosen (plug-in ABI §24.2).
#pragma once

#include "tenon/base/config_node.h"

#include <string>
#include <string_view>

namespace tenon::config {

/// Everything below `options` belongs to the plug-in and is not looked at here.
struct Slot {
  std::string plugin{};   ///< id; empty if the slot is unused or `path` is given
  std::string path{};     ///< absolute path of a file, instead of a search by id
  std::string name{};     ///< for logs; empty = the id
  bool required = true;   ///< false: the program starts without it if it cannot be loaded
  bool deepbind = false;  ///< load with RTLD_DEEPBIND
  ConfigNode options{};   ///< a table, or nothing
  std::string where{};    ///< "file:line:column", "<built-in>" for a default

  /// What the registry's create() takes.
  const std::string& id_or_path() const { return path.empty() ? plugin : path; }
  bool used() const { return !plugin.empty() || !path.empty(); }
};

struct SlotInfo {
  std::string_view doc{};
  std::string_view options_example{};  ///< TOML lines that the example file shows as comments
};

}  // namespace tenon::config
