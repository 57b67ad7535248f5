#include "tenon/host/plugin_registry.h"

#include <fmt/format.h>

namespace tenon::host {

Error ErrorBuffer::make_error(tenon_status status, std::string_view what) const {
  const bool known = status < 0 && status >= TENON_INTERNAL;
  const Errc code = known ? static_cast<Errc>(status) : Errc::kInternal;
  std::string text(text_);
  if (text.empty()) {
    text = known ? std::string(to_string(code)) : fmt::format("unknown status {}", status);
  }
  return Error{code, what.empty() ? text : fmt::format("{}: {}", what, text), raw_.os_errno};
}

}  // namespace tenon::host
