// Names and visibility of the client SDK.
//
// Everything public is declared in tenon::sdk and, for programs, is also reachable directly in
// tenon: `tenon::Client`. Inside this project, where a translation unit may see the kernel's own
// tenon::Result and tenon::Error as well, only the long form exists.
#pragma once

#if defined(__GNUC__)
#define TENON_SDK_API __attribute__((visibility("default")))
#else
#define TENON_SDK_API
#endif

#if !defined(TENON_SDK_NAMES_QUALIFIED) && defined(__has_include)
#if __has_include("tenon/base/result.h")
#define TENON_SDK_NAMES_QUALIFIED 1
#endif
#endif

namespace tenon {
namespace sdk {}
#ifndef TENON_SDK_NAMES_QUALIFIED
using namespace sdk;
#endif
}  // namespace tenon
