// Everything that tenon-broker reads from its file.
#pragma once

#include "config/common_keys.h"

#include "tenon/base/result.h"
#include "tenon/broker/broker.h"
#include "tenon/broker/config.h"
#include "tenon/config/slot.h"
#include "tenon/host/plugin_registry.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::app {

struct BrokerProgram {
  broker::BrokerConfig broker{};
  LogConfig log{};
  PluginConfig plugins{};
  config::Slot storage{.plugin = "tenon.store.file"};
  std::vector<config::Slot> filters{config::Slot{.plugin = "tenon.filter.tag"},
                                    config::Slot{.plugin = "tenon.filter.sql92"}};

  /// The slots as the broker takes them; points into this object.
  broker::PluginSlots slots() const;
};

/// @param storage_options  lines that the example shows below [storage]
void describe(config::Visitor& v, BrokerProgram& c, std::string_view storage_options = {});

/// @return kInvalid with all problems of the file, one line each
Result<BrokerProgram> read_broker_program(const ConfigNode& root);

/// The example file with every key, the options of the default storage plug-in included if the
/// registry finds it.
std::string broker_example(host::PluginRegistry& registry);

}  // namespace tenon::app
