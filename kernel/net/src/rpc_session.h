// One outgoing connection with its calls in flight, from the attempt to connect to its end. A
// session never comes back to life; the client makes a new one.
#pragma once

#include "pending_table.h"
#include "tcp_connection.h"
#include "tls_tunnel.h"

#include <boost/asio/ip/tcp.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::net {

class RpcSession;

/// When a call ends without an answer.
struct RpcTimes {
  std::int64_t now_ms = 0;
  std::int64_t deadline_ms = 0;
  std::int64_t connect_wait_ms = 0;  ///< 0: until the deadline
};

/// What became of a call.
enum class Taken : std::uint8_t {
  kYes,
  kEnded,    ///< the session has ended; nothing was done, the callback is untouched
  kTooLate,  ///< it has been connecting for longer than this call waits; likewise
};

/// What the sessions of one client share.
struct RpcShared {
  RpcShared(const RpcClientOptions& o, ConnectionHandler* r)
      : options(o),
        group(std::make_shared<ConnectionGroup>(o.limits)),
        requests(r) {}

  const RpcClientOptions options;
  const std::shared_ptr<ConnectionGroup> group;
  ConnectionHandler* const requests;      ///< not owned; nullptr: code 3 is answered
  std::atomic<std::size_t> in_flight{0};  ///< calls of all sessions
};

/// Thread: call(), oneway() any; the rest its I/O thread.
class RpcSession final : public ConnectionHandler,
                         public Closable,
                         public std::enable_shared_from_this<RpcSession> {
 public:
  /// @param thread  its connection_count was already increased for this session
  /// @param unconnected_ms  since when there has been no connection to the address; 0: since now
  RpcSession(std::shared_ptr<RpcShared> shared,
             std::shared_ptr<IoThreadImpl> thread,
             std::string address,
             std::int64_t unconnected_ms);
  ~RpcSession() override;

  /// Begins to connect. Thread: any, once.
  void start();

  Taken call(const RpcEncoder& encode, const RpcTimes& times, RpcCallback& done);
  /// False if the session has ended; nothing was done then.
  bool oneway(const RpcEncoder& encode);
  /// Tells `done` when it is queued on a connection, from inside if there is one.
  Taken oneway_within(const RpcEncoder& encode, const RpcTimes& times, RpcCallback& done);
  bool is_dead() const;
  /// Of a session that has ended: since when there has been no connection, for the next one to count
  /// on. 0: it had one, or the refusal came so quickly that nobody waited for it.
  std::int64_t unconnected_ms() const;

  /// Ends every call with `code` and closes. Thread: its I/O thread.
  void end(Errc code, std::string_view reason);
  IoThreadImpl& thread() noexcept { return *thread_; }

  void on_open(const ConnectionPtr& connection) override;
  void on_commands(const ConnectionPtr& connection,
                   std::span<const proto::CommandView> commands,
                   const BufferRef& keep) override;
  void on_close(const ConnectionPtr& connection, CloseReason reason) override;
  void close_on_thread() override { end(Errc::kCancelled, "I/O threads stop"); }

 private:
  enum class State : std::uint8_t { kConnecting, kOpen, kDead };
  struct Waiting {  ///< encoded before there was a connection
    std::int32_t opaque = 0;
    bool oneway = false;  ///< nobody waits for it
    bool told = false;    ///< its callback hears that it is queued, not an answer
    std::int64_t deadline_ms = 0;
    std::string bytes{};
  };

  // rpc_connect.cpp
  void connect();
  void resolve(const std::string& host, std::uint16_t port);
  void connect_next();
  void connected();
  void shake_hands();
  void attach(boost::asio::ip::tcp::socket socket);
  void connect_failed(const std::string& reason);
  void abandon_connect();

  // rpc_session.cpp
  Taken wait_for_connection_locked(const RpcEncoder& encode,
                                   const RpcTimes& times,
                                   RpcCallback& done,
                                   bool told);
  void arm_deadline_locked(std::int64_t deadline_ms);
  void on_deadline();
  void forward_requests(const ConnectionPtr& connection,
                        std::span<const proto::CommandView> commands,
                        const BufferRef& keep);
  void finish(std::vector<RpcCallback>& calls, Errc code, std::string_view reason);

  const std::shared_ptr<RpcShared> shared_;
  const std::shared_ptr<IoThreadImpl> thread_;
  const std::string address_;
  const std::int64_t begin_ms_;
  const std::int64_t since_ms_;  ///< no connection to the address since then

  mutable std::mutex mutex_{};
  State state_ = State::kConnecting;              ///< guarded by mutex_
  PendingTable pending_{};                        ///< guarded by mutex_
  std::vector<Waiting> waiting_{};                ///< guarded by mutex_
  std::shared_ptr<TcpConnection> connection_{};   ///< guarded by mutex_
  std::int64_t armed_ms_ = PendingTable::kNever;  ///< guarded by mutex_
  TimerId deadline_timer_ = 0;                    ///< guarded by mutex_
  std::int64_t heard_ms_ = 0;                     ///< guarded by mutex_
  std::int64_t unconnected_ms_ = 0;               ///< guarded by mutex_

  // Of the I/O thread:
  std::optional<IoThreadImpl::Registration> registration_{};
  std::optional<boost::asio::ip::tcp::socket> socket_{};
  std::shared_ptr<boost::asio::ip::tcp::resolver> resolver_{};
  std::shared_ptr<TlsTunnel> tunnel_{};  ///< while it shakes hands
  std::vector<boost::asio::ip::tcp::endpoint> endpoints_{};
  std::size_t next_endpoint_ = 0;
  std::string connect_error_{};
  proto::HostAddr peer_{};   ///< with TLS
  proto::HostAddr local_{};  ///< with TLS
  TimerId connect_timer_ = 0;
  bool counted_ = true;  ///< we are one in the connection_count of our thread
  std::vector<std::pair<RpcCallback, const proto::CommandView*>> answered_{};
};

}  // namespace tenon::net
