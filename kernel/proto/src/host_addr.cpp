// Addresses in text form and the message ids that carry them (spec: remoting §9.4).
#include "tenon/base/endian.h"
#include "tenon/proto/command.h"
#include "tenon/proto/message.h"

#include <fmt/format.h>

#include <arpa/inet.h>

namespace tenon::proto {
namespace {

constexpr char kHex[] = "0123456789ABCDEF";

void append_hex(std::string& out, const std::uint8_t* bytes, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    out.push_back(kHex[bytes[i] >> 4]);
    out.push_back(kHex[bytes[i] & 0xF]);
  }
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string to_string(const HostAddr& addr) {
  if (!addr.v6) {
    return fmt::format("{}.{}.{}.{}:{}", addr.ip[0], addr.ip[1], addr.ip[2], addr.ip[3], addr.port);
  }
  char text[INET6_ADDRSTRLEN];
  if (::inet_ntop(AF_INET6, addr.ip.data(), text, sizeof text) == nullptr) {
    return {};
  }
  return fmt::format("[{}]:{}", text, addr.port);
}

Result<HostAddr> parse_host_addr(std::string_view text) {
  const auto invalid = [text] {
    return Error{Errc::kInvalid, fmt::format("address \"{}\" is not IP:PORT", text)};
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return invalid();
  }
  const auto port = parse_int(text.substr(colon + 1));
  if (!port || *port < 0 || *port > 65535) {
    return invalid();
  }
  HostAddr addr;
  addr.port = static_cast<std::uint16_t>(*port);
  std::string_view ip = text.substr(0, colon);
  addr.v6 = ip.size() >= 2 && ip.front() == '[' && ip.back() == ']';
  if (addr.v6) {
    ip = ip.substr(1, ip.size() - 2);
  }
  const std::string terminated(ip);
  if (::inet_pton(addr.v6 ? AF_INET6 : AF_INET, terminated.c_str(), addr.ip.data()) != 1) {
    return invalid();
  }
  return addr;
}

std::string offset_message_id(const HostAddr& store_host, std::int64_t phys_offset) {
  std::uint8_t tail[12];
  store_be(tail, std::uint32_t{store_host.port});
  store_be(tail + 4, phys_offset);
  const std::size_t ip_bytes = store_host.v6 ? 16 : 4;
  std::string out;
  out.reserve(2 * (ip_bytes + sizeof tail));
  append_hex(out, store_host.ip.data(), ip_bytes);
  append_hex(out, tail, sizeof tail);
  return out;
}

Result<OffsetMessageId> parse_offset_message_id(std::string_view text) {
  const auto invalid = [text] {
    return Error{Errc::kInvalid,
                 fmt::format("\"{}\" is no offset message id", text.substr(0, 128))};
  };
  if (text.size() != 32 && text.size() != 56) {
    return invalid();
  }
  std::array<std::uint8_t, 28> bytes{};
  for (std::size_t i = 0; i < text.size() / 2; ++i) {
    const int high = hex_digit(text[2 * i]);
    const int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return invalid();
    }
    bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  OffsetMessageId id;
  id.store_host.v6 = text.size() == 56;
  const std::size_t ip_bytes = id.store_host.v6 ? 16 : 4;
  std::memcpy(id.store_host.ip.data(), bytes.data(), ip_bytes);
  const auto port = load_be<std::uint32_t>(bytes.data() + ip_bytes);
  if (port > 65535) {
    return invalid();
  }
  id.store_host.port = static_cast<std::uint16_t>(port);
  id.phys_offset = load_be<std::int64_t>(bytes.data() + ip_bytes + 4);
  return id;
}

}  // namespace tenon::proto
