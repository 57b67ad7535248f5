// Who we are: client id, and ids of messages (spec: client §1.2, §4.3).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace tenon::sdk {

/// First local IPv4 by Java's rule: no loopback, rather none that starts 192.168. "127.0.0.1" if
/// there is none.
std::string local_ip();

/// ip@instance[@unit][@STREAM]; an empty instance becomes "<pid>#<n>", different at every call.
std::string make_client_id(std::string_view ip,
                           std::string_view instance,
                           std::string_view unit,
                           bool stream = false);

inline constexpr std::size_t kMessageIdChars = 32;

/// Makes UNIQ_KEY ids: ip, pid, a constant, milliseconds of the month, counter; 32 upper-case hex
/// digits. Thread: any. Does not allocate.
class MessageIds {
 public:
  MessageIds(std::string_view ipv4, std::uint16_t pid, std::uint32_t loader);
  /// Writes kMessageIdChars characters.
  void next(std::int64_t now_ms, char* out) noexcept;

  /// Milliseconds since the start of the local month of `now_ms`.
  std::uint32_t month_ms(std::int64_t now_ms) noexcept;

 private:
  void anchor(std::int64_t now_ms) noexcept;
  std::array<char, 20> prefix_{};
  std::atomic<std::uint32_t> counter_{0};
  std::atomic<std::int64_t> month_start_{0};
  std::atomic<std::int64_t> month_end_{0};
  std::mutex mutex_;
};

}  // namespace tenon::sdk
