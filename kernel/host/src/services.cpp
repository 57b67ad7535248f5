#include "services.h"

#include "tenon/base/log.h"

#include <string_view>

namespace tenon::host {
namespace {

const void* find_service(void* ctx, const char* iid) noexcept {
  return iid == nullptr ? nullptr : static_cast<const Services*>(ctx)->find(iid);
}

constexpr std::string_view kHostVersion = TENON_HOST_VERSION;

}  // namespace

Services::Services(const InstanceOptions& options,
                   std::string name,
                   const RegistryOptions& registry,
                   std::shared_ptr<ExecCore> core)
    : component("plugin:" + name),
      clock(options.clock != nullptr ? *options.clock : system_clock()),
      storage_events(options.storage_events),
      replication_events(options.replication_events),
      completion_events(options.completion_events),
      host_name(registry.host_name),
      store_root(options.store_root.string()),
      private_dir(options.private_dir.string()),
      temp_dir(options.temp_dir.string()),
      config(options.options),
      exec(std::make_shared<InstanceExec>(std::move(core), std::move(name))),
      log_table_(tables::kLog),
      exec_table_(tables::kExec) {
  host_.size = sizeof host_;
  host_.abi_major = TENON_ABI_MAJOR;
  host_.abi_minor = TENON_ABI_MINOR;
  host_.ctx = this;
  host_.name = abi_str(host_name);
  host_.version = abi_str(kHostVersion);
  host_.side = registry.side;
  host_.get_interface = find_service;
  exec_table_.workers = exec->workers();
  log_table_.level = TENON_LOG_CRITICAL;
  for (std::int32_t level = TENON_LOG_CRITICAL; level >= TENON_LOG_TRACE; --level) {
    if (log_enabled(static_cast<LogLevel>(level), component)) {
      log_table_.level = level;
    }
  }
}

const void* Services::find(const char* iid) const noexcept {
  const std::string_view id = iid;
  if (id == TENON_HOST_LOG_IID) {
    return &log_table_;
  }
  if (id == TENON_HOST_CONFIG_IID) {
    return &tables::kConfig;
  }
  if (id == TENON_HOST_CLOCK_IID) {
    return &tables::kClock;
  }
  if (id == TENON_HOST_METRICS_IID) {
    return &tables::kMetrics;
  }
  if (id == TENON_HOST_EXEC_IID) {
    return &exec_table_;
  }
  if (id == TENON_HOST_COMPLETION_IID) {
    return &tables::kCompletion;
  }
  if (id == TENON_HOST_BUFFER_IID) {
    return &tables::kBuffer;
  }
  if (id == TENON_HOST_STORAGE_IID && storage_events != nullptr) {
    return &tables::kStorage;
  }
  if (id == TENON_HOST_REPLICATION_IID && replication_events != nullptr) {
    return &tables::kReplication;
  }
  return nullptr;
}

}  // namespace tenon::host
