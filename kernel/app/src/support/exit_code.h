// What the programs return to the shell.
#pragma once

namespace tenon::app {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  ///< it was tried and did not work
inline constexpr int kExitUsage = 2;   ///< the command line or the configuration is wrong

}  // namespace tenon::app
