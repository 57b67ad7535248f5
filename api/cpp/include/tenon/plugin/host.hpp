// The host as a C++ plug-in sees it: services adopted by the size rule, configuration with
// defaults, log helpers.
#pragma once

#include "tenon/abi/entry.h"
#include "tenon/abi/host.h"
#include "tenon/abi/replication.h"
#include "tenon/abi/storage.h"
#include "tenon/plugin/views.hpp"

#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::plugin {

/// A size in bytes, to ask the configuration for one: config.get("file", ByteSize{1 << 30}).
struct ByteSize {
  std::uint64_t value = 0;
};

/// A table of the configuration. Keys that are read are thereby known to the host; unknown ones are
/// reported as errors with their position. Thread: control. Throws Failure with file:line:column.
class Config {
 public:
  Config(const tenon_host_config* api, void* ctx, const tenon_node* node) noexcept
      : api_(api),
        ctx_(ctx),
        node_(node) {}

  /// The value, or nothing if the key is absent. T: bool, an integer type (range checked), double,
  /// std::string, std::chrono::milliseconds, ByteSize.
  template <class T>
  std::optional<T> find(std::string_view key) const {
    if constexpr (std::same_as<T, bool>) {
      const auto v = raw<std::uint32_t>(key, TENON_TYPE_BOOL);
      return v ? std::optional<T>(*v != 0) : std::nullopt;
    } else if constexpr (std::same_as<T, std::chrono::milliseconds>) {
      const auto v = raw<std::int64_t>(key, TENON_TYPE_DURATION);
      return v ? std::optional<T>(T(*v)) : std::nullopt;
    } else if constexpr (std::same_as<T, ByteSize>) {
      const auto v = raw<std::uint64_t>(key, TENON_TYPE_BYTES);
      return v ? std::optional<T>(T{*v}) : std::nullopt;
    } else if constexpr (std::same_as<T, std::string>) {
      const auto v = raw<tenon_str>(key, TENON_TYPE_STRING);
      return v ? std::optional<T>(text(*v)) : std::nullopt;
    } else if constexpr (std::floating_point<T>) {
      const auto v = raw<double>(key, TENON_TYPE_FLOAT);
      return v ? std::optional<T>(static_cast<T>(*v)) : std::nullopt;
    } else {
      static_assert(std::integral<T>, "bool, integer, float, string, milliseconds or ByteSize");
      const auto v = raw<std::int64_t>(key, TENON_TYPE_INT);
      if (v && !std::in_range<T>(*v)) {
        reject(key, "is out of range");
      }
      return v ? std::optional<T>(static_cast<T>(*v)) : std::nullopt;
    }
  }
  /// The value, or the default if the key is absent.
  template <class T>
  T get(std::string_view key, T default_value) const {
    return find<T>(key).value_or(std::move(default_value));
  }
  std::string get(std::string_view key, const char* default_value) const {
    return find<std::string>(key).value_or(default_value);
  }
  /// The value; an absent key is an error.
  template <class T>
  T require(std::string_view key) const {
    auto v = find<T>(key);
    if (!v) {
      reject(key, "is required");
    }
    return *std::move(v);
  }
  /// Sub-table or array, if present.
  std::optional<Config> table(std::string_view key) const { return child(key, TENON_TYPE_TABLE); }
  std::optional<Config> array(std::string_view key) const { return child(key, TENON_TYPE_ARRAY); }
  std::size_t size() const noexcept { return api_->count(ctx_, node_); }
  /// Element i of an array; read its scalar with an empty key.
  Config at(std::size_t i) const {
    const tenon_node* out = nullptr;
    if (api_->at(ctx_, node_, i, nullptr, nullptr, &out) < 0) {
      throw Failure(TENON_NOT_FOUND, "array element " + std::to_string(i) + " is absent");
    }
    return {api_, ctx_, out};
  }
  std::string where(std::string_view key) const {
    return std::string(text(api_->where(ctx_, node_, str(key))));
  }
  /// Throws "<key> <complaint> at file:line:column".
  [[noreturn]] void reject(std::string_view key, std::string_view complaint) const {
    throw Failure(TENON_INVALID,
                  std::string(key) + " " + std::string(complaint) + " at " + where(key));
  }

 private:
  template <class Raw>
  std::optional<Raw> raw(std::string_view key, std::uint32_t type) const {
    Raw out{};
    ErrorText err;
    const tenon_status status = api_->get(ctx_, node_, str(key), type, &out, err.raw());
    if (status == TENON_NOT_FOUND) {
      return std::nullopt;
    }
    err.check(status);
    return out;
  }
  std::optional<Config> child(std::string_view key, std::uint32_t type) const {
    const tenon_node* out = nullptr;
    ErrorText err;
    const tenon_status status = api_->child(ctx_, node_, str(key), type, &out, err.raw());
    if (status == TENON_NOT_FOUND) {
      return std::nullopt;
    }
    err.check(status);
    return Config{api_, ctx_, out};
  }

  const tenon_host_config* api_;
  void* ctx_;
  const tenon_node* node_;
};

/// Services of the host for one instance; lives as long as the instance. The tables are public:
/// call host.exec.post(host.ctx(), ...). A service that the host does not offer has size 0. Log
/// helpers: any thread. Before fetch() (that is: in `create`) nothing may be called.
class Host {
 public:
  explicit Host(const tenon_host* raw) noexcept { tenon_adopt(&api, sizeof api, raw); }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void* ctx() const noexcept { return api.ctx; }

  /// Gets the services; the glue does it before the instance is constructed.
  void fetch() {
    take(log_api, TENON_HOST_LOG_IID);
    take(config_api, TENON_HOST_CONFIG_IID);
    take(clock, TENON_HOST_CLOCK_IID);
    take(metrics, TENON_HOST_METRICS_IID);
    take(exec, TENON_HOST_EXEC_IID);
    take(completion, TENON_HOST_COMPLETION_IID);
    take(buffer, TENON_HOST_BUFFER_IID);
    take(storage, TENON_HOST_STORAGE_IID);
    take(replication, TENON_HOST_REPLICATION_IID);
    if (!TENON_HAS(&log_api, tenon_host_log, write) ||
        !TENON_HAS(&config_api, tenon_host_config, dir) ||
        !TENON_HAS(&clock, tenon_host_clock, mono_ns)) {
      throw Failure(TENON_INCOMPATIBLE, "the host lacks the log, config or clock service");
    }
  }
  /// Adopts a further service; false if the host does not offer it.
  template <class Table>
  bool take(Table& table, const char* iid) noexcept {
    table = {};
    const void* theirs = api.get_interface(api.ctx, iid);
    if (theirs == nullptr) {
      return false;
    }
    tenon_adopt(&table, sizeof table, theirs);
    return true;
  }

  Config config() const noexcept { return {&config_api, ctx(), config_api.root(ctx())}; }
  std::string directory(std::uint32_t kind) const {
    return std::string(text(config_api.dir(ctx(), kind)));
  }
  std::int64_t wall_ms() const noexcept { return clock.wall_ms(ctx()); }
  std::uint64_t mono_ns() const noexcept { return clock.mono_ns(ctx()); }

  bool log_enabled(std::int32_t level) const noexcept {
    return TENON_HAS(&log_api, tenon_host_log, enabled) && log_api.enabled(ctx(), level) != 0;
  }
  using Pairs = std::initializer_list<std::pair<std::string_view, std::string_view>>;
  /// One line: lower-case sentence fragment, then the pairs as key=value (at most 8).
  void log(std::int32_t level, std::string_view line, Pairs pairs = {}) const noexcept {
    if (!TENON_HAS(&log_api, tenon_host_log, write)) {
      return;
    }
    tenon_kv kv[8] = {};
    std::size_t n = 0;
    for (const auto& [key, value] : pairs) {
      if (n < 8) {
        kv[n++] = {str(key), str(value)};
      }
    }
    log_api.write(ctx(), level, str(line), kv, n);
  }
  void info(std::string_view line, Pairs p = {}) const noexcept { log(TENON_LOG_INFO, line, p); }
  void warn(std::string_view line, Pairs p = {}) const noexcept { log(TENON_LOG_WARN, line, p); }
  void error(std::string_view line, Pairs p = {}) const noexcept { log(TENON_LOG_ERROR, line, p); }

  tenon_host api{};
  tenon_host_log log_api{};
  tenon_host_config config_api{};
  tenon_host_clock clock{};
  tenon_host_metrics metrics{};
  tenon_host_exec exec{};
  tenon_host_completion completion{};
  tenon_host_buffer buffer{};
  tenon_host_storage storage{};
  tenon_host_replication replication{};
};

}  // namespace tenon::plugin
