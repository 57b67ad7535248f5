// Everything that tenon-namesrv reads from its file.
#pragma once

#include "config/common_keys.h"

#include "tenon/base/result.h"
#include "tenon/config/visitor.h"
#include "tenon/namesrv/name_server.h"

#include <string>

namespace tenon::app {

struct NamesrvProgram {
  namesrv::NamesrvConfig namesrv{};
  LogConfig log{};
};

void describe(config::Visitor& v, NamesrvProgram& c);

/// @return kInvalid with all problems of the file, one line each
Result<NamesrvProgram> read_namesrv_program(const ConfigNode& root);

/// The example file with every key.
std::string namesrv_example();

}  // namespace tenon::app
