// Addresses of sockets.
#pragma once

#include "tenon/base/result.h"
#include "tenon/proto/message.h"

#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::net {

enum class AddressOf : std::uint8_t { kLocal, kPeer };

/// Address of a connected socket; all zero if the system does not tell. IPv4 addresses mapped into
/// IPv6 are given as IPv4.
proto::HostAddr socket_address(int fd, AddressOf which) noexcept;

struct HostPort {
  std::string host{};
  std::uint16_t port = 0;
};
/// Splits "host:port" and "[v6]:port".
Result<HostPort> split_host_port(std::string_view text);

/// Options of every connection: no delay, non-blocking.
void prepare_socket(boost::asio::ip::tcp::socket& socket) noexcept;

/// The system closes the connection when the peer has confirmed nothing for so long: neither bytes
/// nor, in silence of the same length, probes. 0: left as it is.
void notice_lost_peer(boost::asio::ip::tcp::socket& socket,
                      std::chrono::milliseconds timeout) noexcept;

}  // namespace tenon::net
