// Finds, loads, checks and instantiates plug-ins (design: plug-in ABI §3, §19, §21, §24). Files are
// never unloaded.
#pragma once

#include "tenon/abi/plugin.h"
#include "tenon/base/clock.h"
#include "tenon/base/config_node.h"
#include "tenon/base/result.h"
#include "tenon/host/hold.h"
#include "tenon/host/metrics.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tenon::host {

/// Events of a storage instance (tenon.host.storage/1), implemented by the broker. Threads as in
/// plug-in ABI §11.4.
class StorageEvents {
 public:
  virtual ~StorageEvents() = default;
  virtual void progress(const tenon_progress& p) noexcept = 0;
  virtual void arrivals(const tenon_arrival* first, std::size_t stride, std::size_t n) noexcept = 0;
  virtual void index_bits(const tenon_arrival* first,
                          std::size_t stride,
                          std::size_t n,
                          std::uint8_t* bits,
                          std::size_t bits_stride) noexcept = 0;
  virtual tenon_status deliver_time(std::uint32_t level,
                                    std::int64_t store_ms,
                                    std::int64_t& out) noexcept = 0;
  virtual void fault(tenon_status why, std::string_view what) noexcept = 0;
};

/// Events of a replication instance (tenon.host.replication/1).
class ReplicationEvents {
 public:
  virtual ~ReplicationEvents() = default;
  virtual void progress(const tenon_progress& p) noexcept = 0;
  virtual tenon_status close_gate(std::uint64_t epoch, tenon_status why) noexcept = 0;
  virtual tenon_status role_changed(const tenon_role& role) noexcept = 0;
  virtual tenon_status metadata_in(std::uint32_t kind,
                                   std::span<const std::byte> body) noexcept = 0;
  virtual void fault(tenon_status why, std::string_view what) noexcept = 0;
};

/// Receives what plug-ins complete by token (tenon.host.completion/1).
class CompletionEvents {
 public:
  virtual ~CompletionEvents() = default;
  virtual void complete(const tenon_completion* first,
                        std::size_t stride,
                        std::size_t n) noexcept = 0;
};

/// Everything an instance gets from its host. Pointers must outlive the instance; null = service
/// not offered.
struct InstanceOptions {
  std::string name{};                   ///< name of the slot, for logs; default: the plug-in id
  const ConfigNode* options = nullptr;  ///< the plug-in's own `options` table; null = empty
  std::filesystem::path store_root{};   ///< dir(0)
  std::filesystem::path private_dir{};  ///< dir(1); not created by the host
  std::filesystem::path temp_dir{};     ///< dir(2)
  const Clock* clock = nullptr;         ///< null = system clock
  StorageEvents* storage_events = nullptr;
  ReplicationEvents* replication_events = nullptr;
  CompletionEvents* completion_events = nullptr;
  /// How long the destructor waits for open holds and left-over threads before it gives the instance up
  /// (it is then leaked with an error line, because destroying it would crash).
  std::chrono::milliseconds shutdown_timeout{5000};
};

/// An interface adopted by the size rule of plug-in ABI §5: the common prefix copied into a zeroed
/// table of our own. A null member means "not supported". Valid as long as the instance.
template <class Table>
struct Interface {
  Table table{};
  void* self = nullptr;
  const Table* operator->() const noexcept { return &table; }
};

/// A created plug-in instance. States: created → init() → activate() ⇄ deactivate() → destructor
/// (deactivates and destroys). Thread: control; interface() any after init().
class Instance {
 public:
  virtual ~Instance() = default;
  virtual const std::string& id() const noexcept = 0;
  virtual const std::string& name() const noexcept = 0;
  virtual Result<>
  init() = 0;  ///< also reports option keys that nobody read and the descriptor does not list
  virtual Result<> activate() = 0;
  virtual void deactivate() = 0;  ///< idempotent
  /// Asks the plug-in to finish accepted work; true = done already, false = `token` will be completed.
  virtual Result<bool> quiesce(tenon_token token) = 0;
  /// Hands over new options (RELOADABLE keys changed) and lets the plug-in re-read them; on an error it keeps
  /// its old settings. `options` must outlive the instance.
  virtual Result<> reconfigure(const ConfigNode* options) = 0;
  virtual std::vector<std::pair<std::string, std::string>> status() = 0;
  /// All series of the metrics service of this instance. Thread: any.
  virtual std::vector<MetricSample> metrics() const = 0;
  /// Holds of this instance that are open; wrap what a plug-in returns in Hold(instance.holds(), raw).
  virtual HoldCounter& holds() noexcept = 0;
  virtual void* self() const noexcept = 0;
  virtual const void* raw_interface(const char* iid) = 0;

  /// @return kUnsupported if not offered, kInvalid if a member that this interface requires is null
  /// ("tenon.storage/1: member append is null")
  template <class Table>
  Result<Interface<Table>> interface(const char* iid) {
    Interface<Table> adopted;
    TENON_TRY(adopt(iid, &adopted.table, sizeof(Table)));
    adopted.self = self();
    return adopted;
  }

 protected:
  /// Copies min(size, table_bytes), sets the copied size, checks required members of interfaces
  /// that the host knows.
  virtual Result<> adopt(const char* iid, void* table, std::size_t table_bytes) = 0;
};

struct ConfigKeyInfo {
  std::string name{}, type{}, default_text{}, doc{};
  std::uint32_t flags = 0;
};
struct PluginInfo {
  std::string id{}, name{}, vendor{}, version{}, url{}, doc{}, build_info{};
  std::filesystem::path file{};  ///< empty for a statically registered one
  std::uint16_t abi_major = 0, abi_minor = 0;
  std::uint32_t flags = 0;
  std::vector<std::string> interfaces{};
  std::vector<ConfigKeyInfo> keys{};
  std::string refused{};  ///< why the file cannot be used; empty if it can
};

struct RegistryOptions {
  std::vector<std::filesystem::path>
      search_path{};  ///< first hit per id wins; then TENON_PLUGIN_PATH, then default_plugin_dirs()
  std::uint32_t side = 1;  ///< 1 broker, 2 client SDK, 4 name server, 8 test kit
  std::string host_name = "tenon";
  bool insecure = false;        ///< accept files that others may write
  bool use_environment = true;  ///< look at TENON_PLUGIN_PATH and the default directories too
};

/// Directories that hold the plug-ins of this installation: <directory of the
/// executable>/../plugins (build tree), <prefix>/lib/<triplet>/tenon/plugins, and tenon/plugins beside the
/// shared library that contains this code, if it is one.
std::vector<std::filesystem::path> default_plugin_dirs();

/// Plug-ins in a file, found by loading it in a child process: constructors run, and they may crash or hang.
/// Fork happens in here: call it while the process has few threads. Thread: control.
/// @return the refusal as load() gives it; a crash names the signal and the last line of its output, kTimeout if
///         the child did not answer in time and was killed
Result<std::vector<PluginInfo>> probe_in_child(const std::filesystem::path& file,
                                               std::chrono::milliseconds timeout,
                                               bool insecure = false);

/// Thread: control. Instances keep the registry's libraries alive; libraries stay mapped until the
/// process ends.
class PluginRegistry {
 public:
  static std::unique_ptr<PluginRegistry> create(RegistryOptions options);
  virtual ~PluginRegistry() = default;

  /// Registers a linked-in plug-in; wins over files. The entry must have static storage.
  virtual Result<> add_static(const tenon_entry* entry) = 0;
  /// Loads one file now. Every refusal names the file, the reason and the remedy.
  virtual Result<std::vector<PluginInfo>> load(const std::filesystem::path& file) = 0;
  /// All plug-ins of the search path, refused and shadowed files included. Each file is loaded in a child
  /// process (probe_in_child), so that a crashing one does no harm.
  virtual std::vector<PluginInfo> list() = 0;
  virtual Result<PluginInfo> describe(std::string_view id_or_path) = 0;
  /// Creates (not yet inits) an instance of an id, or of the only plug-in in an absolute path.
  /// @return kNotFound: the text lists the directories searched and, if there is one, a similar id
  virtual Result<std::unique_ptr<Instance>> create(std::string_view id_or_path,
                                                   const InstanceOptions& options) = 0;
};

/// Text of a failed ABI call: fills buf, then make_error(status).
class ErrorBuffer {
 public:
  ErrorBuffer() noexcept {
    raw_ = {static_cast<std::uint32_t>(sizeof raw_), 0, 0, 0, text_, sizeof text_, 0};
  }
  tenon_error* raw() noexcept { return &raw_; }
  /// Error of a negative status: unknown codes become kInternal.
  Error make_error(tenon_status status, std::string_view what = {}) const;

 private:
  tenon_error raw_{};
  char text_[512] = {};
};

inline tenon_str abi_str(std::string_view s) noexcept {
  return {s.data(), s.size()};
}
inline std::string_view text(tenon_str s) noexcept {
  return s.len == 0 ? std::string_view{} : std::string_view{s.ptr, s.len};
}

}  // namespace tenon::host
