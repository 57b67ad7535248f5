// Offset message ids without a string of their own (spec: remoting §9.4).
#pragma once

#include "tenon/proto/message.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tenon::broker {

/// Upper-case hex of the store host and the position.
class MessageIdText {
 public:
  static constexpr std::size_t kMaxBytes = 56;

  MessageIdText(const proto::HostAddr& host, std::uint64_t phys) noexcept {
    for (std::size_t i = 0; i < (host.v6 ? 16u : 4u); ++i) {
      byte(host.ip[i]);
    }
    for (int shift = 24; shift >= 0; shift -= 8) {
      byte(static_cast<std::uint8_t>(std::uint32_t{host.port} >> shift));
    }
    for (int shift = 56; shift >= 0; shift -= 8) {
      byte(static_cast<std::uint8_t>(phys >> shift));
    }
  }
  std::string_view view() const noexcept { return {text_, size_}; }

 private:
  void byte(std::uint8_t b) noexcept {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    text_[size_++] = kDigits[b >> 4];
    text_[size_++] = kDigits[b & 15];
  }
  char text_[kMaxBytes];
  std::size_t size_ = 0;
};

}  // namespace tenon::broker
