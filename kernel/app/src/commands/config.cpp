// tenon config print|check
#include "commands/context.h"
#include "config/broker_program.h"
#include "config/namesrv_program.h"

#include "tenon/base/similar.h"
#include "tenon/config/printer.h"
#include "tenon/config/problems.h"
#include "tenon/config/toml.h"
#include "tenon/host/plugin_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace tenon::app {
namespace {

struct ConfigCommand {
  std::string which{};
  std::string file{};
};

int print_json(const std::vector<config::KeyEntry>& entries) {
  Json json;
  json.begin_array();
  for (const auto& entry : entries) {
    json.begin_object().field("key", entry.path).field("type", entry.type);
    json.field("default", entry.default_text).field("doc", entry.doc);
    json.field("rocketmq", entry.rocketmq).field("unit", entry.unit).field("range", entry.range);
    json.key("words").begin_array();
    for (const std::string& word : entry.words) {
      json.value(word);
    }
    json.end_array().end_object();
  }
  return print_line(json.end_array().text());
}

int print(const Context& context, const ConfigCommand& o) {
  if (context.json) {
    config::Printer printer;
    if (o.which == "broker") {
      BrokerProgram defaults;
      describe(printer, defaults);
      return print_json(printer.entries());
    }
    NamesrvProgram defaults;
    describe(printer, defaults);
    return print_json(printer.entries());
  }
  std::string text =
      o.which == "broker" ? broker_example(*host::PluginRegistry::create({})) : namesrv_example();
  text.pop_back();  // print_line ends it
  return print_line(text);
}

/// What the plug-in's descriptor says about options that nobody could have read.
void check_options(const config::Slot& slot,
                   const host::PluginInfo& info,
                   config::Problems& problems) {
  const auto* table = std::get_if<ConfigNode::Table>(&slot.options.value);
  std::vector<std::string_view> known;
  for (const auto& key : info.keys) {
    known.push_back(key.name);
    const bool required = (key.flags & TENON_KEY_REQUIRED) != 0;
    if (required && slot.options.find(key.name) == nullptr) {
      problems.add(slot.options, fmt::format("{} needs the option {}", info.id, key.name));
    }
  }
  for (std::size_t i = 0; table != nullptr && i < table->size(); ++i) {
    const auto& [name, node] = (*table)[i];
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      problems.add(node,
                   fmt::format("{} has no option {}{}", info.id, name, did_you_mean(name, known)));
    }
  }
}

int check_broker(const Context& context, const ConfigNode& root) {
  const auto program = read_broker_program(root);
  if (!program) {
    return failed(context, program.error().detail);
  }
  if (const auto valid = broker::validate(program.value().broker); !valid) {
    return failed(context, valid.error().detail);
  }
  host::RegistryOptions options;
  options.search_path.assign(program.value().plugins.search_path.begin(),
                             program.value().plugins.search_path.end());
  options.insecure = program.value().plugins.insecure;
  const auto registry = host::PluginRegistry::create(std::move(options));
  config::Problems problems;
  const auto check_slot = [&](const config::Slot& slot) {
    const auto info = registry->describe(slot.id_or_path());
    if (info) {
      check_options(slot, info.value(), problems);
    } else if (slot.required) {
      problems.add(ConfigNode{}, fmt::format("{}: {}", slot.where, info.error().detail));
    }
  };
  check_slot(program.value().storage);
  std::for_each(program.value().filters.begin(), program.value().filters.end(), check_slot);
  const auto result = problems.result();
  return result ? kExitOk : failed(context, result.error().detail);
}

int check(const Context& context, const ConfigCommand& o) {
  const auto root = config::parse_toml_file(o.file);
  if (!root) {
    return failed(context, root.error().detail);
  }
  int code = kExitOk;
  if (o.which == "broker") {
    code = check_broker(context, root.value());
  } else if (const auto program = read_namesrv_program(root.value()); !program) {
    code = failed(context, program.error().detail);
  }
  if (code != kExitOk) {
    return code;
  }
  return print_line(
      context.json
          ? Json().begin_object().field("file", o.file).field("ok", true).end_object().text()
          : fmt::format("{} is right", o.file));
}

}  // namespace

void add_config(CLI::App& app, Context& context) {
  const auto o = std::make_shared<ConfigCommand>();
  CLI::App* config = app.add_subcommand("config", "Configuration files of the servers");
  config->require_subcommand(1);
  CLI::App* one = config->add_subcommand("print", "Every key with its default, as an example file");
  CLI::App* two =
      config->add_subcommand("check", "All that is wrong with a file, without starting");
  for (CLI::App* c : {one, two}) {
    c->add_option("SERVER", o->which, "broker or namesrv")
        ->required()
        ->check(CLI::IsMember({"broker", "namesrv"}));
  }
  two->add_option("FILE", o->file, "TOML file")->required();
  one->callback([&context, o] { context.run = [&context, o] { return print(context, *o); }; });
  two->callback([&context, o] { context.run = [&context, o] { return check(context, *o); }; });
}

}  // namespace tenon::app
