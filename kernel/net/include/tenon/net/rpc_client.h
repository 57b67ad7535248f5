// Outgoing connections by address with request/response correlation: what the broker uses towards
// name servers and the SDK towards everything. Also answers to requests that the server sends over
// a client's connection, and calls from a server to its clients.
#pragma once

#include "tenon/base/result.h"
#include "tenon/net/connection.h"
#include "tenon/net/tls.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::net {

/// What a call gets: an answer (views valid during the callback or while a copy of keep exists), or
/// an error: kTimeout after the request was written, kNotReady if no connection could be made
/// (nothing was sent), kClosed if the connection was lost after the request was queued (outcome
/// unknown), kCancelled at stop().
struct RpcAnswer {
  const proto::CommandView* command = nullptr;
  BufferRef keep{};
};
/// Thread: an I/O thread (only when those are stopped: the caller's); must not block. Called exactly
/// once, never from inside RpcClient::call().
using RpcCallback = std::function<void(Result<RpcAnswer>)>;

/// Encodes a request at the end of `out` with the given opaque: FrameWriter w(out, {.code = …,
/// .opaque = opaque}); … w.finish(body). Called once, under the lock of the connection's send
/// queue: must be short and must not call back into the client.
using RpcEncoder = std::function<void(std::string& out, std::int32_t opaque)>;

struct RpcClientOptions {
  std::chrono::milliseconds connect_timeout{3'000};
  std::size_t connections_per_address = 1;  ///< calls are spread by `lane`
  std::shared_ptr<TlsClient> tls{};  ///< of all connections; null: plain. A refused certificate is
                                     ///< like a refused connection
  ConnectionLimits limits{};
  std::size_t in_flight_max = 65'535;  ///< further calls fail with kBusy
  /// The system closes a connection whose peer has confirmed nothing for so long, sent or probed: a
  /// host that is gone says so to nobody. 0: as the system is set, often many minutes.
  std::chrono::milliseconds peer_timeout{10'000};
};

/// Thread: any. One connection per (address, lane), made on the first call, made anew after it was
/// lost. Writes: a call appends to the connection's send queue and whoever finds the socket idle
/// writes everything queued with one system call, on its own thread.
class RpcClient {
 public:
  /// @param requests  receives requests of the server on our connections (may be nullptr: answered
  /// with code 3); must outlive the client
  static std::unique_ptr<RpcClient> create(IoPool& pool,
                                           RpcClientOptions options,
                                           ConnectionHandler* requests = nullptr);
  virtual ~RpcClient() = default;

  /// @param connect_wait  0: the call waits for a connection as long as for everything. Otherwise it
  /// ends with kNotReady, not written, when there is none so long after the address was first tried
  /// in vain: at once, if that is over. Connecting goes on, a later call finds the connection.
  virtual void call(std::string_view address,
                    const RpcEncoder& encode,
                    std::chrono::milliseconds timeout,
                    RpcCallback done,
                    std::size_t lane = 0,
                    std::chrono::milliseconds connect_wait = {}) = 0;
  /// Fire and forget; connects first if needed. An error is logged only.
  virtual void oneway(std::string_view address, const RpcEncoder& encode, std::size_t lane = 0) = 0;
  /// The same, but `done` hears whether it was queued on a connection: an RpcAnswer without command,
  /// which unlike others may come from inside of this function, or kNotReady as of call().
  virtual void oneway_within(std::string_view address,
                             const RpcEncoder& encode,
                             std::chrono::milliseconds connect_wait,
                             RpcCallback done,
                             std::size_t lane = 0) = 0;

  /// Convenience: sets the opaque of a copy and encodes it.
  void call(std::string_view address,
            proto::Command command,
            std::chrono::milliseconds timeout,
            RpcCallback done);
  void oneway(std::string_view address, proto::Command command);
  /// Blocks the caller; must not be used on an I/O thread.
  Result<proto::Command> call_blocking(std::string_view address,
                                       proto::Command command,
                                       std::chrono::milliseconds timeout);

  /// Closes the connections of an address (route says it is gone). Calls in flight end with
  /// kClosed.
  virtual void disconnect(std::string_view address) = 0;
  /// All calls in flight end with kCancelled, all connections close. Idempotent; must not be called
  /// on an I/O thread.
  virtual void stop() = 0;
};

/// Request/response over an existing connection, towards the peer: a broker calling a client (spec:
/// remoting §5.1). The owner feeds it responses from its ConnectionHandler.
class ReverseCalls {
 public:
  static std::unique_ptr<ReverseCalls> create();
  virtual ~ReverseCalls() = default;
  /// `done` runs on the I/O thread of the connection, or before the return if that is closed.
  /// Thread: any.
  virtual void call(const ConnectionPtr& connection,
                    proto::Command command,
                    std::chrono::milliseconds timeout,
                    RpcCallback done) = 0;
  virtual void oneway(const ConnectionPtr& connection, proto::Command command) = 0;
  /// True if the command is a response to one of our calls and was consumed. Thread: I/O thread of
  /// the connection.
  virtual bool on_response(const ConnectionPtr& connection,
                           const proto::CommandView& command,
                           const BufferRef& keep) = 0;
  virtual void on_close(const ConnectionPtr& connection) = 0;
};

}  // namespace tenon::net
