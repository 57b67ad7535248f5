// tenon plugin list|describe|check
#include "commands/context.h"

#include "tenon/abi/entry.h"
#include "tenon/host/plugin_registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

namespace tenon::app {
namespace {

struct PluginCommand {
  std::vector<std::string> path{};
  std::string what{};
  bool insecure = false;
};

std::unique_ptr<host::PluginRegistry> registry_of(const PluginCommand& o) {
  host::RegistryOptions options;
  options.search_path.assign(o.path.begin(), o.path.end());
  options.insecure = o.insecure;
  options.host_name = "tenon plugin";
  return host::PluginRegistry::create(std::move(options));
}

std::string flags_text(std::uint32_t flags) {
  static constexpr std::pair<std::uint32_t, std::string_view> kNames[] = {
      {TENON_PLUGIN_SINGLETON, "singleton"},
      {TENON_PLUGIN_REPLACEABLE, "replaceable"},
      {TENON_PLUGIN_OWNS_STATE, "state"},
      {TENON_PLUGIN_STARTS_THREADS, "threads"},
      {TENON_PLUGIN_EXPERIMENTAL, "experimental"},
  };
  std::string out;
  for (const auto& [bit, name] : kNames) {
    if ((flags & bit) != 0) {
      out += fmt::format("{}{}", out.empty() ? "" : ",", name);
    }
  }
  return out;
}

/// "storage/1 filter/1": the part after "tenon." is enough for ours.
std::string interfaces_text(const host::PluginInfo& info) {
  std::vector<std::string_view> names;
  for (const std::string& iid : info.interfaces) {
    std::string_view name = iid;
    if (name.starts_with("tenon.")) {
      name.remove_prefix(6);
    }
    names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, " "));
}

void to_json(Json& json, const host::PluginInfo& info) {
  json.begin_object().field("id", info.id).field("name", info.name).field("version", info.version);
  json.field("vendor", info.vendor).field("doc", info.doc).field("url", info.url);
  json.field("abi", fmt::format("{}.{}", info.abi_major, info.abi_minor));
  json.field("file", info.file.string()).field("build", info.build_info);
  json.field("flags", flags_text(info.flags)).key("interfaces").begin_array();
  for (const std::string& iid : info.interfaces) {
    json.value(iid);
  }
  json.end_array().key("options").begin_array();
  for (const auto& key : info.keys) {
    json.begin_object().field("name", key.name).field("type", key.type);
    json.field("default", key.default_text).field("doc", key.doc);
    json.field("required", (key.flags & TENON_KEY_REQUIRED) != 0).end_object();
  }
  json.end_array();
  if (!info.refused.empty()) {
    json.field("refused", info.refused);
  }
  json.end_object();
}

int show_list(const Context& context, const std::vector<host::PluginInfo>& all) {
  if (context.json) {
    Json json;
    json.begin_array();
    for (const auto& info : all) {
      to_json(json, info);
    }
    return print_line(json.end_array().text());
  }
  print_line(fmt::format("{:<42} {:<9} {:<5} {:<20} {:<14} {}",
                         "ID",
                         "VERSION",
                         "ABI",
                         "INTERFACES",
                         "FLAGS",
                         "FILE"));
  for (const auto& info : all) {
    const bool good = info.refused.empty();
    print_line(fmt::format("{:<42} {:<9} {:<5} {:<20} {:<14} {}",
                           info.id.empty() ? info.file.filename().string() : info.id,
                           good ? info.version : "-",
                           good ? fmt::format("{}.{}", info.abi_major, info.abi_minor) : "-",
                           good ? interfaces_text(info) : "-",
                           good ? flags_text(info.flags) : "REFUSED",
                           good ? info.file.string() : info.refused));
  }
  return kExitOk;
}

int describe(const Context& context, const PluginCommand& o) {
  const auto registry = registry_of(o);
  const auto found = registry->describe(o.what);
  if (!found) {
    return failed(context, found.error().detail);
  }
  const host::PluginInfo& info = found.value();
  if (context.json) {
    Json json;
    to_json(json, info);
    return print_line(json.text());
  }
  print_line(fmt::format("{} {}", info.id, info.version));
  for (const auto& [name, value] :
       {std::pair<std::string_view, std::string>{"about", info.doc},
        {"vendor", info.vendor},
        {"url", info.url},
        {"file", info.file.string()},
        {"ABI", fmt::format("{}.{}", info.abi_major, info.abi_minor)},
        {"interfaces", fmt::format("{}", fmt::join(info.interfaces, " "))},
        {"flags", flags_text(info.flags)}}) {
    if (!value.empty()) {
      print_line(fmt::format("  {:<11} {}", name, value));
    }
  }
  print_line(info.keys.empty() ? "  no options" : "  options");
  for (const auto& key : info.keys) {
    const bool required = (key.flags & TENON_KEY_REQUIRED) != 0;
    print_line(fmt::format("    {} ({}{})",
                           key.name,
                           key.type,
                           required                   ? ", required"
                           : key.default_text.empty() ? ""
                                                      : ", default " + key.default_text));
    if (!key.doc.empty()) {
      print_line(fmt::format("      {}", key.doc));
    }
  }
  return kExitOk;
}

int check(const Context& context, const PluginCommand& o) {
  const auto found = host::probe_in_child(
      std::filesystem::absolute(o.what), std::chrono::milliseconds(5000), o.insecure);
  return found ? show_list(context, found.value()) : failed(context, found.error().detail);
}

}  // namespace

void add_plugin(CLI::App& app, Context& context) {
  const auto o = std::make_shared<PluginCommand>();
  CLI::App* plugin =
      app.add_subcommand("plugin", "See which plug-ins there are and what they take");
  plugin->require_subcommand(1);
  plugin->add_option("--path", o->path, "Folder to look in first; may be repeated");
  plugin->add_flag("--insecure", o->insecure, "Accept files that others may write");
  CLI::App* one = plugin->add_subcommand("list", "All plug-ins that are found");
  one->callback([&context, o] {
    context.run = [&context, o] { return show_list(context, registry_of(*o)->list()); };
  });
  one = plugin->add_subcommand("describe", "One plug-in and its options");
  one->add_option("ID", o->what, "Id, or path of a file")->required();
  one->callback([&context, o] { context.run = [&context, o] { return describe(context, *o); }; });
  one =
      plugin->add_subcommand("check", "Try whether a file can be loaded, in a process of its own");
  one->add_option("FILE", o->what, "File that ends in .tenon.so")->required();
  one->callback([&context, o] { context.run = [&context, o] { return check(context, *o); }; });
}

}  // namespace tenon::app
