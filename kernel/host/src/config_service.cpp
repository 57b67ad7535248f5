#include "config_service.h"

#include "library.h"

#include "tenon/base/similar.h"
#include "tenon/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <variant>
#include <vector>

namespace tenon::host {
namespace {

/// Member of a table, or the node itself with an empty key (array elements).
const ConfigNode* lookup(const ConfigNode& table, std::string_view key) {
  if (key.empty()) {
    table.read = true;
    return &table;
  }
  return table.find(key);
}

template <class T>
Result<> store(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
  return ok();
}

Error wrong(const ConfigNode& node, std::string_view key, std::string_view text) {
  return Error{Errc::kInvalid,
               fmt::format("{}: {} {}", node.where(), key.empty() ? "value" : key, text)};
}

Error wrong_type(const ConfigNode& node, std::string_view key, std::uint32_t type) {
  return wrong(node,
               key,
               fmt::format("must be of type {}, is {}", config_type_name(type), node.type_name()));
}

/// A number with a unit as text, or a plain integer where the key names the unit.
Result<> get_with_unit(const ConfigNode& node,
                       std::string_view key,
                       std::uint32_t type,
                       void* out) {
  const bool duration = type == TENON_TYPE_DURATION;
  const std::string_view suffix = duration ? "_ms" : "_bytes";
  if (const auto* number = std::get_if<std::int64_t>(&node.value)) {
    if (!key.ends_with(suffix)) {
      return wrong(node,
                   key,
                   fmt::format("needs a unit, write for example {}",
                               duration ? "\"5s\" or \"250ms\"" : "\"64KiB\" or \"1GiB\""));
    }
    if (*number < 0) {
      return wrong(node, key, fmt::format("must not be negative, is {}", *number));
    }
    return store(out, *number);  // uint64_t and int64_t look the same from 0 up
  }
  const auto* text = std::get_if<std::string>(&node.value);
  if (text == nullptr) {
    return wrong_type(node, key, type);
  }
  const auto parsed = duration ? parse_duration_ms(*text) : parse_size_bytes(*text);
  if (!parsed) {
    return wrong(node, key, fmt::format("is wrong: {}", parsed.error().detail));
  }
  return store(out, parsed.value());
}

struct KeyNames {
  explicit KeyNames(const PluginInfo& plugin) {
    for (const ConfigKeyInfo& k : plugin.keys) {
      names.push_back(k.name);
    }
  }
  bool has(std::string_view key) const {
    return std::find(names.begin(), names.end(), key) != names.end();
  }
  std::vector<std::string> names{};
};

void collect_unread(const ConfigNode& node,
                    const std::string& path,
                    const KeyNames* known,
                    std::vector<std::string>& out) {
  if (const auto* array = std::get_if<ConfigNode::Array>(&node.value)) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      collect_unread(
          (*array)[i], fmt::format("{}[{}].", path.substr(0, path.size() - 1), i), nullptr, out);
    }
    return;
  }
  const auto* table = std::get_if<ConfigNode::Table>(&node.value);
  if (table == nullptr) {
    return;
  }
  for (const auto& [key, child] : *table) {
    if (child.read) {
      collect_unread(child, path + key + ".", nullptr, out);
    } else if (known == nullptr || !known->has(key)) {
      out.push_back(fmt::format(
          "{}: unknown key {}{}{}",
          child.where(),
          path,
          key,
          known == nullptr ? std::string{}
                           : did_you_mean(key, std::span<const std::string>(known->names))));
    }
  }
}

}  // namespace

std::size_t node_count(const ConfigNode& node) {
  if (const auto* a = std::get_if<ConfigNode::Array>(&node.value)) {
    return a->size();
  }
  if (const auto* t = std::get_if<ConfigNode::Table>(&node.value)) {
    return t->size();
  }
  return 0;
}

std::uint32_t node_type(const ConfigNode& node) {
  static constexpr std::uint32_t kTypes[] = {0,
                                             TENON_TYPE_BOOL,
                                             TENON_TYPE_INT,
                                             TENON_TYPE_FLOAT,
                                             TENON_TYPE_STRING,
                                             TENON_TYPE_ARRAY,
                                             TENON_TYPE_TABLE};
  return kTypes[node.value.index()];
}

InstanceConfig::InstanceConfig(const ConfigNode* options)
    : root_(nullptr) {
  empty_.value = ConfigNode::Table{};
  replace(options);
}

void InstanceConfig::replace(const ConfigNode* options) {
  root_ = options != nullptr ? options : &empty_;
}

Result<> InstanceConfig::get(const ConfigNode& table,
                             std::string_view key,
                             std::uint32_t type,
                             void* out) const {
  const ConfigNode* node = lookup(table, key);
  if (node == nullptr) {
    return Error{Errc::kNotFound, {}};
  }
  switch (type) {
    case TENON_TYPE_BOOL:
      if (const auto* v = std::get_if<bool>(&node->value)) {
        return store(out, std::uint32_t{*v});
      }
      break;
    case TENON_TYPE_INT:
      if (const auto* v = std::get_if<std::int64_t>(&node->value)) {
        return store(out, *v);
      }
      break;
    case TENON_TYPE_FLOAT:
      if (const auto* v = std::get_if<double>(&node->value)) {
        return store(out, *v);
      }
      if (const auto* v = std::get_if<std::int64_t>(&node->value)) {
        return store(out, static_cast<double>(*v));
      }
      break;
    case TENON_TYPE_STRING:
      if (const auto* v = std::get_if<std::string>(&node->value)) {
        return store(out, abi_str(*v));
      }
      break;
    case TENON_TYPE_DURATION:
    case TENON_TYPE_BYTES:
      return get_with_unit(*node, key, type, out);
    default:
      return Error{Errc::kUnsupported, fmt::format("type {} cannot be read with get", type)};
  }
  return wrong_type(*node, key, type);
}

Result<const ConfigNode*> InstanceConfig::child(const ConfigNode& table,
                                                std::string_view key,
                                                std::uint32_t type) const {
  if (type != TENON_TYPE_ARRAY && type != TENON_TYPE_TABLE) {
    return Error{Errc::kUnsupported, fmt::format("type {} is neither array nor table", type)};
  }
  const ConfigNode* node = lookup(table, key);
  if (node == nullptr) {
    return Error{Errc::kNotFound, {}};
  }
  if (node_type(*node) != type) {
    return wrong_type(*node, key, type);
  }
  return node;
}

tenon_str InstanceConfig::where(const ConfigNode& node, std::string_view key) {
  const ConfigNode* at = &node;
  if (const auto* table = std::get_if<ConfigNode::Table>(&node.value);
      table != nullptr && !key.empty()) {
    for (const auto& [name, member] :
         *table) {  // not find(): asking where something is does not read it
      if (name == key) {
        at = &member;
      }
    }
  }
  const std::scoped_lock lock(mutex_);
  return abi_str(texts_.emplace_back(at->where()));
}

Result<> InstanceConfig::check_required(const PluginInfo& plugin) const {
  const auto* table = std::get_if<ConfigNode::Table>(&root_->value);
  for (const ConfigKeyInfo& k : plugin.keys) {
    bool present = false;
    if (table != nullptr) {
      for (const auto& [name, node] : *table) {
        present = present || name == k.name;
      }
    }
    if ((k.flags & TENON_KEY_REQUIRED) != 0 && !present) {
      return Error{
          Errc::kInvalid,
          fmt::format(
              "{}: option {} is required by {} ({})", root_->where(), k.name, plugin.id, k.doc)};
    }
  }
  return ok();
}

Result<> InstanceConfig::check_unknown(const PluginInfo& plugin) const {
  const KeyNames known(plugin);
  std::vector<std::string> unknown;
  collect_unread(*root_, "", &known, unknown);
  if (unknown.empty()) {
    return ok();
  }
  return Error{Errc::kInvalid, fmt::format("{}", fmt::join(unknown, "; "))};
}

}  // namespace tenon::host
