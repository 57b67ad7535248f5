// A loaded plug-in file or a linked-in plug-in: entry, factory, descriptors. Files stay mapped until the
// process ends (plug-in ABI §22); only init and deinit are counted.
#pragma once

#include "tenon/host/plugin_registry.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::host {

/// Thread: control.
class Library {
 public:
  virtual ~Library() = default;
  virtual const tenon_factory& factory() const = 0;
  virtual const std::vector<PluginInfo>& plugins() const = 0;
  virtual const std::filesystem::path& file() const = 0;  ///< empty if linked in

  const PluginInfo* find(std::string_view id) const;

  /// Loads a file or finds it loaded. The entry is inited as long as somebody keeps the result.
  /// @return errors with the whole refusal: file, reason, remedy
  static Result<std::shared_ptr<const Library>> open(const std::filesystem::path& file,
                                                     bool insecure);
  static Result<std::shared_ptr<const Library>> open_static(const tenon_entry* entry);
};

/// True if others than root and the owner may write the file or folder. Trap: a group counts as "others" unless it
/// is root's or the process's own.
bool writable_by_others(const std::filesystem::path& path);

/// A number-wise comparison of versions: 1.10.0 > 1.9, 1.0 < 1.0.1. <0, 0, >0.
int compare_versions(std::string_view a, std::string_view b);

/// "tenon.config_key.type" as text: bool, int, float, string, duration, size, array, table.
std::string_view config_type_name(std::uint32_t type);

}  // namespace tenon::host
