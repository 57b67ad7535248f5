#include "tenon/config/reader.h"

#include "key_limits.h"

#include "tenon/base/check.h"
#include "tenon/base/similar.h"
#include "tenon/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace tenon::config {
namespace {

/// Narrows the range of a description to what the member can hold.
template <class Int>
KeyInfo within(KeyInfo info) {
  using Limits = std::numeric_limits<Int>;
  info.min = std::max(info.min, static_cast<std::int64_t>(Limits::min()));
  if constexpr (sizeof(Int) < sizeof(std::int64_t)) {
    info.max = std::min(info.max, static_cast<std::int64_t>(Limits::max()));
  }
  return info;
}

}  // namespace

Reader::Reader(const ConfigNode& root, Problems& problems)
    : problems_(problems) {
  root.read = true;
  levels_.push_back({&root, {}, {}});
}

const ConfigNode* Reader::take(std::string_view name) {
  Level& level = levels_.back();
  level.known.emplace_back(name);
  return level.table->find(name);
}

void Reader::wrong_type(const ConfigNode& at, std::string_view name, std::string_view expected) {
  problems_.add(at, fmt::format("{} must be {}, not {}", name, expected, at.type_name()));
}

void Reader::read_integer(const ConfigNode& at,
                          std::string_view name,
                          const KeyInfo& info,
                          std::int64_t& out) {
  std::int64_t number = 0;
  const bool duration = is_duration_key(name);
  const bool size = is_size_key(name);
  if (const auto* integer = std::get_if<std::int64_t>(&at.value)) {
    number = *integer;
  } else if (const auto* text = std::get_if<std::string>(&at.value); text && (duration || size)) {
    const auto parsed = duration ? parse_duration_ms(*text) : parse_size_bytes(*text);
    if (!parsed) {
      problems_.add(at, fmt::format("{}: {}", name, parsed.error().detail));
      return;
    }
    number = parsed.value();
  } else {
    wrong_type(at,
               name,
               duration ? "an integer (milliseconds) or a text like \"5s\""
               : size   ? "an integer (bytes) or a text like \"64KiB\""
                        : "an integer");
    return;
  }
  if (number < info.min || number > info.max) {
    problems_.add(at, fmt::format("{} = {} is out of range, {}", name, number, range_text(info)));
    return;
  }
  out = number;
}

void Reader::key(std::string_view name, ValueRef value, const KeyInfo& info) {
  const ConfigNode* at = take(name);
  if (at == nullptr) {
    return;
  }
  const auto read = [&]<class T>(T* out) {
    if constexpr (std::is_same_v<T, bool>) {
      const auto* found = std::get_if<bool>(&at->value);
      found ? static_cast<void>(*out = *found) : wrong_type(*at, name, "true or false");
    } else if constexpr (std::is_integral_v<T>) {
      auto number = static_cast<std::int64_t>(*out);
      read_integer(*at, name, within<T>(info), number);
      *out = static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, double>) {
      if (const auto* found = std::get_if<double>(&at->value)) {
        *out = *found;
      } else if (const auto* whole = std::get_if<std::int64_t>(&at->value)) {
        *out = static_cast<double>(*whole);
      } else {
        wrong_type(*at, name, "a number");
      }
    } else if constexpr (std::is_same_v<T, std::string> ||
                         std::is_same_v<T, std::filesystem::path>) {
      // Trap: an integer where a text is expected is a wrong type, not an absent key.
      const auto* found = std::get_if<std::string>(&at->value);
      found ? static_cast<void>(*out = *found) : wrong_type(*at, name, "a string");
    } else {
      const auto* list = std::get_if<ConfigNode::Array>(&at->value);
      if (list == nullptr) {
        wrong_type(*at, name, "an array");
        return;
      }
      using Element = typename T::value_type;
      T elements;
      for (const ConfigNode& node : *list) {
        node.read = true;
        if constexpr (std::is_same_v<Element, std::string>) {
          const auto* text = std::get_if<std::string>(&node.value);
          text ? elements.push_back(*text) : wrong_type(node, name, "an array of strings");
        } else {
          Element number{};
          read_integer(node, name, info, number);
          elements.push_back(number);
        }
      }
      *out = std::move(elements);
    }
  };
  std::visit(read, value);
}

std::size_t Reader::word_key(std::string_view name,
                             std::size_t index,
                             std::span<const std::string_view> words,
                             const KeyInfo& /*info*/) {
  const ConfigNode* at = take(name);
  if (at == nullptr) {
    return index;
  }
  const auto* text = std::get_if<std::string>(&at->value);
  if (text == nullptr) {
    wrong_type(*at, name, "a string");
    return index;
  }
  const auto found = std::find(words.begin(), words.end(), *text);
  if (found == words.end()) {
    problems_.add(*at,
                  fmt::format("{} = \"{}\" is not one of \"{}\"{}",
                              name,
                              *text,
                              fmt::join(words, "\", \""),
                              did_you_mean(*text, words)));
    return index;
  }
  return static_cast<std::size_t>(found - words.begin());
}

void Reader::words(std::string_view name,
                   std::vector<std::pair<std::string, std::string>>& values,
                   std::span<const std::string_view> allowed,
                   std::string_view /*doc*/) {
  const ConfigNode* at = take(name);
  if (at == nullptr) {
    return;
  }
  const auto* table = std::get_if<ConfigNode::Table>(&at->value);
  if (table == nullptr) {
    wrong_type(*at, name, "a table");
    return;
  }
  values.clear();
  for (const auto& [key_name, node] : *table) {
    node.read = true;
    const auto* text = std::get_if<std::string>(&node.value);
    if (text == nullptr) {
      wrong_type(node, key_name, "a string");
    } else if (std::find(allowed.begin(), allowed.end(), *text) == allowed.end()) {
      problems_.add(node,
                    fmt::format("{} = \"{}\" is not one of \"{}\"{}",
                                key_name,
                                *text,
                                fmt::join(allowed, "\", \""),
                                did_you_mean(*text, allowed)));
    } else {
      values.emplace_back(key_name, *text);
    }
  }
}

bool Reader::begin_table(std::string_view name, std::string_view /*doc*/) {
  const ConfigNode* at = take(name);
  if (at == nullptr) {
    return false;
  }
  if (!std::holds_alternative<ConfigNode::Table>(at->value)) {
    wrong_type(*at, name, "a table");
    return false;
  }
  const std::string& above = levels_.back().path;
  levels_.push_back(
      {at, above.empty() ? std::string(name) : fmt::format("{}.{}", above, name), {}});
  return true;
}

void Reader::end_table() {
  TENON_CHECK(levels_.size() > 1, "table closed that was never opened");
  report_unknown(levels_.back());
  levels_.pop_back();
}

void Reader::finish() {
  TENON_CHECK(levels_.size() == 1, "table {} not closed", levels_.back().path);
  report_unknown(levels_.back());
}

void Reader::report_unknown(const Level& level) {
  const auto* table = std::get_if<ConfigNode::Table>(&level.table->value);
  if (table == nullptr) {
    return;
  }
  for (const auto& [name, node] : *table) {
    if (std::find(level.known.begin(), level.known.end(), name) == level.known.end()) {
      const bool is_table = std::holds_alternative<ConfigNode::Table>(node.value);
      problems_.add(node,
                    fmt::format("unknown {} {}{}",
                                is_table ? "table" : "key",
                                level.path.empty() ? name : level.path + "." + name,
                                did_you_mean(name, level.known)));
    }
  }
}

void Reader::read_slot(const ConfigNode& at, std::string_view name, Slot& slot) {
  if (!std::holds_alternative<ConfigNode::Table>(at.value)) {
    wrong_type(at, name, "a table");
    return;
  }
  Slot read;
  read.where = at.where();
  levels_.push_back({&at, std::string(name), {}});
  key("plugin", &read.plugin, {});
  key("path", &read.path, {});
  key("name", &read.name, {});
  key("required", &read.required, {});
  key("deepbind", &read.deepbind, {});
  if (const ConfigNode* options = take("options")) {
    if (std::holds_alternative<ConfigNode::Table>(options->value)) {
      read.options = *options;
    } else {
      wrong_type(*options, "options", "a table");
    }
  }
  report_unknown(levels_.back());
  levels_.pop_back();
  if (!read.plugin.empty() && !read.path.empty()) {
    problems_.add(at, fmt::format("{} has both plugin and path, one is enough", name));
  }
  if (!read.path.empty() && read.path.front() != '/') {
    problems_.add(at, fmt::format("{}: path \"{}\" must be absolute", name, read.path));
  }
  slot = std::move(read);
}

void Reader::slot(std::string_view name, Slot& slot, const SlotInfo& /*info*/) {
  if (const ConfigNode* at = take(name)) {
    Slot read = slot;
    read_slot(*at, name, read);
    if (!read.used()) {  // only options: the default plug-in with them
      read.plugin = slot.plugin;
      read.path = slot.path;
    }
    slot = std::move(read);
  }
}

void Reader::slots(std::string_view name, std::vector<Slot>& slots, const SlotInfo& /*info*/) {
  const ConfigNode* at = take(name);
  if (at == nullptr) {
    return;
  }
  const auto* list = std::get_if<ConfigNode::Array>(&at->value);
  if (list == nullptr) {
    wrong_type(*at, name, fmt::format("an array of tables ([[{}]])", name));
    return;
  }
  std::vector<Slot> read;
  for (const ConfigNode& node : *list) {
    node.read = true;
    Slot& slot = read.emplace_back();
    const std::size_t before = problems_.count();
    read_slot(node, name, slot);
    if (!slot.used() && problems_.count() == before) {
      problems_.add(node, fmt::format("{} names neither plugin nor path", name));
    }
  }
  slots = std::move(read);
}

void Reader::check(std::string_view name, bool holds, std::string_view text) {
  if (!holds) {
    const Level& level = levels_.back();
    const ConfigNode* at = level.table->find(name);
    problems_.add(at != nullptr ? *at : *level.table, text);
  }
}

}  // namespace tenon::config
