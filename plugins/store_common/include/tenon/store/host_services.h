// The host as the storage plug-ins use it: the glue's services plus formatted log lines and the
// storage events. Missing optional services turn into no-ops.
#pragma once

#include "tenon/base/log.h"
#include "tenon/base/result.h"
#include "tenon/plugin.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace tenon::store {

/// Thread: any. The host outlives it.
class HostServices {
 public:
  explicit HostServices(const plugin::Host& host) noexcept
      : host_(host) {}

  std::int64_t wall_ms() const noexcept { return host_.wall_ms(); }
  std::uint64_t mono_ns() const noexcept { return host_.mono_ns(); }

  template <class... Args>
  void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const noexcept {
    if (!host_.log_enabled(static_cast<std::int32_t>(level))) {
      return;
    }
    try {
      host_.log(static_cast<std::int32_t>(level), fmt::format(format, std::forward<Args>(args)...));
    } catch (...) {
      host_.log(static_cast<std::int32_t>(level), "log line could not be formatted");
    }
  }

  bool wants_arrivals() const noexcept {
    return TENON_HAS(&host_.storage, tenon_host_storage, arrivals);
  }
  /// May wake: the caller holds no lock that an interface function waits for.
  void arrivals(const tenon_arrival* first, std::size_t n) const noexcept {
    if (n > 0 && wants_arrivals()) {
      host_.storage.arrivals(host_.ctx(), first, sizeof(tenon_arrival), n);
    }
  }
  /// The filter bit map of an entry that is about to be written; all bits set if the host says
  /// nothing.
  void index_bits(const tenon_arrival& entry, std::uint8_t* bits, std::size_t n) const noexcept {
    std::memset(bits, 0xff, n);
    if (TENON_HAS(&host_.storage, tenon_host_storage, index_bits)) {
      host_.storage.index_bits(host_.ctx(), &entry, sizeof entry, 1, bits, n);
    }
  }
  /// May wake.
  void progress(const tenon_progress& p) const noexcept {
    if (TENON_HAS(&host_.storage, tenon_host_storage, progress)) {
      host_.storage.progress(host_.ctx(), &p);
    }
  }
  void fault(tenon_status why, std::string_view what) const noexcept;
  /// Delivery time of a delay level; store time plus one second if the host does not know it (what
  /// an unknown level means, spec: store §18).
  std::int64_t deliver_time(std::uint32_t level, std::int64_t store_ms) const noexcept;

 private:
  const plugin::Host& host_;
};

inline std::string_view to_view(tenon_bytes b) noexcept {
  return b.len == 0 ? std::string_view{}
                    : std::string_view{reinterpret_cast<const char*>(b.ptr), b.len};
}

/// Writes an Error into the ABI's error struct (which may be null) and returns its status.
inline tenon_status report(tenon_error* err, const Error& error) noexcept {
  return plugin::fail(err, static_cast<tenon_status>(error.code), error.detail, error.os_errno);
}
/// Turns an Error into the exception of the glue.
[[noreturn]] void raise(const Error& error);

/// Blocks all signals for the calling thread and names it (15 characters are kept).
void prepare_thread(const char* name) noexcept;

}  // namespace tenon::store
