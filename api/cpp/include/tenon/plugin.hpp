// C++20 glue for authors of plug-ins. Header-only, compiled into the plug-in, not part of the ABI.
//
//   struct First {
//     static constexpr tenon::plugin::About kAbout{.id = "org.example.first", .version = "1.0.0"};
//     using Interfaces = tenon::plugin::Offers<tenon::plugin::QueueSelector>;
//     explicit First(tenon::plugin::Host& host) : start_(host.config().get("start", 0)) {}
//     std::int32_t select(const tenon_queue_set* set, const tenon_select*) noexcept {
//       return set->count ? static_cast<std::int32_t>(start_++ % set->count) : TENON_EMPTY;
//     }
//     std::atomic<std::uint32_t> start_;
//   };
//   TENON_PLUGINS(First)
//
// The object is constructed in `init` and destroyed in `destroy`. A constructor with a Host& is the
// only must; optional members, found by name: activate(), deactivate(), reconfigure(),
// tenon_status quiesce(tenon_token), status(const tenon_sink&), kKeys. Anything may throw: it
// arrives at the host as a status with text (Failure: its own status; others: TENON_INTERNAL).
#pragma once

#include "tenon/abi/plugin.h"
#include "tenon/plugin/host.hpp"
#include "tenon/plugin/instance.hpp"
#include "tenon/plugin/tables.hpp"
#include "tenon/plugin/views.hpp"

/// Defines the entry object of a file with these plug-in classes; once per file, outside of any
/// namespace.
#define TENON_PLUGINS(...)                                   \
  extern "C" {                                               \
  constinit const tenon_entry TENON_PLUGIN_ENTRY_SYMBOL =    \
      ::tenon::plugin::detail::Module<__VA_ARGS__>::entry(); \
  }                                                          \
  static_assert(true)
