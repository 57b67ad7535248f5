// Calls functions of the program that may not change anything by throwing.
#pragma once

#include "tenon/base/log.h"

#include <exception>

namespace tenon::sdk::detail {

template <class F>
void guarded_hook(F&& hook) noexcept {
  try {
    hook();
  } catch (const std::exception& e) {
    log_error("sdk", "a hook threw what=\"{}\"", e.what());
  } catch (...) {
    log_error("sdk", "a hook threw");
  }
}

}  // namespace tenon::sdk::detail
