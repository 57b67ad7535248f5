// How an RpcSession gets its connection: address, name resolution, attempts, and the way back.
#include "rpc_session.h"
#include "socket_util.h"

#include "tenon/base/log.h"

#include <boost/asio/ip/tcp.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace tenon::net {

namespace asio = boost::asio;
using asio::ip::tcp;

void RpcSession::start() {
  std::function<void()> task = [me = shared_from_this()] { me->connect(); };
  if (!thread_->try_post(task)) {
    end(Errc::kCancelled, "I/O threads are stopped");
  }
}

void RpcSession::connect() {
  if (is_dead()) {
    return;
  }
  registration_ = thread_->add(shared_from_this());
  const auto target = split_host_port(address_);
  if (!target) {
    connect_failed(target.error().detail);
    return;
  }
  connect_timer_ = thread_->after(shared_->options.connect_timeout, [this] {
    connect_timer_ = 0;
    connect_failed(fmt::format("connect {}: no connection within {} ms",
                               address_,
                               shared_->options.connect_timeout.count()));
  });
  boost::system::error_code error;
  const auto numeric = asio::ip::make_address(target.value().host, error);
  if (!error) {
    endpoints_.emplace_back(numeric, target.value().port);
    connect_next();
  } else {
    resolve(target.value().host, target.value().port);
  }
}

/// Asio resolves on a thread of its own, which may hang for long: only a weak reference waits.
void RpcSession::resolve(const std::string& host, std::uint16_t port) {
  auto resolver = std::make_shared<tcp::resolver>(thread_->context());
  resolver->async_resolve(
      host,
      std::to_string(port),
      tcp::resolver::numeric_service,
      [weak = weak_from_this()](const boost::system::error_code& error,
                                const tcp::resolver::results_type& all) {
        const auto me = weak.lock();
        if (!me || me->is_dead()) {
          return;
        }
        const IoThreadImpl::Scope scope(*me->thread_);
        if (error) {
          me->connect_failed(fmt::format("resolve {}: {}", me->address_, error.message()));
          return;
        }
        for (const auto& entry : all) {
          me->endpoints_.push_back(entry.endpoint());
        }
        me->connect_next();
      });
  resolver_ = std::move(resolver);
}

void RpcSession::connect_next() {
  if (next_endpoint_ == endpoints_.size()) {
    connect_failed(connect_error_.empty() ? fmt::format("resolve {}: no address", address_)
                                          : connect_error_);
    return;
  }
  socket_.emplace(thread_->context());
  socket_->async_connect(
      endpoints_[next_endpoint_++],
      [me = shared_from_this()](const boost::system::error_code& error) {
        const IoThreadImpl::Scope scope(*me->thread_);
        if (error == asio::error::operation_aborted || me->is_dead() || !me->socket_) {
          return;
        }
        if (error) {
          me->connect_error_ = fmt::format("connect {}: {}", me->address_, error.message());
          me->connect_next();
        } else {
          me->connected();
        }
      });
}

void RpcSession::connected() {
  prepare_socket(*socket_);
  notice_lost_peer(*socket_, shared_->options.peer_timeout);
  if (shared_->options.tls) {
    shake_hands();
    return;
  }
  tcp::socket socket = std::move(*socket_);
  socket_.reset();
  attach(std::move(socket));
}

/// Within the time of connecting.
void RpcSession::shake_hands() {
  peer_ = socket_address(socket_->native_handle(), AddressOf::kPeer);
  local_ = socket_address(socket_->native_handle(), AddressOf::kLocal);
  tunnel_ = std::make_shared<TlsTunnel>(
      thread_, std::move(*socket_), shared_->options.tls, split_host_port(address_).value().host);
  socket_.reset();
  tunnel_->start([weak = weak_from_this()](Result<tcp::socket> plain) {
    const auto me = weak.lock();
    if (!me || me->is_dead()) {
      return;
    }
    if (plain.has_error()) {
      me->connect_failed(fmt::format("connect {}: {}", me->address_, plain.error().detail));
      return;
    }
    me->tunnel_.reset();  // it ends with the connection
    tcp::socket socket = std::move(plain).value();
    prepare_socket(socket);
    me->attach(std::move(socket));
  });
}

/// The way is there: what waited is sent.
void RpcSession::attach(tcp::socket socket) {
  thread_->cancel(connect_timer_);
  shared_->group->enter();
  counted_ = false;  // the connection takes our place in connection_count
  auto connection = std::make_shared<TcpConnection>(
      thread_, std::move(socket), shared_->group, shared_from_this(), TcpConnection::Kind::kClient);
  if (shared_->options.tls) {
    connection->set_addresses(peer_, local_);
  }
  abandon_connect();
  std::vector<RpcCallback> told;
  const std::int64_t now_ms = steady_ms();
  {
    const std::scoped_lock lock(mutex_);
    state_ = State::kOpen;
    connection_ = connection;
    for (const Waiting& w : waiting_) {
      if (w.oneway || pending_.contains(w.opaque)) {
        if (w.told) {
          pending_.take(w.opaque, told.emplace_back());
        } else {
          pending_.restart(w.opaque, w.deadline_ms, now_ms);
        }
        // In an event of its I/O thread: written at the end of it.
        connection->append([&w](std::string& out, std::int32_t) { out.append(w.bytes); }, w.opaque);
      }
    }
    waiting_ = {};
  }
  connection->open();
  shared_->in_flight.fetch_sub(told.size(), std::memory_order_relaxed);
  for (const RpcCallback& done : told) {
    done(RpcAnswer{});
  }
}

void RpcSession::connect_failed(const std::string& reason) {
  log_debug("net", "no connection address={} reason=\"{}\"", address_, reason);
  end(Errc::kNotReady, reason);
}

/// The attempt is over, one way or the other.
void RpcSession::abandon_connect() {
  thread_->cancel(connect_timer_);
  connect_timer_ = 0;
  if (resolver_) {
    resolver_->cancel();
    resolver_.reset();
  }
  if (tunnel_) {
    tunnel_->close();
    tunnel_.reset();
  }
  if (socket_) {
    boost::system::error_code ignored;
    socket_->close(ignored);
    socket_.reset();
  }
  if (registration_) {
    const auto me = shared_from_this();
    thread_->remove(*registration_);
    registration_.reset();
  }
}

}  // namespace tenon::net
