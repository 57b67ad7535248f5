// Errors as values: what can fail returns Result<T>, and an ignored Result does not compile in CI.
#pragma once

#include <boost/outcome/basic_result.hpp>
#include <boost/outcome/policy/terminate.hpp>
#include <boost/outcome/try.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

/// Why something failed. The numbers are those of the plug-in ABI (tenon_status), so a status
/// crosses the boundary unchanged; kernel/broker maps them to response codes in one place.
enum class Errc : std::int32_t {
  kInvalid = -1,      ///< argument or input illegal
  kUnsupported = -2,  ///< function or option not offered
  kNotFound = -3,     ///< unknown queue, topic, key, file, peer
  kEmpty = -4,        ///< a queue that never had an entry
  kRangeLow = -5,     ///< below the minimum
  kRangeEnd = -6,     ///< exactly the next offset
  kRangeHigh = -7,    ///< beyond the next offset
  kGap = -8,          ///< in range but not readable
  kLimit = -9,        ///< a length or count limit exceeded
  kBusy = -10,        ///< back-pressure, try later
  kFull = -11,        ///< disk or quota
  kTimeout = -12,
  kNotReady = -13,  ///< starting, no replica, not connected
  kNotLeader = -14,
  kStale = -15,     ///< epoch, generation or handle outdated
  kConflict = -16,  ///< position or content does not match; resource held by someone else
  kIo = -17,        ///< a system call failed, see os_errno
  kCorrupt = -18,   ///< data fails its check
  kDenied = -19,
  kNoMemory = -20,
  kClosed = -21,  ///< shutting down or connection closed
  kCancelled = -22,
  kSmallBuffer = -23,
  kIncompatible = -24,  ///< version or format
  kInternal = -25,      ///< a bug, or an unknown status of a plug-in
};

/// Stable lower-case name of a code, for logs ("not_found").
std::string_view to_string(Errc code) noexcept;

/// A failure: the code for programs, the text for people. The text names the object and the reason
/// and has no final period.
struct [[nodiscard]] Error {
  Errc code = Errc::kInternal;
  std::string detail{};
  int os_errno = 0;  ///< errno of the system call that failed, 0 if none did
};

/// Error for a failed system call: "open /x/y: Permission denied".
Error os_error(std::string_view what, int os_errno, Errc code = Errc::kIo);

/// value() of a failed Result terminates with a stack instead of being undefined.
template <class T = void>
using Result = BOOST_OUTCOME_V2_NAMESPACE::
    basic_result<T, Error, BOOST_OUTCOME_V2_NAMESPACE::policy::terminate>;

/// Success of a Result<>: `return ok();`
inline auto ok() {
  return BOOST_OUTCOME_V2_NAMESPACE::success();
}

}  // namespace tenon

/// TENON_TRY(auto x, expression): x is the value, or the enclosing function returns the error.
/// TENON_TRY(expression) for Result<>.
#define TENON_TRY BOOST_OUTCOME_TRY
#define TENON_CO_TRY BOOST_OUTCOME_CO_TRY
