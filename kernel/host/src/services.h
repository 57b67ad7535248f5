// Everything that one instance can reach of its host: the tenon_host object and the tables behind
// get_interface. ctx of all of them is the Services object.
#pragma once

#include "config_service.h"
#include "exec_service.h"
#include "metrics_service.h"

#include "tenon/abi/plugin.h"
#include "tenon/host/hold.h"
#include "tenon/host/plugin_registry.h"

#include <memory>
#include <string>

namespace tenon::host {

/// Thread: any; see the contracts in tenon/abi/host.h. Lives until after destroy of the instance.
class Services {
 public:
  Services(const InstanceOptions& options,
           std::string name,
           const RegistryOptions& registry,
           std::shared_ptr<ExecCore> core);
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  const tenon_host* host() const noexcept { return &host_; }
  const void* find(const char* iid) const noexcept;

  const std::string component;  ///< "plugin:<name>", for log lines
  const Clock& clock;
  StorageEvents* const storage_events;
  ReplicationEvents* const replication_events;
  CompletionEvents* const completion_events;
  const std::string host_name, store_root, private_dir, temp_dir;
  InstanceConfig config;
  InstanceMetrics metrics;
  HoldCounter holds;
  const std::shared_ptr<InstanceExec> exec;

 private:
  tenon_host host_{};
  tenon_host_log log_table_{};
  tenon_host_exec exec_table_{};
};

/// Tables that are the same for every instance.
namespace tables {
extern const tenon_host_log kLog;
extern const tenon_host_config kConfig;
extern const tenon_host_clock kClock;
extern const tenon_host_metrics kMetrics;
extern const tenon_host_exec kExec;
extern const tenon_host_completion kCompletion;
extern const tenon_host_buffer kBuffer;
extern const tenon_host_storage kStorage;
extern const tenon_host_replication kReplication;
}  // namespace tables

}  // namespace tenon::host
