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

  config::Slot txn_check{.plugin = "tenon.txn.default"};

  /// The slots as the broker takes them; points into this object.
  broker::PluginSlots slots() const;
};

/// Lines that the example shows below a slot.
struct SlotExamples {
  std::string storage{};
  std::string txn_check{};
};
void describe(config::Visitor& v, BrokerProgram& c, const SlotExamples& examples = {});

/// @return kInvalid with all problems of the file, one line each
Result<BrokerProgram> read_broker_program(const ConfigNode& root);

/// The example file with every key, the options of the default plug-ins included if the
/// registry finds it.
std::string broker_example(host::PluginRegistry& registry);

}  // namespace tenon::app
