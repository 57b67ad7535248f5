// An HTTP end point on a free port of this machine.
#pragma once

#include <doctest/doctest.h>

#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tenon::test {

/// Answers each connection with this text, whatever is asked; empty: accepts and stays silent.
class HttpAnswers {
 public:
  explicit HttpAnswers(std::string answer)
      : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&at), size) == 0);
    REQUIRE(::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    REQUIRE(::listen(fd_, 4) == 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(at.sin_port)) + "/rocketmq/nsaddr";
    thread_ = std::thread([this, text = std::move(answer)] { serve(text); });
  }
  ~HttpAnswers() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  HttpAnswers(const HttpAnswers&) = delete;
  HttpAnswers& operator=(const HttpAnswers&) = delete;

  const std::string& url() const { return url_; }
  /// The first one; waits for it. Once.
  std::string request() { return first_.get_future().get(); }

 private:
  void serve(std::string_view answer) {
    bool first = true;
    for (int peer = 0; (peer = ::accept(fd_, nullptr, nullptr)) >= 0; ::close(peer)) {
      std::string asked = read_request(peer);
      if (std::exchange(first, false)) {
        first_.set_value(std::move(asked));
      }
      char part[64];
      if (!answer.empty()) {
        static_cast<void>(::send(peer, answer.data(), answer.size(), MSG_NOSIGNAL));
      } else {
        while (::recv(peer, part, sizeof part, 0) > 0) {
        }
      }
    }
  }
  static std::string read_request(int peer) {
    std::string all;
    char part[1024];
    while (all.find("\r\n\r\n") == std::string::npos) {
      const ssize_t n = ::recv(peer, part, sizeof part, 0);
      if (n <= 0) {
        break;
      }
      all.append(part, static_cast<std::size_t>(n));
    }
    return all;
  }

  const int fd_;
  std::string url_;
  std::promise<std::string> first_{};
  std::thread thread_;
};

}  // namespace tenon::test
