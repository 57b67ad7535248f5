// The writing side of TcpConnection; the rules are in the head of tcp_connection.h.
#include "tcp_connection.h"

#include "tenon/base/check.h"
#include "tenon/base/log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

namespace tenon::net {
namespace {

constexpr std::size_t kCoalesceMaxBytes = 4096;      ///< frames up to this size are copied together
constexpr std::size_t kPlainMaxBytes = 256u * 1024;  ///< a new string is begun above
constexpr int kPumpRoundsMax = 32;

int send_some(int fd, std::span<iovec> pieces, std::size_t& written) noexcept {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  for (;;) {
    const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      written = static_cast<std::size_t>(n);
      return 0;
    }
    if (errno != EINTR) {
      return errno == EWOULDBLOCK ? EAGAIN : errno;
    }
  }
}

}  // namespace

std::string& TcpConnection::out() noexcept {
  if (out_.capacity() < 256) {
    out_ = thread_->take_string();
  }
  return out_;
}

void TcpConnection::flush() {
  if (out_.empty()) {
    write_queued(Writer::kIoThread);
    return;
  }
  {
    std::unique_lock lock(out_mutex_);
    if (out_closed_) {
      out_.clear();
      return;
    }
    if (writer_ != Writer::kNone || !queued_.empty()) {
      push_locked(OutFrame{std::move(out_), {}, {}});
      out_ = std::string{};
      lock.unlock();
      write_queued(Writer::kIoThread);
      return;
    }
    writer_ = Writer::kIoThread;
  }
  iovec all{out_.data(), out_.size()};
  std::size_t written = 0;
  const int error = send_some(fd_, {&all, 1}, written);
  if (error == 0) {
    stamp();
  }
  if (written < out_.size()) {
    last_write_ms_.store(coarse_ms(), std::memory_order_relaxed);
    added(out_.size() - written);
    active_.push(QueuedFrame(OutFrame{out_.substr(written), {}, {}}));
    if (error == 0 || error == EAGAIN) {
      blocked(Writer::kIoThread);
    } else {
      write_failed(Writer::kIoThread, error);
    }
  } else if (next_active(Writer::kIoThread)) {
    pump(Writer::kIoThread);
  }
  out_.clear();
  if (kind_ == Kind::kServer) {
    thread_->give_string(std::move(out_));
    out_ = std::string{};
  }
}

void TcpConnection::send(OutFrame frame) {
  IoThreadImpl* here = IoThreadImpl::current();
  const bool in_event = here != nullptr && here->in_scope();
  const std::size_t bytes = frame.bytes();
  bool must_serve = false;
  {
    std::unique_lock lock(out_mutex_);
    if (out_closed_) {
      lock.unlock();
      const QueuedFrame dropped(std::move(frame));
      return;
    }
    if (here == thread_.get() && !out_.empty()) {
      push_locked(OutFrame{std::move(out_), {}, {}});
      out_ = std::string{};
    }
    push_locked(std::move(frame));
    if (!in_event && writer_ == Writer::kNone) {
      must_serve = !std::exchange(serve_posted_, true);
    }
  }
  if (in_event) {
    mark(*here);
  } else if (must_serve) {
    thread_->serve(self());
  }
  if (queued_bytes() > group_->limits().out_max_bytes && bytes > 0) {
    close(CloseReason::kSlowReader);
  }
}

TcpConnection::Append TcpConnection::append(const RpcEncoder& encode, std::int32_t opaque) {
  IoThreadImpl* here = IoThreadImpl::current();
  const bool in_event = here != nullptr && here->in_scope();
  {
    const std::scoped_lock lock(out_mutex_);
    if (out_closed_) {
      return Append::kClosed;
    }
    std::string& tail = plain_tail_locked();
    const std::size_t before = tail.size();
    encode(tail, opaque);
    added(tail.size() - before);
    if (!in_event) {
      if (writer_ != Writer::kNone) {
        return Append::kQueued;
      }
      writer_ = Writer::kCaller;
      active_.take(queued_);
      return Append::kPump;
    }
  }
  mark(*here);
  return Append::kQueued;
}

/// The connection is served at the end of the event that `here` is in.
void TcpConnection::mark(IoThreadImpl& here) {
  if (marked_by_.exchange(&here, std::memory_order_acq_rel) != &here) {
    here.write_later(self());
  }
}

void TcpConnection::added(std::size_t bytes) {
  queued_bytes_.fetch_add(bytes, std::memory_order_seq_cst);
  if (SharedMemory* const shared = group_->limits().shared.get()) {
    shared->unsent.fetch_add(bytes, std::memory_order_relaxed);
  }
}

void TcpConnection::removed(std::size_t bytes) noexcept {
  queued_bytes_.fetch_sub(bytes, std::memory_order_seq_cst);
  if (SharedMemory* const shared = group_->limits().shared.get()) {
    shared->unsent.fetch_sub(bytes, std::memory_order_relaxed);
  }
}

void TcpConnection::push_locked(OutFrame&& frame) {
  added(frame.bytes());
  const bool plain = frame.pieces.empty() && !frame.release;
  if (plain && frame.head.size() <= kCoalesceMaxBytes && !queued_.empty() &&
      queued_.back().is_plain() && queued_.back().head().size() < kPlainMaxBytes) {
    queued_.back().head().append(frame.head);
    return;
  }
  queued_.emplace_back(std::move(frame));
}

std::string& TcpConnection::plain_tail_locked() {
  if (queued_.empty() || !queued_.back().is_plain() ||
      queued_.back().head().size() >= kPlainMaxBytes) {
    queued_.emplace_back(OutFrame{std::move(spare_), {}, {}});
    spare_ = std::string{};
  }
  return queued_.back().head();
}

/// Becomes the writer, if there is something to write and nobody is it, and writes.
void TcpConnection::write_queued(Writer who) {
  {
    const std::scoped_lock lock(out_mutex_);
    if (who == Writer::kIoThread) {
      serve_posted_ = false;
    }
    if (writer_ != Writer::kNone || queued_.empty() || out_closed_) {
      return;
    }
    writer_ = who;
    active_.take(queued_);
  }
  pump(who);
}

/// Writes as the writer until nothing is left, the socket is full or it is somebody else's turn.
void TcpConnection::pump(Writer who) {
  for (int round = 0; round < kPumpRoundsMax; ++round) {
    const int error = write_active();
    if (error == EAGAIN) {
      blocked(who);
      return;
    }
    if (error != 0) {
      write_failed(who, error);
      return;
    }
    if (!next_active(who)) {
      if (who == Writer::kCaller && paused_.load(std::memory_order_seq_cst)) {
        thread_->serve(self());
      }
      return;
    }
  }
  blocked(who);
}

/// 0 when everything is written, else the error; EAGAIN: the socket is full.
int TcpConnection::write_active() {
  std::array<iovec, OutBatch::kIovMax> pieces;
  while (const std::size_t count = active_.describe(pieces)) {
    std::size_t written = 0;
    if (const int error = send_some(fd_, {pieces.data(), count}, written)) {
      return error;
    }
    const std::int64_t now = coarse_ms();
    last_write_ms_.store(now, std::memory_order_relaxed);
    last_io_ms_.store(now, std::memory_order_relaxed);
    active_.advance(written);
    removed(written);
  }
  active_.advance(0);  // frames without any byte
  return 0;
}

/// The writer has written all it had: takes what was queued meanwhile, or leaves its place.
bool TcpConnection::next_active(Writer who) {
  {
    const std::scoped_lock lock(out_mutex_);
    if (kind_ == Kind::kClient && spare_.capacity() < 256) {
      spare_ = active_.take_spare();
    }
    if (!out_closed_) {
      if (queued_.empty()) {
        writer_ = Writer::kNone;
        return false;
      }
      active_.take(queued_);
      return true;
    }
  }
  finish_closed(who);
  return false;
}

/// The connection was closed while we were writing: drop the rest and let our thread close the
/// socket. On the I/O thread itself there is nothing to do, do_close() has seen to it.
void TcpConnection::finish_closed(Writer who) {
  if (who != Writer::kCaller) {
    return;
  }
  active_.clear();
  removed(queued_bytes_.load(std::memory_order_seq_cst));  // the connection is closed: nobody adds
  {
    const std::scoped_lock lock(out_mutex_);
    writer_ = Writer::kNone;
  }
  thread_->serve(self());
}

/// The socket takes no more, or we wrote long enough: from here on the I/O thread is the writer.
void TcpConnection::blocked(Writer who) {
  bool closed = false;
  {
    const std::scoped_lock lock(out_mutex_);
    closed = out_closed_;
    if (!closed) {
      writer_ = Writer::kIoThread;
      arm_write_requested_.store(who == Writer::kCaller, std::memory_order_release);
    }
  }
  if (closed) {
    finish_closed(who);
  } else if (who == Writer::kIoThread) {
    arm_write();
  } else {
    thread_->serve(self());
  }
}

void TcpConnection::write_failed(Writer who, int error) {
  bool closed = false;
  {
    const std::scoped_lock lock(out_mutex_);
    closed = out_closed_;
    if (!closed) {
      writer_ = Writer::kIoThread;  // for good: nobody shall try again
    }
  }
  if (closed) {
    finish_closed(who);
    return;
  }
  log_debug("net",
            "write failed id={} peer={} error=\"{}\"",
            id(),
            proto::to_string(peer_),
            std::strerror(error));
  close(error == EPIPE || error == ECONNRESET ? CloseReason::kPeer : CloseReason::kIoError);
}

void TcpConnection::arm_write() {
  if (write_armed_ || !socket_ || !is_open()) {
    return;
  }
  write_armed_ = true;
  const auto timeout = group_->limits().slow_reader_timeout;
  if (slow_timer_ == 0 && timeout.count() > 0) {
    last_write_ms_.store(coarse_ms(), std::memory_order_relaxed);
    slow_timer_ = thread_->after(timeout, [this] { on_slow_timer(); });
  }
  socket_->async_wait(boost::asio::ip::tcp::socket::wait_write,
                      [me = self()](const boost::system::error_code& error) {
                        const IoThreadImpl::Scope scope(*me->thread_);
                        me->write_armed_ = false;
                        if (!error && me->is_open()) {
                          me->pump(Writer::kIoThread);
                          me->resume_if_drained();
                        }
                      });
}

void TcpConnection::on_slow_timer() {
  slow_timer_ = 0;
  if (!write_armed_) {
    return;
  }
  const std::int64_t limit = group_->limits().slow_reader_timeout.count();
  const std::int64_t idle = coarse_ms() - last_write_ms_.load(std::memory_order_relaxed);
  if (idle >= limit) {
    log_warn("net",
             "peer does not read, connection closed peer={} unsent_bytes={}",
             proto::to_string(peer_),
             queued_bytes());
    close(CloseReason::kSlowReader);
    return;
  }
  slow_timer_ =
      thread_->after(std::chrono::milliseconds{limit - idle + 1}, [this] { on_slow_timer(); });
}

}  // namespace tenon::net
