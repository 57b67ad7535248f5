#include "config/namesrv_program.h"

#include "tenon/config/printer.h"
#include "tenon/config/reader.h"

namespace tenon::app {

void describe(config::Visitor& v, NamesrvProgram& c) {
  namesrv::describe(v, c.namesrv);
  describe(v, c.log);
}

Result<NamesrvProgram> read_namesrv_program(const ConfigNode& root) {
  return config::read_described<NamesrvProgram>(root);
}

std::string namesrv_example() {
  NamesrvProgram defaults;
  config::Printer printer;
  printer.heading(
      "Configuration of tenon-namesrv: every key with its default. A file needs only what differs. "
      "Printed by `tenon config print namesrv`; check a file with `tenon config check namesrv "
      "FILE`.");
  describe(printer, defaults);
  return printer.text();
}

}  // namespace tenon::app
