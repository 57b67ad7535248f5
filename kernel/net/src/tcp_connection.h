// The connection of servers and clients: frames in, frames out.
//
// Reading belongs to the I/O thread alone. Writing has one writer at a time (`writer_`, under
// `out_mutex_`): whoever queues bytes and finds no writer becomes it and calls the system outside
// of the lock; what others queue meanwhile is taken along afterwards. A writer that is blocked by a
// full socket hands its place to the I/O thread. The socket is closed only while there is no writer
// on another thread, so a descriptor is never used after it was closed.
#pragma once

#include "io_thread.h"
#include "out_batch.h"
#include "peer_log.h"

#include "tenon/net/connection.h"
#include "tenon/net/rpc_client.h"

#include <boost/asio/ip/tcp.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::net {

/// What the connections of one server or one client have in common.
class ConnectionGroup {
 public:
  explicit ConnectionGroup(ConnectionLimits limits) noexcept
      : limits_(limits) {}
  const ConnectionLimits& limits() const noexcept { return limits_; }
  PeerLog& bad_frame_log() noexcept { return bad_frame_log_; }

  void enter() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void leave();
  std::size_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  /// Blocks until every connection was closed and on_close of each has returned.
  void wait_empty();

 private:
  const ConnectionLimits limits_;
  PeerLog bad_frame_log_{};
  std::atomic<std::size_t> count_{0};
  std::mutex mutex_{};
  std::condition_variable empty_{};
};

class TcpConnection final : public Connection, public Closable {
 public:
  /// How much a connection may hold while nothing happens on it.
  enum class Kind : std::uint8_t {
    kServer,  ///< one of very many: gives every buffer back
    kClient   ///< one of few: keeps its send buffer
  };

  /// @param thread  its connection_count was already increased for this connection
  /// @param group   entered by the caller
  TcpConnection(std::shared_ptr<IoThreadImpl> thread,
                boost::asio::ip::tcp::socket socket,
                std::shared_ptr<ConnectionGroup> group,
                std::shared_ptr<ConnectionHandler> handler,
                Kind kind);
  ~TcpConnection() override;

  /// Of the sockets that bytes really pass, where that is not the one we have. Before open().
  void set_addresses(const proto::HostAddr& peer, const proto::HostAddr& local) {
    peer_ = peer;
    local_ = local;
  }

  /// Registers, calls on_open and begins to read. Thread: its I/O thread, in a Scope.
  void open();

  IoThread& io_thread() noexcept override { return *thread_; }
  std::string& out() noexcept override;
  void flush() override;
  void send(OutFrame frame) override;
  void close(CloseReason reason) override;
  std::size_t queued_bytes() const noexcept override {
    return is_open() ? queued_bytes_.load(std::memory_order_seq_cst) : 0;
  }
  void close_on_thread() override;

  const ConnectionGroup* group() const noexcept { return group_.get(); }

  /// What append() did and what the caller has to do after it has left its locks.
  enum class Append : std::uint8_t {
    kClosed,  ///< nothing was encoded
    kQueued,  ///< somebody will write it
    kPump     ///< the caller became the writer and must call pump_appended()
  };
  /// Appends one encoded request to what is queued. On an I/O thread it is written at the end of
  /// the event, elsewhere by whoever finds the socket idle. Thread: any.
  Append append(const RpcEncoder& encode, std::int32_t opaque);
  void pump_appended() { pump(Writer::kCaller); }

  /// Does what is due: write, close, read on. Thread: any I/O thread.
  void serve();

 private:
  enum class Writer : std::uint8_t { kNone, kCaller, kIoThread };

  // tcp_connection.cpp: reading and life cycle
  std::shared_ptr<TcpConnection> self() {
    return std::static_pointer_cast<TcpConnection>(shared_from_this());
  }
  void arm_read();
  void on_readable();
  std::size_t unsent_bytes() const noexcept { return queued_bytes() + out_.size(); }
  bool answer_received();
  bool must_stop_reading();
  void read_on();
  std::span<std::byte> read_space();
  void leave_buffer();
  bool reserve_frame();
  void release_frame() noexcept;
  std::size_t pause_limit() const noexcept;
  void removed(std::size_t bytes) noexcept;
  bool handle_read_error(int error);
  bool consume();
  bool check_prefix(std::span<const std::byte> rest, std::size_t& decoded, const BufferRef& keep);
  void deliver(std::size_t& decoded, const BufferRef& keep);
  void bad_frame(const Error& error);
  bool pause_if_full();
  void resume_if_drained();
  void on_idle_timer();
  void do_close();
  void release_socket();

  // tcp_connection_write.cpp: writing
  void push_locked(OutFrame&& frame);
  std::string& plain_tail_locked();
  void added(std::size_t bytes);
  void stamp() noexcept { last_io_ms_.store(coarse_ms(), std::memory_order_relaxed); }
  void mark(IoThreadImpl& here);
  void write_queued(Writer who);
  void pump(Writer who);
  int write_active();
  bool next_active(Writer who);
  void finish_closed(Writer who);
  void blocked(Writer who);
  void write_failed(Writer who, int error);
  void arm_write();
  void on_slow_timer();

  const std::shared_ptr<IoThreadImpl> thread_;
  const std::shared_ptr<ConnectionGroup> group_;
  std::shared_ptr<ConnectionHandler> handler_;
  const Kind kind_;
  std::optional<boost::asio::ip::tcp::socket> socket_;
  const int fd_;
  std::atomic<std::int64_t> last_io_ms_;
  std::atomic<int> close_request_{-1};  ///< CloseReason, first one wins

  // Of the I/O thread:
  std::optional<IoThreadImpl::Registration> registration_{};
  std::shared_ptr<ReadBuffer> buffer_{};
  std::size_t begin_ = 0;           ///< first byte that was not handed on
  std::size_t end_ = 0;             ///< end of the received bytes
  std::size_t frame_bytes_ = 0;     ///< size of the unfinished frame at begin_, 0 if not known
  std::size_t read_bytes_hint_;     ///< size of the next buffer
  std::size_t reserved_bytes_ = 0;  ///< of the unfinished frame, in the shared memory
  TimerId room_timer_ = 0;          ///< waits for room there
  std::string out_{};
  bool read_armed_ = false;
  bool in_read_ = false;        ///< the read loop is active on this stack
  bool turn_over_ = false;      ///< much was answered, the other connections come first now
  bool frames_left_ = false;    ///< complete frames may be left in the buffer by that
  bool large_answers_ = false;  ///< of the frames handed on last
  TimerId idle_timer_ = 0;
  TimerId slow_timer_ = 0;
  bool write_armed_ = false;

  std::atomic<bool> paused_{false};  ///< not reading because too much is unsent
  std::atomic<bool> arm_write_requested_{false};
  std::atomic<IoThreadImpl*> marked_by_{nullptr};  ///< will serve us at the end of its event
  std::atomic<std::int64_t> last_write_ms_{0};     ///< last progress of a write
  std::atomic<std::size_t> queued_bytes_{0};

  std::mutex out_mutex_{};
  std::vector<QueuedFrame> queued_{};  ///< guarded by out_mutex_
  std::string spare_{};                ///< guarded by out_mutex_
  Writer writer_ = Writer::kNone;      ///< guarded by out_mutex_
  bool serve_posted_ = false;          ///< guarded by out_mutex_: our thread will call serve()
  bool out_closed_ = false;            ///< guarded by out_mutex_
  OutBatch active_{};                  ///< of the writer
};

}  // namespace tenon::net
