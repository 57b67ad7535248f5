// Where the tests find their data and the programs that were built. One object file knows it, so that all others compile to the same
// bytes in every checkout and the compiler cache serves them.
#pragma once

#include <string>

namespace tenon::test {

std::string data_dir();    ///< tests/data of the source tree
std::string plugin_dir();  ///< build/<preset>/plugins
std::string bin_dir();     ///< build/<preset>/bin

}  // namespace tenon::test
