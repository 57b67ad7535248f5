// What is wrong with a configuration, collected so that a person repairs all of it in one go.
#pragma once

#include "tenon/base/config_node.h"
#include "tenon/base/result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::config {

/// Thread: one.
class Problems {
 public:
  /// Reports after this many are only counted.
  static constexpr std::size_t kShownMax = 20;

  void add(const ConfigNode& at, std::string_view text);

  bool empty() const { return entries_.empty(); }
  std::size_t count() const { return entries_.size(); }
  /// "file:line:column: text", at most kShownMax, in file order.
  std::vector<std::string> lines() const;

  /// Success without problems, else kInvalid with one line for each.
  Result<> result() const;

 private:
  struct Entry {
    std::uint32_t line = 0;
    std::uint32_t column = 0;
    std::string text{};
  };
  std::vector<Entry> entries_;
};

}  // namespace tenon::config
