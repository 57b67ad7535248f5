// Version of the programs.
#pragma once

namespace tenon::app {

inline constexpr const char* kVersion = TENON_VERSION;

}  // namespace tenon::app
