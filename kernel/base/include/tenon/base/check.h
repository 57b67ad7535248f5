// Checks of our own invariants, on in every build. Never for input: what a peer, a user or a disk
// can cause is an Error.
#pragma once

#include <fmt/format.h>

#include <string>

namespace tenon::detail {
[[noreturn]] void check_failed(const char* file,
                               int line,
                               const char* condition,
                               const std::string& text);
}

/// TENON_CHECK(condition, "text {}", args...): prints and aborts if our own code broke an
/// invariant.
#define TENON_CHECK(condition, ...)                                                              \
  do {                                                                                           \
    if (!(condition)) [[unlikely]] {                                                             \
      ::tenon::detail::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
    }                                                                                            \
  } while (false)

/// Like TENON_CHECK, for checks too expensive for a release build.
#ifdef NDEBUG
#define TENON_DCHECK(condition, ...) static_cast<void>(0)
#else
#define TENON_DCHECK(condition, ...) TENON_CHECK(condition, __VA_ARGS__)
#endif
