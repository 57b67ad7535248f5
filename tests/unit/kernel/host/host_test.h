// Helpers of the host tests: temporary folders, the linked-in test plug-in and its hooks.
#pragma once

#include "tenon/base/config_node.h"
#include "tenon/host/plugin_registry.h"
#include "tenon/plugin.hpp"

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <stdlib.h>
#include <sys/stat.h>

extern "C" const tenon_entry test_services_entry;

namespace test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// What the linked-in plug-in test.services does; set by the test before, reset by Hooks' destructor.
struct Hooks {
  std::function<void(tenon::plugin::Host&)> on_init{};
  std::function<void()> on_activate{};
  std::function<void()> on_deactivate{};
  tenon::plugin::Host* host = nullptr;  ///< of the instance that was inited last
  int deactivated = 0;
  int destroyed = 0;

  Hooks();
  ~Hooks();
};
extern Hooks* hooks;

class TempDir {
 public:
  TempDir() {
    char name[] = "/tmp/tenon-host-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TempDir() {
    std::error_code ec;
    fs::remove_all(path_, ec);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const fs::path& path() const { return path_; }
  /// Copies a built test plug-in under a name of its own.
  fs::path take(const std::string& plugin, std::string as = {}) const {
    const fs::path to = path_ / (as.empty() ? plugin : as);
    fs::copy_file(fs::path(TENON_TEST_PLUGINS) / plugin, to);
    return to;
  }

 private:
  fs::path path_;
};

inline fs::path plugin_file(const std::string& name) {
  return fs::path(TENON_TEST_PLUGINS) / (name + ".tenon.so");
}

inline std::unique_ptr<tenon::host::PluginRegistry> make_registry(std::vector<fs::path> dirs = {},
                                                                  bool insecure = false) {
  tenon::host::RegistryOptions o;
  o.search_path = std::move(dirs);
  o.use_environment = false;
  o.insecure = insecure;
  return tenon::host::PluginRegistry::create(std::move(o));
}

inline std::unique_ptr<tenon::host::Instance> make_services(
    tenon::host::PluginRegistry& registry, const tenon::host::InstanceOptions& options = {}) {
  static_cast<void>(registry.add_static(&test_services_entry));
  return registry.create("test.services", options).value();
}

/// A node at line:1 of test.toml.
inline tenon::ConfigNode node(decltype(tenon::ConfigNode::value) value, std::uint32_t line = 1) {
  tenon::ConfigNode n;
  n.value = std::move(value);
  n.file = "test.toml";
  n.line = line;
  n.column = 1;
  return n;
}

/// A value that other threads set and the test waits for.
template <class T>
class Slot {
 public:
  void set(T v) {
    const std::scoped_lock lock(mutex_);
    value_ = std::move(v);
    changed_.notify_all();
  }
  template <class F>
  void update(F&& f) {
    const std::scoped_lock lock(mutex_);
    f(value_);
    changed_.notify_all();
  }
  template <class P>
  bool wait(P&& predicate, std::chrono::milliseconds timeout = 20s) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return predicate(value_); });
  }
  T get() {
    const std::scoped_lock lock(mutex_);
    return value_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  T value_{};
};

}  // namespace test
