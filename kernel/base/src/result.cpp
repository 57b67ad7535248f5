#include "tenon/base/result.h"

#include <fmt/format.h>

#include <system_error>

namespace tenon {

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::kInvalid:
      return "invalid";
    case Errc::kUnsupported:
      return "unsupported";
    case Errc::kNotFound:
      return "not_found";
    case Errc::kEmpty:
      return "empty";
    case Errc::kRangeLow:
      return "range_low";
    case Errc::kRangeEnd:
      return "range_end";
    case Errc::kRangeHigh:
      return "range_high";
    case Errc::kGap:
      return "gap";
    case Errc::kLimit:
      return "limit";
    case Errc::kBusy:
      return "busy";
    case Errc::kFull:
      return "full";
    case Errc::kTimeout:
      return "timeout";
    case Errc::kNotReady:
      return "not_ready";
    case Errc::kNotLeader:
      return "not_leader";
    case Errc::kStale:
      return "stale";
    case Errc::kConflict:
      return "conflict";
    case Errc::kIo:
      return "io";
    case Errc::kCorrupt:
      return "corrupt";
    case Errc::kDenied:
      return "denied";
    case Errc::kNoMemory:
      return "no_memory";
    case Errc::kClosed:
      return "closed";
    case Errc::kCancelled:
      return "cancelled";
    case Errc::kSmallBuffer:
      return "small_buffer";
    case Errc::kIncompatible:
      return "incompatible";
    case Errc::kInternal:
      return "internal";
  }
  return "unknown";
}

Error os_error(std::string_view what, int os_errno, Errc code) {
  return Error{
      code, fmt::format("{}: {}", what, std::generic_category().message(os_errno)), os_errno};
}

}  // namespace tenon
