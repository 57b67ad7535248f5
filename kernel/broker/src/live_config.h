// Settings that administrators read and change while the broker runs (spec: broker §2.7). What was
// changed is kept in <store_root>/config/broker.properties and wins over the configuration file at
// the next start; removing a line there goes back to the file.
#pragma once

#include "tenon/base/clock.h"
#include "tenon/base/result.h"
#include "tenon/broker/config.h"
#include "tenon/proto/bodies.h"

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker {

/// Thread: any.
class LiveConfig {
 public:
  LiveConfig(BrokerConfig& config, const Clock& clock);

  /// Applies what was changed in earlier runs. Thread: start, before anybody else reads the
  /// settings. @return kIo, kCorrupt; a line that cannot be applied is logged only
  Result<> load();

  struct Update {
    bool blacklisted = false;         ///< nothing was changed
    bool permission_changed = false;  ///< of the broker: name servers must hear of it
  };
  /// @param properties  `name=value` lines with RocketMQ's names. Unknown names and values that do
  /// not fit are ignored as Java does. Blocks on the disk.
  /// @return kInvalid if a name can only be set at start: nothing was changed; kIo
  Result<Update> update(std::string_view properties);

  /// Adds a setting of another component. Before load().
  void add(std::string name,
           std::function<std::string()> get,
           std::function<bool(std::string_view)> set);

  /// Every setting as `name=value` lines.
  std::string text() const;
  proto::DataVersion version() const;

 private:
  struct Key {
    std::function<std::string()> get{};
    std::function<bool(std::string_view)> set{};  ///< empty: only at start
  };
  template <class T>
  void add_number(std::string name, Live<T>& member, std::int64_t min, std::int64_t max);
  void add_flag(std::string name, Live<bool>& member);
  void add_fixed(std::string name, std::function<std::string()> get);
  void add_live_keys();
  void add_retention_keys();
  void add_fixed_keys();

  BrokerConfig& config_;
  const Clock& clock_;
  std::filesystem::path file_;
  std::map<std::string, Key, std::less<>> keys_{};
  mutable std::mutex mutex_{};  ///< changed_, version_
  std::map<std::string, std::string> changed_{};
  proto::DataVersion version_{};
};

/// Java's properties text: `name=value`, `name: value`, comments with # or !, a backslash before
/// the character it protects. Thread: any.
std::map<std::string, std::string> parse_properties(std::string_view text);

}  // namespace tenon::broker
