// What the functions of the C interface have in common: errors by thread, options by size.
#pragma once

#include "tenon/client.h"
#include "tenon/sdk.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <utility>

struct tenon_client {
  tenon::sdk::Client client;
  std::string id;
};
struct tenon_producer {
  tenon::sdk::Producer producer;
};
struct tenon_consumer {
  tenon::sdk::PushConsumer consumer;
};

namespace tenon::sdk::c {

/// Remembers the error for this thread. @return its number
std::int32_t failed(const Error& error) noexcept;
std::int32_t failed(Errc code, const char* text) noexcept;

/// Runs what may throw; nothing crosses.
template <class F>
std::int32_t guarded(F&& f) noexcept {
  try {
    return f();
  } catch (const std::exception& e) {
    return failed(Errc::kInternal, e.what());
  } catch (...) {
    return failed(Errc::kInternal, "unknown exception");
  }
}

/// Copies a structure of any size: a shorter one of an older program has defaults for the rest, a
/// longer one of a newer program must not ask for anything this library does not know.
/// @return false: the size is wrong
template <class T>
bool adopt(const T* in, T& out) noexcept {
  out = T{};
  if (in == nullptr) {
    return true;
  }
  std::size_t size = 0;
  std::memcpy(&size, in, sizeof size);
  if (size <= sizeof size) {
    return false;
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  for (std::size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      return false;
    }
  }
  std::memcpy(&out, in, size < sizeof(T) ? size : sizeof(T));
  return true;
}

/// A tenon_delivery is a MessageView.
inline const MessageView& view(const tenon_delivery* d) noexcept {
  return *reinterpret_cast<const MessageView*>(d);
}
inline const tenon_delivery* delivery(const MessageView& v) noexcept {
  return reinterpret_cast<const tenon_delivery*>(&v);
}

Result<std::map<std::string, Subscription>> subscriptions(const tenon_subscription* first,
                                                          std::size_t count);
Result<StartPosition> start_position(std::int32_t start, std::int64_t start_ms);

inline std::string text(const char* s) {
  return s == nullptr ? std::string() : std::string(s);
}

}  // namespace tenon::sdk::c
