#include "tls_tunnel.h"

#include "socket_util.h"

#include "tenon/base/log.h"

#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/write.hpp>

#include <utility>

#include <unistd.h>

namespace tenon::net {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

Error bad_file(const char* what, const std::string& file, const error_code& error) {
  return Error{Errc::kInvalid, fmt::format("{} {}: {}", what, file, error.message())};
}

}  // namespace

Result<> TlsClientImpl::load() {
  error_code error;
  context_.set_options(
      ssl::context::default_workarounds | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1, error);
  context_.set_verify_mode(options_.verify ? ssl::verify_peer : ssl::verify_none, error);
  if (options_.ca_file.empty()) {
    context_.set_default_verify_paths(error);
  } else {
    context_.load_verify_file(options_.ca_file, error);
    if (error) {
      return bad_file("CA certificates", options_.ca_file, error);
    }
  }
  if (options_.certificate_file.empty() != options_.key_file.empty()) {
    return Error{Errc::kInvalid, "a client certificate needs both its file and its key"};
  }
  if (options_.certificate_file.empty()) {
    return ok();
  }
  context_.set_password_callback(
      [password = options_.key_password](std::size_t, ssl::context::password_purpose) {
        return password;
      },
      error);
  context_.use_certificate_chain_file(options_.certificate_file, error);
  if (error) {
    return bad_file("certificate", options_.certificate_file, error);
  }
  context_.use_private_key_file(options_.key_file, ssl::context::pem, error);
  if (error) {
    return bad_file("key", options_.key_file, error);
  }
  return ok();
}

Result<std::shared_ptr<TlsClient>> TlsClient::create(const TlsClientOptions& options) {
  auto made = std::make_shared<TlsClientImpl>(options);
  TENON_TRY(made->load());
  return std::shared_ptr<TlsClient>(std::move(made));
}

TlsTunnel::TlsTunnel(std::shared_ptr<IoThreadImpl> thread,
                     tcp::socket socket,
                     std::shared_ptr<TlsClient> tls,
                     const std::string& host)
    : thread_(std::move(thread)),
      tls_(std::static_pointer_cast<TlsClientImpl>(std::move(tls))),
      stream_(std::move(socket), tls_->context()),
      host_(host),
      plain_(thread_->context()) {}

/// What the server has to show.
error_code TlsTunnel::prepare(const std::string& host) {
  const TlsClientOptions& options = tls_->options();
  const std::string& name = options.server_name.empty() ? host : options.server_name;
  error_code error;
  if (options.verify && options.check_name) {
    stream_.set_verify_callback(ssl::host_name_verification(name), error);
  }
  error_code not_numeric;
  asio::ip::make_address(name, not_numeric);
  if (!error && not_numeric &&
      SSL_set_tlsext_host_name(stream_.native_handle(), name.c_str()) != 1) {
    error = asio::error::invalid_argument;
  }
  return error;
}

void TlsTunnel::start(Ready ready) {
  registration_ = thread_->add(shared_from_this());
  if (const error_code error = prepare(host_)) {
    close();
    ready(Error{Errc::kInvalid, fmt::format("TLS name {}: {}", host_, error.message())});
    return;
  }
  stream_.async_handshake(
      ssl::stream_base::client,
      [me = shared_from_this(), ready = std::move(ready)](const error_code& error) {
        const IoThreadImpl::Scope scope(*me->thread_);
        if (me->closed_) {
          return;
        }
        if (error) {
          me->close();
          ready(Error{Errc::kNotReady, fmt::format("TLS handshake: {}", error.message())});
          return;
        }
        auto plain = me->open_plain();
        if (plain.has_error()) {
          me->close();
          ready(std::move(plain).error());
          return;
        }
        me->pump_out();
        me->pump_in();
        ready(std::move(plain).value());
      });
}

Result<tcp::socket> TlsTunnel::open_plain() {
  asio::local::stream_protocol::socket other(thread_->context());
  error_code error;
  asio::local::connect_pair(plain_, other, error);
  if (error) {
    return Error{Errc::kIo, fmt::format("socket pair: {}", error.message())};
  }
  const int fd = other.release(error);
  tcp::socket out(thread_->context());
  if (!error) {
    out.assign(
        tcp::v4(), fd, error);  // only the type is that of TCP: reads and writes are the same
    if (error) {
      ::close(fd);
    }
  }
  if (error) {
    return Error{Errc::kIo, fmt::format("socket pair: {}", error.message())};
  }
  return out;
}

/// From us to the server. One buffer is under way: who writes faster than the network waits, as
/// with any socket.
void TlsTunnel::pump_out() {
  plain_.async_read_some(asio::buffer(out_),
                         [me = shared_from_this()](const error_code& error, std::size_t n) {
                           const IoThreadImpl::Scope scope(*me->thread_);
                           if (me->closed_ || error) {
                             me->close();
                             return;
                           }
                           asio::async_write(me->stream_,
                                             asio::buffer(me->out_.data(), n),
                                             [me](const error_code& failed, std::size_t) {
                                               const IoThreadImpl::Scope inner(*me->thread_);
                                               if (me->closed_ || failed) {
                                                 me->close();
                                                 return;
                                               }
                                               me->pump_out();
                                             });
                         });
}

void TlsTunnel::pump_in() {
  stream_.async_read_some(asio::buffer(in_),
                          [me = shared_from_this()](const error_code& error, std::size_t n) {
                            const IoThreadImpl::Scope scope(*me->thread_);
                            if (me->closed_ || error) {
                              me->close();
                              return;
                            }
                            asio::async_write(me->plain_,
                                              asio::buffer(me->in_.data(), n),
                                              [me](const error_code& failed, std::size_t) {
                                                const IoThreadImpl::Scope inner(*me->thread_);
                                                if (me->closed_ || failed) {
                                                  me->close();
                                                  return;
                                                }
                                                me->pump_in();
                                              });
                          });
}

void TlsTunnel::close() {
  if (std::exchange(closed_, true)) {
    return;
  }
  error_code ignored;
  plain_.close(ignored);
  stream_.next_layer().close(ignored);
  if (registration_) {
    const auto me = shared_from_this();
    thread_->remove(*registration_);
    registration_.reset();
  }
}

}  // namespace tenon::net
