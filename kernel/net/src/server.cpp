// Accepts connections and spreads them over the threads of a pool.
#include "io_pool.h"
#include "socket_util.h"
#include "tcp_connection.h"

#include "tenon/base/check.h"
#include "tenon/base/log.h"
#include "tenon/net/connection.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace tenon::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr int kAcceptsPerEvent = 64;
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::int64_t kLogEveryMs = 60'000;

/// An accepted connection on its way to its thread; undone if it does not get there.
class Arrival {
 public:
  Arrival(int fd, std::shared_ptr<IoThreadImpl> to, std::shared_ptr<ConnectionGroup> of)
      : target(std::move(to)),
        group(std::move(of)),
        fd_(fd) {
    target->connection_count.fetch_add(1, std::memory_order_relaxed);
    group->enter();
  }
  ~Arrival() {
    if (fd_ >= 0) {
      ::close(fd_);
      target->connection_count.fetch_sub(1, std::memory_order_relaxed);
      group->leave();
    }
  }
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;
  int fd() const noexcept { return fd_; }
  void arrived() noexcept { fd_ = -1; }

  const std::shared_ptr<IoThreadImpl> target;
  const std::shared_ptr<ConnectionGroup> group;

 private:
  int fd_;
};

/// Lives on thread 0 of the pool.
class Acceptor final : public Closable, public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(std::vector<std::shared_ptr<IoThreadImpl>> threads,
           Server::Options options,
           ConnectionHandler& handler)
      : threads_(std::move(threads)),
        options_(std::move(options)),
        group_(std::make_shared<ConnectionGroup>(options_.limits)),
        handler_(std::shared_ptr<ConnectionHandler>{}, &handler),
        acceptor_(std::in_place, threads_.front()->context()) {}

  Result<> bind();
  void start() {
    registration_ = thread().add(shared_from_this());
    wait();
  }
  void close_on_thread() override;

  IoThreadImpl& thread() noexcept { return *threads_.front(); }
  const std::vector<std::shared_ptr<IoThreadImpl>>& threads() const noexcept { return threads_; }
  ConnectionGroup& group() noexcept { return *group_; }
  std::uint16_t port() const noexcept { return port_; }

 private:
  void wait();
  void accept_some();
  void pause(int error);
  void adopt(int fd);
  bool may_log(std::atomic<std::int64_t>& next) noexcept;

  const std::vector<std::shared_ptr<IoThreadImpl>> threads_;
  const Server::Options options_;
  const std::shared_ptr<ConnectionGroup> group_;
  const std::shared_ptr<ConnectionHandler> handler_;  ///< not owned
  std::optional<tcp::acceptor> acceptor_;
  std::uint16_t port_ = 0;
  bool v6_ = false;
  std::optional<IoThreadImpl::Registration> registration_{};
  TimerId pause_timer_ = 0;
  std::atomic<std::int64_t> next_limit_log_ms_{0};
  std::atomic<std::int64_t> next_pause_log_ms_{0};
};

Result<> Acceptor::bind() {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(options_.host, error);
  if (error) {
    return Error{Errc::kInvalid,
                 fmt::format("listen address \"{}\" is not a numeric IP address", options_.host)};
  }
  v6_ = address.is_v6();
  const tcp::endpoint endpoint(address, options_.port);
  const auto failed = [&](std::string_view what) {
    const int code = error.value();
    const Errc errc = code == EADDRINUSE                ? Errc::kConflict
                      : code == EACCES || code == EPERM ? Errc::kDenied
                                                        : Errc::kIo;
    return os_error(fmt::format("{} {}:{}", what, options_.host, options_.port), code, errc);
  };
  acceptor_->open(endpoint.protocol(), error);
  if (error) {
    return failed("open socket for");
  }
  acceptor_->set_option(tcp::acceptor::reuse_address(true), error);
  if (v6_) {
    acceptor_->set_option(asio::ip::v6_only(false), error);
  }
  acceptor_->bind(endpoint, error);
  if (error) {
    return failed("bind");
  }
  acceptor_->listen(options_.backlog, error);
  if (error) {
    return failed("listen on");
  }
  acceptor_->non_blocking(true, error);
  port_ = acceptor_->local_endpoint(error).port();
  return ok();
}

void Acceptor::wait() {
  acceptor_->async_wait(tcp::acceptor::wait_read,
                        [me = shared_from_this()](const boost::system::error_code& error) {
                          const IoThreadImpl::Scope scope(me->thread());
                          if (!error && me->acceptor_) {
                            me->accept_some();
                          }
                        });
}

void Acceptor::accept_some() {
  for (int i = 0; i < kAcceptsPerEvent; ++i) {
    const int fd =
        ::accept4(acceptor_->native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      adopt(fd);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      pause(errno);
      return;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    }
    // ECONNABORTED and network errors belong to the one connection.
  }
  wait();
}

/// Without a pause the waiting connection would wake us again at once.
void Acceptor::pause(int error) {
  if (may_log(next_pause_log_ms_)) {
    log_error("net",
              "accepting paused, raise the limit of open files port={} error=\"{}\"",
              port_,
              std::strerror(error));
  }
  pause_timer_ = thread().after(kAcceptPause, [this] {
    pause_timer_ = 0;
    wait();
  });
}

bool Acceptor::may_log(std::atomic<std::int64_t>& next) noexcept {
  const std::int64_t now = coarse_ms();
  if (now < next.load(std::memory_order_relaxed)) {
    return false;
  }
  next.store(now + kLogEveryMs, std::memory_order_relaxed);
  return true;
}

void Acceptor::adopt(int fd) {
  if (group_->count() >= options_.connection_max) {
    ::close(fd);
    if (may_log(next_limit_log_ms_)) {
      log_warn(
          "net", "connection refused, too many port={} connections={}", port_, group_->count());
    }
    return;
  }
  auto arrival = std::make_shared<Arrival>(fd, pick_thread(threads_), group_);
  auto take_over = [me = shared_from_this(), arrival] {
    boost::system::error_code error;
    tcp::socket socket(arrival->target->context());
    socket.assign(me->v6_ ? tcp::v6() : tcp::v4(), arrival->fd(), error);
    if (error) {
      return;
    }
    arrival->arrived();
    prepare_socket(socket);
    std::make_shared<TcpConnection>(
        arrival->target, std::move(socket), me->group_, me->handler_, TcpConnection::Kind::kServer)
        ->open();
  };
  if (arrival->target->is_current()) {
    take_over();
  } else {
    arrival->target->post(std::move(take_over));
  }
}

void Acceptor::close_on_thread() {
  if (acceptor_) {
    boost::system::error_code ignored;
    acceptor_->close(ignored);
    acceptor_.reset();
  }
  thread().cancel(pause_timer_);
  if (registration_) {
    thread().remove(*registration_);
    registration_.reset();
  }
}

class ServerImpl final : public Server {
 public:
  explicit ServerImpl(std::shared_ptr<Acceptor> acceptor) noexcept
      : acceptor_(std::move(acceptor)) {}
  ~ServerImpl() override { stop(); }

  std::uint16_t port() const noexcept override { return acceptor_->port(); }
  std::size_t connection_count() const noexcept override { return acceptor_->group().count(); }

  void stop() override {
    TENON_CHECK(IoThreadImpl::current() == nullptr, "an I/O thread must not stop a server");
    acceptor_->thread().run_sync([this] { acceptor_->close_on_thread(); });
    // Behind the connections that were accepted before and are on their way to their threads.
    for (const auto& thread : acceptor_->threads()) {
      thread->run_sync([&] { thread->close_group(acceptor_->group()); });
    }
    acceptor_->group().wait_empty();
  }

 private:
  const std::shared_ptr<Acceptor> acceptor_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(IoPool& pool,
                                               Options options,
                                               ConnectionHandler& handler) {
  auto acceptor = std::make_shared<Acceptor>(threads_of(pool), std::move(options), handler);
  TENON_TRY(acceptor->bind());
  acceptor->thread().run_sync([&] { acceptor->start(); });
  return std::unique_ptr<Server>(std::make_unique<ServerImpl>(std::move(acceptor)));
}

}  // namespace tenon::net
