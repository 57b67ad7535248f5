// A TCP connection that carries remoting frames, on either side. All complete frames of one socket
// read are handed on together, and one write answers them (architecture: "Threads and the hot
// path").
#pragma once

#include "tenon/base/result.h"
#include "tenon/net/io_pool.h"
#include "tenon/proto/command.h"
#include "tenon/proto/message.h"

#include <boost/container/small_vector.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tenon::net {

class Connection;
using ConnectionPtr = std::shared_ptr<Connection>;

/// Keeps the memory behind the CommandViews of one batch alive. Who stores a view beyond
/// on_commands copies this reference with it; if nobody did, the connection reuses the buffer.
using BufferRef = std::shared_ptr<const void>;

/// Bytes to be sent without being copied: a head that is owned and pieces that stay valid until
/// `release` ran.
struct OutFrame {
  std::string head{};
  boost::container::small_vector<std::span<const std::byte>, 8> pieces{};
  std::function<void()> release{};  ///< run exactly once, after the kernel took the last byte or
                                    ///< the connection died. Thread: any

  std::size_t bytes() const noexcept;
};

enum class CloseReason : std::uint8_t {
  kPeer,
  kLocal,
  kIdle,
  kBadFrame,
  kSlowReader,
  kIoError,
  kShutdown
};
std::string_view to_string(CloseReason reason) noexcept;

/// Receives what happens on connections. All calls for one connection come from its I/O thread, one
/// at a time.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual void on_open(const ConnectionPtr&) {}
  /// Asked when something was read, before any of it is decoded. True: take() is asked about each
  /// complete frame of it first. A server that has too much to do refuses cheaply so.
  virtual bool screens(const ConnectionPtr&) { return false; }
  /// True: the frame (length word included) is done with, what there is to answer lies in out(). It
  /// is not checked and not decoded then. Answers of frames before it may still be missing.
  virtual bool take(const ConnectionPtr&, std::span<const std::byte>) { return false; }
  /// All complete frames of one read, in wire order, at most 256 at a time. Answers written into connection.out() leave
  /// with one write after the return. Views are valid during the call, or as long as a copy of
  /// `keep` exists.
  virtual void on_commands(const ConnectionPtr& connection,
                           std::span<const proto::CommandView> commands,
                           const BufferRef& keep) = 0;
  /// Exactly once per opened connection; nothing follows.
  virtual void on_close(const ConnectionPtr&, CloseReason) {}
};

/// Memory that many connections share, usually all of a process. Thread: any.
struct SharedMemory {
  std::size_t unsent_max_bytes = std::size_t{1} << 30;   ///< above, connections with more than
                                                         ///< kUnsentShareBytes unsent do not read
  std::size_t receive_max_bytes = std::size_t{1} << 30;  ///< of frames above kReceiveFreeBytes that
                                                         ///< are not complete; further ones wait
  std::atomic<std::size_t> unsent{0};
  std::atomic<std::size_t> receiving{0};

  static constexpr std::size_t kUnsentShareBytes = 64u * 1024;
  static constexpr std::size_t kReceiveFreeBytes = 64u * 1024;

  bool unsent_full() const noexcept {
    return unsent.load(std::memory_order_relaxed) > unsent_max_bytes;
  }
  /// Room for a frame, to be given back to `receiving`. A frame always fits if it is the only one.
  bool reserve(std::size_t bytes) noexcept;
};

/// Limits of a connection, all in force at once.
struct ConnectionLimits {
  std::uint32_t frame_max_bytes = proto::kFrameMaxBytes;
  std::chrono::milliseconds idle_timeout{
      120'000};  ///< no byte read or written: closed with kIdle; 0 = never
  std::size_t out_pause_bytes =
      8u * 1024 * 1024;  ///< unsent bytes from which a server's connection stops reading; those of
                         ///< an RpcClient always read, or two full sides would wait for each other
  std::size_t out_max_bytes =
      256u * 1024 *
      1024;  ///< unsent bytes at which a peer that does not read is closed (kSlowReader)
  std::chrono::milliseconds slow_reader_timeout{
      30'000};  ///< unsent bytes without any progress for so long: closed (kSlowReader)
  std::shared_ptr<SharedMemory> shared{};  ///< bounds in common with others; null = none
};

/// Created by Server or RpcClient, kept alive by its I/O thread while open and by whoever holds a
/// ConnectionPtr.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  virtual ~Connection() = default;

  std::uint64_t id() const noexcept { return id_; }  ///< unique in the process. Thread: any
  const proto::HostAddr& peer() const noexcept { return peer_; }    ///< Thread: any
  const proto::HostAddr& local() const noexcept { return local_; }  ///< Thread: any
  bool is_open() const noexcept {
    return open_.load(std::memory_order_acquire);
  }  ///< Thread: any; may be outdated at once
  virtual IoThread& io_thread() noexcept = 0;

  /// Bytes that will be sent in front of everything queued later. Thread: the I/O thread of the
  /// connection only.
  virtual std::string& out() noexcept = 0;
  /// Sends what is in out() now instead of after on_commands. Thread: I/O thread of the connection.
  virtual void flush() = 0;

  /// Queues bytes. On an I/O thread they are written when the current event is done, several of them
  /// with one write, and on that of the connection the order with out() is kept; from other threads
  /// they are sent by the I/O thread, several of them with one wake-up and one write. On a closed connection the
  /// frame is dropped and its release run. Thread: any.
  virtual void send(OutFrame frame) = 0;
  void send(std::string bytes) { send(OutFrame{std::move(bytes), {}, {}}); }

  /// Closes after what is queued has been sent as far as the socket takes it at once. Idempotent.
  /// Thread: any.
  virtual void close(CloseReason reason) = 0;

  /// Unsent bytes. Thread: any.
  virtual std::size_t queued_bytes() const noexcept = 0;

  /// Slot for the owner of the handler (for example per-connection client state). Thread: I/O
  /// thread of the connection.
  std::shared_ptr<void> user_state{};

 protected:
  Connection(std::uint64_t id) noexcept
      : id_(id) {}
  std::uint64_t id_;
  proto::HostAddr peer_{};
  proto::HostAddr local_{};
  std::atomic<bool> open_{true};
};

/// Accepts connections on one address and spreads them over a pool.
/// Life cycle: listen() → stop() (no new connections, existing ones closed) → destructor.
class Server {
 public:
  struct Options {
    std::string host = "0.0.0.0";  ///< numeric IPv4 or IPv6 address
    std::uint16_t port = 0;        ///< 0 = chosen by the system, see port()
    int backlog = 1024;
    std::size_t connection_max =
        100'000;  ///< further ones are closed at once, logged once per minute
    ConnectionLimits limits{};
  };
  /// @return kConflict if the port is taken, kDenied without permission, kIo otherwise; the text
  /// names the address The handler must outlive the server. Handles both EMFILE (pauses accepting,
  /// logs) and bad frames (closes, logs once per peer).
  static Result<std::unique_ptr<Server>> listen(IoPool& pool,
                                                Options options,
                                                ConnectionHandler& handler);
  virtual ~Server() = default;
  virtual std::uint16_t port() const noexcept = 0;
  virtual std::size_t connection_count() const noexcept = 0;
  /// Returns when every connection was closed and the handler is not called any more. Idempotent.
  /// Must not be called on an I/O thread.
  virtual void stop() = 0;
};

}  // namespace tenon::net
