// Old-style namespaces: names of topics and groups with a prefix, so that several applications use one
// cluster without seeing each other's (spec: client §1.3).
#pragma once

#include "tenon/sdk/message.h"
#include "tenon/sdk/result.h"

#include <string>
#include <string_view>

namespace tenon::sdk {

/// The namespace that an address of a name server stands for: "http://MQ_INST_1_a.host:80" is in
/// MQ_INST_1_a. Empty if none.
std::string name_space_of(std::string_view name_servers);

/// Translates between the names of the program and those of servers. Without a namespace both are the
/// same. Thread: any.
class NameSpace {
 public:
  NameSpace() = default;
  explicit NameSpace(std::string name)
      : name_(std::move(name)) {}
  static Result<void> check(std::string_view name);

  bool empty() const noexcept { return name_.empty(); }
  const std::string& name() const noexcept { return name_; }
  /// What servers call it. Topics and groups of the system have the same name everywhere; what has
  /// the prefix already is left alone.
  std::string wrap(std::string_view name) const;
  Queue wrap(const Queue& q) const { return {wrap(q.topic), q.broker, q.id}; }
  /// What the program calls it.
  std::string unwrap(std::string_view name) const;
  Queue unwrap(const Queue& q) const { return {unwrap(q.topic), q.broker, q.id}; }
  /// A name that servers use is of this namespace, or of the system. Without a namespace: every one.
  bool holds(std::string_view name) const;

 private:
  bool has_prefix(std::string_view bare) const noexcept;
  std::string name_{};
};

}  // namespace tenon::sdk
