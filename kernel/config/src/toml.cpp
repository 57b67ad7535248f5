#include "tenon/config/toml.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon::config {
namespace {

std::string position(std::string_view name, const toml::source_region& at) {
  return fmt::format("{}:{}:{}", name, at.begin.line, at.begin.column);
}

void place(ConfigNode& node, const toml::source_region& at, std::string_view name) {
  node.file = name;
  node.line = at.begin.line;
  node.column = at.begin.column;
}

/// Depth is bounded by the parser (TOML_MAX_NESTED_VALUES).
Result<ConfigNode> convert(const toml::node& in,
                           const toml::source_region& at,
                           std::string_view name);

Result<ConfigNode::Table> convert_table(const toml::table& in, std::string_view name) {
  std::vector<std::pair<const toml::key*, const toml::node*>> members;
  members.reserve(in.size());
  for (const auto& [key, value] : in) {
    members.emplace_back(&key, &value);
  }
  // The parser keeps members by name; people and the example file think in file order.
  std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
    const auto& x = a.first->source().begin;
    const auto& y = b.first->source().begin;
    return std::pair(x.line, x.column) < std::pair(y.line, y.column);
  });
  ConfigNode::Table out;
  out.reserve(members.size());
  for (const auto& [key, value] : members) {
    TENON_TRY(auto node, convert(*value, key->source(), name));
    out.emplace_back(std::string(key->str()), std::move(node));
  }
  return out;
}

Result<ConfigNode::Array> convert_array(const toml::array& in, std::string_view name) {
  ConfigNode::Array out;
  out.reserve(in.size());
  for (const toml::node& element : in) {
    TENON_TRY(auto node, convert(element, element.source(), name));
    out.push_back(std::move(node));
  }
  return out;
}

Result<ConfigNode> convert(const toml::node& in,
                           const toml::source_region& at,
                           std::string_view name) {
  ConfigNode out;
  place(out, at, name);
  switch (in.type()) {
    case toml::node_type::table: {
      TENON_TRY(auto table, convert_table(*in.as_table(), name));
      out.value = std::move(table);
      return out;
    }
    case toml::node_type::array: {
      TENON_TRY(auto array, convert_array(*in.as_array(), name));
      out.value = std::move(array);
      return out;
    }
    case toml::node_type::string:
      out.value = in.as_string()->get();
      return out;
    case toml::node_type::integer:
      out.value = in.as_integer()->get();
      return out;
    case toml::node_type::floating_point:
      out.value = in.as_floating_point()->get();
      return out;
    case toml::node_type::boolean:
      out.value = in.as_boolean()->get();
      return out;
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return Error{Errc::kInvalid,
                   fmt::format("{}: a date or time is not a value of any key, write a string",
                               position(name, at))};
    case toml::node_type::none:
      break;
  }
  return Error{Errc::kInternal, fmt::format("{}: value without a type", position(name, at))};
}

}  // namespace

Result<ConfigNode> parse_toml(std::string_view text, std::string_view name) {
  if (text.size() > kTomlMaxBytes) {
    return Error{
        Errc::kLimit,
        fmt::format(
            "{}: {} bytes, a configuration has at most {}", name, text.size(), kTomlMaxBytes)};
  }
  std::optional<toml::table> root;
  try {
    root = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    std::string reason(error.description());
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    return Error{Errc::kInvalid, fmt::format("{}: {}", position(name, error.source()), reason)};
  }
  TENON_TRY(auto table, convert_table(*root, name));
  ConfigNode out;
  out.file = name;
  out.line = 1;
  out.column = 1;
  out.value = std::move(table);
  return out;
}

Result<ConfigNode> parse_toml_file(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) {
    return os_error(fmt::format("open {}", path.string()),
                    errno,
                    errno == ENOENT ? Errc::kNotFound : Errc::kIo);
  }
  std::string text;
  char chunk[4096];
  while (const std::size_t n = std::fread(chunk, 1, sizeof chunk, file.get())) {
    text.append(chunk, n);
    if (text.size() > kTomlMaxBytes) {
      break;  // parse_toml says so
    }
  }
  if (std::ferror(file.get()) != 0) {
    return os_error(fmt::format("read {}", path.string()), errno);
  }
  return parse_toml(text, path.string());
}

}  // namespace tenon::config
