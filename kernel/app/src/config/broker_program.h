// Everything that tenon-broker reads from its file.
#pragma once

#include "config/common_keys.h"

#include "tenon/base/result.h"
#include "tenon/broker/broker.h"
#include "tenon/broker/config.h"
#include "tenon/config/slot.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tenon::app {

struct BrokerProgram {
  broker::BrokerConfig broker{};
  LogConfig log{};
  PluginConfig plugins{};
  config::Slot storage{.plugin = "tenon.store.file"};
  std::vector<config::Slot> filters{config::Slot{.plugin = "tenon.filter.tag"}};

  /// The slots as the broker takes them; points into this object.
  broker::PluginSlots slots() const;
};

void describe(config::Visitor& v, BrokerProgram& c);

/// @return kInvalid with all problems of the file, one line each
Result<BrokerProgram> read_broker_program(const ConfigNode& root);

/// The example file with every key.
std::string broker_example();

}  // namespace tenon::app
