#include "config/broker_program.h"

#include "config/broker_keys.h"

#include "tenon/config/printer.h"
#include "tenon/config/reader.h"

namespace tenon::app {

broker::PluginSlots BrokerProgram::slots() const {
  broker::PluginSlots out;
  out.storage = {storage.id_or_path(), &storage.options};
  for (const config::Slot& filter : filters) {
    out.filters.push_back({filter.id_or_path(), &filter.options});
  }
  return out;
}

void describe(config::Visitor& v, BrokerProgram& c) {
  describe(v, c.broker);
  describe(v, c.log);
  describe(v, c.plugins);
  v.slot("storage",
         c.storage,
         {.doc = "Where messages are kept. `tenon plugin list` shows what there is, `tenon plugin "
                 "describe ID` the options, which go to [storage.options]. Instead of plugin: path "
                 "= \"/file.tenon.so\". name is for logs."});
  v.slots("filter",
          c.filters,
          {.doc = "How subscriptions are evaluated: one [[filter]] for each kind of expression. A "
                  "file that has any replaces this list. required = false: start without it if it "
                  "cannot be loaded."});
}

Result<BrokerProgram> read_broker_program(const ConfigNode& root) {
  BrokerProgram out;
  config::Problems problems;
  config::Reader reader(root, problems);
  describe(reader, out);
  reader.finish();
  TENON_TRY(problems.result());
  return out;
}

std::string broker_example() {
  BrokerProgram defaults;
  config::Printer printer;
  printer.heading(
      "Configuration of tenon-broker: every key with its default. A file needs only what differs. "
      "Printed by `tenon config print broker`; check a file with `tenon config check broker "
      "FILE`.");
  describe(printer, defaults);
  return printer.text();
}

}  // namespace tenon::app
