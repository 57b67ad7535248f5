// The instance of a plug-in with its services and its state machine.
#pragma once

#include "library.h"
#include "services.h"

#include "tenon/host/plugin_registry.h"

#include <memory>
#include <string>

namespace tenon::host {

/// Creates (does not init) an instance of a plug-in of the library.
/// @return kConflict for a second instance of a singleton, or of a plug-in that owns state on one folder
Result<std::unique_ptr<Instance>> create_instance(std::shared_ptr<const Library> library,
                                                  const PluginInfo& plugin,
                                                  const InstanceOptions& options,
                                                  const RegistryOptions& registry,
                                                  std::shared_ptr<ExecCore> core);

}  // namespace tenon::host
