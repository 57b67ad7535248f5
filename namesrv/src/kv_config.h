// The key-value configuration: namespace → key → value, kept in a JSON file as KVConfigManager
// writes it: {"configTable":{"NAMESPACE":{"key":"value"}}} (spec: broker §21.6).
#pragma once

#include "tenon/base/result.h"
#include "tenon/proto/bodies.h"

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::namesrv {

/// Namespace whose entries say on which queues a topic is ordered.
inline constexpr std::string_view kOrderTopicConfig = "ORDER_TOPIC_CONFIG";

/// Thread: any. put() and erase() write the file before they return.
class KvConfig {
 public:
  /// @param path  empty: nothing is read or written
  explicit KvConfig(std::filesystem::path path)
      : path_(std::move(path)) {}

  /// Reads the file if there is one, its copy `.bak` if the file is missing.
  /// @return kIo, kCorrupt; nothing was changed
  Result<> load();

  /// @return kIo if the file could not be written; the change is in force all the same
  Result<> put(std::string_view space, std::string_view key, std::string_view value);
  Result<> erase(std::string_view space, std::string_view key);
  std::optional<std::string> get(std::string_view space, std::string_view key) const;
  /// nullopt if the namespace does not exist.
  std::optional<proto::KvTable> list(std::string_view space) const;

 private:
  using Table = std::map<std::string, proto::KvTable, std::less<>>;
  Result<> save_locked() const;

  const std::filesystem::path path_;
  mutable std::mutex mutex_{};
  Table table_{};  ///< guarded by mutex_
};

}  // namespace tenon::namesrv
