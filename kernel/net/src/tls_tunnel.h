// A TLS connection that looks like a plain socket to the rest: what is written into the one end of
// a socket pair leaves encrypted, what arrives comes out of it decrypted. So TcpConnection, with its
// writers on many threads and its views into the receive buffer, knows nothing of TLS, and plain
// connections pay nothing for it. The price is one more copy in each direction through the kernel.
#pragma once

#include "io_thread.h"

#include "tenon/net/tls.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace tenon::net {

class TlsClientImpl final : public TlsClient {
 public:
  explicit TlsClientImpl(TlsClientOptions options)
      : options_(std::move(options)) {}
  Result<> load();
  const TlsClientOptions& options() const noexcept { return options_; }
  boost::asio::ssl::context& context() noexcept { return context_; }

 private:
  const TlsClientOptions options_;
  boost::asio::ssl::context context_{boost::asio::ssl::context::tls_client};
};

/// Thread: its I/O thread. Kept alive by its own operations until one of the sides has ended.
class TlsTunnel final : public Closable, public std::enable_shared_from_this<TlsTunnel> {
 public:
  /// Gets the plain end when the server is who it should be, or the reason why there is none.
  using Ready = std::function<void(Result<boost::asio::ip::tcp::socket>)>;

  /// @param socket  connected
  TlsTunnel(std::shared_ptr<IoThreadImpl> thread,
            boost::asio::ip::tcp::socket socket,
            std::shared_ptr<TlsClient> tls,
            const std::string& host);

  /// Shakes hands. `ready` is called once, not after close().
  void start(Ready ready);
  /// Ends both sides. Idempotent.
  void close();
  void close_on_thread() override { close(); }

 private:
  using Stream = boost::asio::ssl::stream<boost::asio::ip::tcp::socket>;

  boost::system::error_code prepare(const std::string& host);
  Result<boost::asio::ip::tcp::socket> open_plain();
  void pump_out();
  void pump_in();

  const std::shared_ptr<IoThreadImpl> thread_;
  const std::shared_ptr<TlsClientImpl> tls_;
  Stream stream_;
  const std::string host_;
  boost::asio::local::stream_protocol::socket plain_;
  std::optional<IoThreadImpl::Registration> registration_{};
  std::array<std::byte, 16 * 1024> out_{};
  std::array<std::byte, 16 * 1024> in_{};
  bool closed_ = false;
};

}  // namespace tenon::net
