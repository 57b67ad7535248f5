// A linked-in plug-in created through the real registry, for tests of its interface.
#pragma once

#include "tenon/config/toml.h"
#include "tenon/host/plugin_registry.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>

namespace tenon::test {

/// Creates, initialises and activates `id` with options given as TOML.
template <class Table>
class Loaded {
 public:
  Loaded(const tenon_entry& entry,
         std::string_view id,
         const char* iid,
         std::string_view options = {})
      : registry_(host::PluginRegistry::create({.side = 2, .use_environment = false})),
        options_(config::parse_toml(options, "options.toml").value()) {
    REQUIRE(registry_->add_static(&entry).has_value());
    auto created = registry_->create(id, {.options = &options_});
    if (!created) {
      failure_ = created.error().detail;
      return;
    }
    instance_ = std::move(created).value();
    const auto inited = instance_->init();
    if (!inited) {
      failure_ = inited.error().detail;
      return;
    }
    REQUIRE(instance_->activate().has_value());
    auto adopted = instance_->template interface<Table>(iid);
    REQUIRE(adopted.has_value());
    table_ = adopted.value();
  }

  const std::string& failure() const { return failure_; }
  const Table* operator->() const { return &table_.table; }
  void* self() const { return table_.self; }

 private:
  std::unique_ptr<host::PluginRegistry> registry_;
  ConfigNode options_;
  std::unique_ptr<host::Instance> instance_;
  host::Interface<Table> table_;
  std::string failure_;
};

}  // namespace tenon::test
