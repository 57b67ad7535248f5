#include "config/broker_program.h"

#include "config/broker_keys.h"

#include "tenon/config/printer.h"
#include "tenon/config/reader.h"

#include <fmt/format.h>

namespace tenon::app {
namespace {

/// A default as a plug-in's descriptor writes it, as TOML: what is no number, word of truth, array or
/// table is a string.
std::string toml_value(const std::string& text) {
  const bool number = !text.empty() && text.find_first_not_of("0123456789.-") == std::string::npos;
  const bool other = text == "true" || text == "false" || text.starts_with('"') ||
                     text.starts_with('[') || text.starts_with('{');
  return number || other ? text : config::quote_toml(text);
}

/// The options of a plug-in as lines of TOML; nothing if the registry does not find it.
std::string options_example(host::PluginRegistry& registry,
                            std::string_view slot,
                            const std::string& plugin) {
  const auto info = registry.describe(plugin);
  if (!info) {
    return {};
  }
  std::string options = fmt::format("[{}.options]\n", slot);
  for (const auto& key : info.value().keys) {
    options += fmt::format("{} = {}  # {}\n", key.name, toml_value(key.default_text), key.doc);
  }
  options.pop_back();
  return options;
}

}  // namespace

broker::PluginSlots BrokerProgram::slots() const {
  const auto slot = [](const config::Slot& s) {
    const bool given = std::holds_alternative<ConfigNode::Table>(s.options.value);
    return broker::PluginSlot{s.id_or_path(), given ? &s.options : nullptr};
  };
  broker::PluginSlots out;
  out.storage = slot(storage);
  for (const config::Slot& filter : filters) {
    out.filters.push_back(slot(filter));
  }
  out.txn_check = slot(txn_check);
  return out;
}

void describe(config::Visitor& v, BrokerProgram& c, const SlotExamples& examples) {
  describe(v, c.broker);
  describe(v, c.log);
  describe(v, c.plugins);
  v.slot("storage",
         c.storage,
         {.doc = "Where messages are kept. `tenon plugin list` shows what there is, `tenon plugin "
                 "describe ID` the options, which go to [storage.options]. Instead of plugin: path "
                 "= \"/file.tenon.so\". name is for logs.",
          .options_example = examples.storage});
  v.slots("filter",
          c.filters,
          {.doc = "How subscriptions are evaluated: one [[filter]] for each kind of expression. A "
                  "file that has any replaces this list. required = false: start without it if it "
                  "cannot be loaded."});
  v.slot("txn_check",
         c.txn_check,
         {.doc = "When producers are asked about transactions that they left undecided.",
          .options_example = examples.txn_check});
}

Result<BrokerProgram> read_broker_program(const ConfigNode& root) {
  return config::read_described<BrokerProgram>(root);
}

std::string broker_example(host::PluginRegistry& registry) {
  BrokerProgram defaults;
  const SlotExamples options{options_example(registry, "storage", defaults.storage.plugin),
                             options_example(registry, "txn_check", defaults.txn_check.plugin)};
  config::Printer printer;
  printer.heading(
      "Configuration of tenon-broker: every key with its default. A file needs only what differs. "
      "Printed by `tenon config print broker`; check a file with `tenon config check broker "
      "FILE`.");
  describe(printer, defaults, options);
  return printer.text();
}

}  // namespace tenon::app
