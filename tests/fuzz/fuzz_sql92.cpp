// SQL92 expressions: the text up to the first zero byte is one, the rest is a properties text that
// it is evaluated over, in both dialects.
#include "compile.h"

#include "tenon/base/check.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

using namespace tenon::filter_sql92;

namespace {

Limits small() {
  Limits limits;
  limits.text_bytes_max = 8 * 1024;
  limits.depth_max = 100;
  limits.constant_max = 500;
  return limits;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view text = all.substr(0, all.find('\0'));
  const std::string_view properties = all.substr(std::min(text.size() + 1, all.size()));
  for (const Dialect dialect : {Dialect::k4, Dialect::k5}) {
    try {
      const Program program = compile(text, dialect, small());
      const Outcome first = program.run(properties);
      TENON_CHECK(program.run(properties) == first, "not the same twice");
      TENON_CHECK(!program.normalised().empty(), "no normal form");
      TENON_CHECK(program.properties().size() <= Program::kPropertyMax, "too many properties");
    } catch (const SyntaxError& error) {
      TENON_CHECK(!error.what.empty(), "an error without words");
      TENON_CHECK(error.where <= text.size(), "an error behind the text");
    }
  }
  return 0;
}
