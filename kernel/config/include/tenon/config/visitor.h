// One description of a component's keys, three uses: reading a file, printing the commented
// example, listing. A component writes once
//
//   void describe(config::Visitor& v, BrokerConfig& c) {
//     v.table("broker", "What the broker is called and where it listens.", [&] {
//       v.key("listen_port", c.listen_port,
//             {.doc = "Port for clients.", .rocketmq = "listenPort", .min = 0, .max = 65535});
//     });
//   }
//
// Keys of a table come before its sub-tables, because TOML has it so.
#pragma once

#include "tenon/config/slot.h"

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tenon::config {

/// Where a value lives. Its content is the default before reading.
using ValueRef = std::variant<bool*,
                              std::uint16_t*,
                              std::int32_t*,
                              std::uint32_t*,
                              std::int64_t*,
                              std::uint64_t*,
                              double*,
                              std::string*,
                              std::filesystem::path*,
                              std::vector<std::string>*,
                              std::vector<std::int64_t>*>;

/// What is said about a key. Texts are literals.
struct KeyInfo {
  std::string_view doc{};       ///< sentences; the printer breaks lines
  std::string_view rocketmq{};  ///< name of the same setting in RocketMQ, empty if there is none
  std::string_view unit{};      ///< only where the name does not say it
  std::int64_t min = std::numeric_limits<std::int64_t>::min();  ///< of integers and list elements
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

/// Thread: one.
class Visitor {
 public:
  virtual ~Visitor() = default;

  /// Integers whose name ends in `_ms` also accept "5s", those ending in `_bytes` also "64KiB".
  virtual void key(std::string_view name, ValueRef value, const KeyInfo& info) = 0;

  /// A value that is one of a few words.
  template <class Enum>
  void choice(std::string_view name,
              Enum& value,
              std::initializer_list<std::pair<std::string_view, Enum>> words,
              const KeyInfo& info) {
    std::vector<std::string_view> names;
    std::size_t index = 0;
    for (const auto& [word, meaning] : words) {
      index = meaning == value ? names.size() : index;
      names.push_back(word);
    }
    index = word_key(name, index, names, info);
    value = (words.begin() + index)->second;
  }

  template <class Body>
  void table(std::string_view name, std::string_view doc, Body&& body) {
    if (begin_table(name, doc)) {
      std::forward<Body>(body)();
      end_table();
    }
  }

  /// A place for one plug-in (`[storage]`).
  virtual void slot(std::string_view name, Slot& slot, const SlotInfo& info) = 0;
  /// A place for any number of plug-ins (`[[filter]]`). A file that names any replaces the default
  /// list.
  virtual void slots(std::string_view name, std::vector<Slot>& slots, const SlotInfo& info) = 0;
  /// A table whose keys are names chosen by the user and whose values are words (`[log.levels]`).
  virtual void words(std::string_view name,
                     std::vector<std::pair<std::string, std::string>>& values,
                     std::span<const std::string_view> allowed,
                     std::string_view doc) = 0;
  /// A rule between keys: reported at `name` of the current table if it does not hold.
  virtual void check(std::string_view name, bool holds, std::string_view text) = 0;

 protected:
  /// @return index of the word that holds afterwards
  virtual std::size_t word_key(std::string_view name,
                               std::size_t index,
                               std::span<const std::string_view> words,
                               const KeyInfo& info) = 0;
  virtual bool begin_table(std::string_view name, std::string_view doc) = 0;
  virtual void end_table() = 0;
};

}  // namespace tenon::config
