// An address at which nobody answers, as behind a firewall that drops packets.
#pragma once

#include "net_fixture.h"

#include <array>
#include <string>
#include <vector>

namespace tenon::net::test {

/// A listening socket whose queue is full: the system drops what wants to connect, until the queue
/// is emptied.
class BlackHole {
 public:
  BlackHole()
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    at_.sin_family = AF_INET;
    at_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at_;
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&at_), size) == 0);
    REQUIRE(::listen(fd_, 0) == 0);
    REQUIRE(::getsockname(fd_, reinterpret_cast<sockaddr*>(&at_), &size) == 0);
    for (int i = 0; i < 3; ++i) {
      const int f = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
      static_cast<void>(::connect(f, reinterpret_cast<sockaddr*>(&at_), size));
      fill_.push_back(f);
    }
  }
  ~BlackHole() {
    for (const int f : fill_) {
      ::close(f);
    }
    for (const int f : taken_) {
      ::close(f);
    }
    ::close(fd_);
  }
  BlackHole(const BlackHole&) = delete;
  BlackHole& operator=(const BlackHole&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(ntohs(at_.sin_port)); }
  /// Takes connections until one has brought so many bytes; false if none does.
  bool opens_and_reads(std::size_t bytes) {
    std::string in;
    return Waiter::poll([&] {
      const int f = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK);
      if (f >= 0) {
        taken_.push_back(f);
      }
      for (const int t : taken_) {
        std::array<char, 4096> room{};
        const ssize_t n = ::recv(t, room.data(), room.size(), 0);
        in.append(room.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
      }
      return in.size() >= bytes;
    });
  }

 private:
  const int fd_;
  sockaddr_in at_{};
  std::vector<int> fill_{};
  std::vector<int> taken_{};
};

}  // namespace tenon::net::test
