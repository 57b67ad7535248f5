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
#include <vector>

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

inline std::string text(const char* s) {
  return s == nullptr ? std::string() : std::string(s);
}

/// Zero means the default, which is there already.
template <class To, class From>
void set(To& to, From from) {
  if (from != 0) {
    to = static_cast<To>(from);
  }
}

Subscription subscription(const tenon_subscription& in);
Result<std::map<std::string, Subscription>> subscriptions(const tenon_subscription* first,
                                                          std::size_t count);
Result<StartPosition> start_position(std::int32_t start, std::int64_t start_ms);

/// Appends the functions of a C program; NULL: none.
Result<void> add_hook(const tenon_send_hook* in, std::vector<SendHook>& out);
Result<void> add_hook(const tenon_consume_hook* in, std::vector<ConsumeHook>& out);

/// What the options of push and pull consumers have in common.
template <class C, class Options>
Result<void> consumer_options(const C& in, Options& out) {
  auto wanted = subscriptions(in.subscriptions, in.subscription_count);
  if (!wanted) {
    return std::move(wanted).error();
  }
  auto start = start_position(in.start, in.start_ms);
  if (!start) {
    return std::move(start).error();
  }
  out.group = text(in.group);
  out.subscriptions = std::move(*wanted);
  out.start = *start;
  out.allocator = text(in.allocator);
  out.mode = in.broadcasting != 0 ? GroupMode::kBroadcasting : GroupMode::kClustering;
  out.local_offset_dir = text(in.local_offset_dir);
  set(out.pull_batch, in.pull_batch);
  set(out.cached_max_messages, in.cached_max_messages);
  set(out.cached_max_mib, in.cached_max_mib);
  set(out.rebalance_interval, in.rebalance_interval_ms);
  set(out.pull_error_delay, in.pull_error_delay_ms);
  return add_hook(in.hook, out.hooks);
}

}  // namespace tenon::sdk::c
