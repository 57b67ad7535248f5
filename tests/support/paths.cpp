#include "paths.h"

namespace tenon::test {

std::string data_dir() {
  return TENON_TEST_DATA;
}
std::string plugin_dir() {
  return TENON_PLUGIN_DIR;
}
std::string bin_dir() {
  return TENON_BIN_DIR;
}

}  // namespace tenon::test
