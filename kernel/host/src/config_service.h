// tenon.host.config/1 of one instance, over a ConfigNode: conversions of plug-in ABI §10, positions, and the
// search for keys that nobody knows.
#pragma once

#include "tenon/abi/host.h"
#include "tenon/base/config_node.h"
#include "tenon/base/result.h"
#include "tenon/host/plugin_registry.h"

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

namespace tenon::host {

/// Thread: control, texts returned by where() are valid until destruction.
class InstanceConfig {
 public:
  explicit InstanceConfig(const ConfigNode* options);

  void replace(const ConfigNode* options);
  const ConfigNode& root() const { return *root_; }

  /// Writes the value as TENON_TYPE_... says. kNotFound without a text if the key is absent.
  Result<> get(const ConfigNode& table, std::string_view key, std::uint32_t type, void* out) const;
  Result<const ConfigNode*> child(const ConfigNode& table,
                                  std::string_view key,
                                  std::uint32_t type) const;
  tenon_str where(const ConfigNode& node, std::string_view key);

  /// Required keys that are absent, before init.
  Result<> check_required(const PluginInfo& plugin) const;
  /// Keys that were neither read nor listed in the descriptor, after init. All of them in one text.
  Result<> check_unknown(const PluginInfo& plugin) const;

 private:
  ConfigNode empty_{};
  const ConfigNode* root_;
  std::mutex mutex_;
  std::deque<std::string> texts_;
};

/// Number of members or elements, 0 for a scalar.
std::size_t node_count(const ConfigNode& node);
/// TENON_TYPE_... of a node.
std::uint32_t node_type(const ConfigNode& node);

}  // namespace tenon::host
