#include "socket_util.h"

#include "tenon/base/endian.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace tenon::net {

proto::HostAddr socket_address(int fd, AddressOf which) noexcept {
  sockaddr_storage raw{};
  socklen_t size = sizeof raw;
  auto* address = reinterpret_cast<sockaddr*>(&raw);
  const int failed = which == AddressOf::kLocal ? ::getsockname(fd, address, &size)
                                                : ::getpeername(fd, address, &size);
  proto::HostAddr out;
  if (failed != 0) {
    return out;
  }
  if (raw.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&raw);
    std::memcpy(out.ip.data(), &v4->sin_addr, 4);
    out.port = byte_swap(v4->sin_port);
  } else if (raw.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&raw);
    out.port = byte_swap(v6->sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
      std::memcpy(out.ip.data(), v6->sin6_addr.s6_addr + 12, 4);
    } else {
      std::memcpy(out.ip.data(), &v6->sin6_addr, 16);
      out.v6 = true;
    }
  }
  return out;
}

Result<HostPort> split_host_port(std::string_view text) {
  const auto bad = [text] {
    return Error{Errc::kInvalid, fmt::format("address \"{}\" is not of the form host:port", text)};
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return bad();
  }
  std::string_view host = text.substr(0, colon);
  if (host.front() == '[') {
    if (host.back() != ']') {
      return bad();
    }
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();
  }
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size() || host.empty() || port == 0) {
    return bad();
  }
  return HostPort{std::string(host), port};
}

void prepare_socket(boost::asio::ip::tcp::socket& socket) noexcept {
  boost::system::error_code ignored;
  socket.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  socket.non_blocking(true, ignored);
}

void notice_lost_peer(boost::asio::ip::tcp::socket& socket,
                      std::chrono::milliseconds timeout) noexcept {
  if (timeout.count() <= 0) {
    return;
  }
  const int fd = socket.native_handle();
  const auto set = [fd](int level, int name, std::int64_t value) {
    const int number = static_cast<int>(std::clamp<std::int64_t>(value, 1, INT32_MAX));
    ::setsockopt(fd, level, name, &number, sizeof number);  // without it the peer is noticed later
  };
  constexpr std::int64_t kProbes = 3;
  const std::int64_t seconds = timeout.count() / 1'000;
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, timeout.count());
  set(IPPROTO_TCP, TCP_KEEPIDLE, std::min<std::int64_t>(seconds, 32'767));
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::min<std::int64_t>(seconds / kProbes, 32'767));
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

}  // namespace tenon::net
