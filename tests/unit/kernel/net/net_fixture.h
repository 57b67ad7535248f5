// What the tests of net share: a raw client socket, waiting with a deadline, a server whose handler
// is a function.
#pragma once

#include "tenon/base/log.h"
#include "tenon/net/connection.h"
#include "tenon/net/io_pool.h"
#include "tenon/net/rpc_client.h"
#include "tenon/proto/command.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tenon::net::test {

using namespace std::chrono_literals;

/// State that tests change under a lock and wait for.
class Waiter {
 public:
  template <class F>
  void change(F f) {
    const std::scoped_lock lock(mutex_);
    f();
    changed_.notify_all();
  }
  template <class F>
  bool wait(F condition, std::chrono::milliseconds limit = 20s) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, condition);
  }
  /// For conditions that nobody announces.
  template <class F>
  static bool poll(F condition, std::chrono::milliseconds limit = 20s) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) {
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }

 private:
  std::mutex mutex_{};
  std::condition_variable changed_{};
};

/// Counts the log lines of level warn and above.
class CountingSink final : public LogSink {
 public:
  CountingSink() { set_log_sink(this); }
  ~CountingSink() override { set_log_sink(nullptr); }
  bool enabled(LogLevel level, std::string_view) noexcept override {
    return level >= LogLevel::kWarn;
  }
  void write(LogLevel,
             std::string_view,
             std::string_view,
             const std::source_location&) noexcept override {
    ++lines;
  }
  std::atomic<int> lines{0};
};

/// A blocking TCP client.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  RawClient(RawClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        connected_(other.connected_),
        in_(std::move(other.in_)) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { close(); }

  bool connected() const { return connected_; }
  void close() {
    if (fd_ >= 0) {
      ::close(std::exchange(fd_, -1));
    }
  }
  /// Ends with RST instead of FIN.
  void reset() {
    const linger hard{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }
  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  /// What the kernel takes at once; -1 when it takes nothing more.
  ssize_t write_some(std::string_view bytes) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  /// Exactly n bytes; fewer if the peer closed or the time is up.
  std::string read(std::size_t n, std::chrono::milliseconds limit = 20s) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (in_.size() < n) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      pollfd p{fd_, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&p, 1, static_cast<int>(left.count())) <= 0) {
        break;
      }
      char chunk[65536];
      const ssize_t got = ::recv(fd_, chunk, sizeof chunk, 0);
      if (got <= 0) {
        break;
      }
      in_.append(chunk, static_cast<std::size_t>(got));
    }
    std::string out = in_.substr(0, n);
    in_.erase(0, out.size());
    if (in_.empty()) {
      std::string().swap(in_);
    }
    return out;
  }
  /// True when the peer has closed and nothing more is to be read.
  bool at_end(std::chrono::milliseconds limit = 20s) {
    pollfd p{fd_, POLLIN, 0};
    char c = 0;
    return in_.empty() && ::poll(&p, 1, static_cast<int>(limit.count())) == 1 &&
           ::recv(fd_, &c, 1, 0) <= 0;
  }
  proto::Command read_command() {
    const std::string head = read(4);
    if (head.size() < 4) {
      return {.code = -1};
    }
    std::uint32_t length = 0;
    std::memcpy(&length, head.data(), 4);
    std::string frame = head + read(ntohl(length));
    proto::CommandView view;
    const auto r =
        proto::decode_command({reinterpret_cast<std::byte*>(frame.data()), frame.size()}, view);
    return r ? proto::Command::from(view) : proto::Command{.code = -2};
  }

 private:
  int fd_;
  bool connected_ = false;
  std::string in_{};
};

inline std::string frame(std::int32_t code,
                         std::int32_t opaque,
                         std::string_view body = {},
                         std::int32_t flag = 0) {
  proto::Command c{.code = code, .opaque = opaque, .flag = flag, .body = std::string(body)};
  std::string out;
  c.encode(out);
  return out;
}

/// Writes the answer of an echo: same opaque, same body.
inline void echo(std::string& out, const proto::CommandView& c) {
  proto::FrameWriter(out,
                     {.code = 0, .opaque = c.opaque, .flag = proto::kFlagResponse, .kind = c.kind})
      .finish(c.body);
}

/// A handler made of functions; by default it echoes.
class TestHandler final : public ConnectionHandler, public Waiter {
 public:
  std::function<void(const ConnectionPtr&, const proto::CommandView&, const BufferRef&)>
      on_command =
          [](const ConnectionPtr& connection, const proto::CommandView& c, const BufferRef&) {
            if (!c.is_oneway()) {
              echo(connection->out(), c);
            }
          };
  std::vector<ConnectionPtr> opened{};
  std::vector<CloseReason> closed{};
  std::vector<std::size_t> batches{};
  std::size_t commands = 0;

  void on_open(const ConnectionPtr& c) override {
    change([&] { opened.push_back(c); });
  }
  void on_commands(const ConnectionPtr& connection,
                   std::span<const proto::CommandView> list,
                   const BufferRef& keep) override {
    for (const auto& c : list) {
      on_command(connection, c, keep);
    }
    change([&] {
      batches.push_back(list.size());
      commands += list.size();
    });
  }
  void on_close(const ConnectionPtr& connection, CloseReason reason) override {
    change([&] {
      closed.push_back(reason);
      std::erase(opened, connection);
    });
  }
  std::size_t opened_count() {
    std::size_t n = 0;
    change([&] { n = opened.size(); });
    return n;
  }
  std::size_t command_count() {
    std::size_t n = 0;
    change([&] { n = commands; });
    return n;
  }
  std::vector<CloseReason> close_reasons() {
    std::vector<CloseReason> copy;
    change([&] { copy = closed; });
    return copy;
  }
  ConnectionPtr first_connection() {
    ConnectionPtr c;
    wait([&] { return !opened.empty(); });
    change([&] { c = opened.empty() ? nullptr : opened.front(); });
    return c;
  }
};

struct TestServer {
  explicit TestServer(std::size_t threads = 1, ConnectionLimits limits = {}) {
    pool = IoPool::start({.threads = threads, .name = "srv"}).value();
    server = Server::listen(*pool, {.host = "127.0.0.1", .limits = limits}, handler).value();
  }
  ~TestServer() {
    handler.change([&] { handler.opened.clear(); });
    server->stop();
    pool->stop();
  }
  std::uint16_t port() const { return server->port(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port()); }

  TestHandler handler{};
  std::unique_ptr<IoPool> pool{};
  std::unique_ptr<Server> server{};
};

}  // namespace tenon::net::test
