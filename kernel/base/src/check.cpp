#include "tenon/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tenon::detail {

void check_failed(const char* file, int line, const char* condition, const std::string& text) {
  std::fprintf(stderr, "%s:%d: invariant broken: %s: %s\n", file, line, condition, text.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace tenon::detail
