#include "tcp_connection.h"

#include "socket_util.h"

#include "tenon/base/check.h"
#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/proto/frame.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>

namespace tenon::net {
namespace {

constexpr int kReadRoundsMax = 16;
constexpr std::size_t kReadSpaceMin = 16u * 1024;
constexpr std::size_t kCommandsPerCall = 256;
/// So much answered, and it is the turn of the other connections of the thread: pulls of large
/// batches from one consumer must not hold up the sends of others by more than this.
constexpr std::size_t kTurnBytes = 128u * 1024;
constexpr std::size_t kLargeAnswerBytes = 4096;  ///< from here on looked at one by one
constexpr std::chrono::milliseconds kRoomRetry{10};

std::uint64_t next_connection_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

std::string_view to_string(CloseReason reason) noexcept {
  switch (reason) {
    case CloseReason::kPeer:
      return "peer";
    case CloseReason::kLocal:
      return "local";
    case CloseReason::kIdle:
      return "idle";
    case CloseReason::kBadFrame:
      return "bad_frame";
    case CloseReason::kSlowReader:
      return "slow_reader";
    case CloseReason::kIoError:
      return "io_error";
    case CloseReason::kShutdown:
      return "shutdown";
  }
  return "unknown";
}

bool SharedMemory::reserve(std::size_t bytes) noexcept {
  std::size_t now = receiving.load(std::memory_order_relaxed);
  do {
    if (now != 0 && now + bytes > receive_max_bytes) {
      return false;
    }
  } while (!receiving.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  return true;
}

void ConnectionGroup::leave() {
  const std::scoped_lock lock(mutex_);
  if (count_.fetch_sub(1, std::memory_order_relaxed) == 1) {
    empty_.notify_all();
  }
}

void ConnectionGroup::wait_empty() {
  std::unique_lock lock(mutex_);
  empty_.wait(lock, [this] { return count() == 0; });
}

TcpConnection::TcpConnection(std::shared_ptr<IoThreadImpl> thread,
                             boost::asio::ip::tcp::socket socket,
                             std::shared_ptr<ConnectionGroup> group,
                             std::shared_ptr<ConnectionHandler> handler,
                             Kind kind)
    : Connection(next_connection_id()),
      thread_(std::move(thread)),
      group_(std::move(group)),
      handler_(std::move(handler)),
      kind_(kind),
      socket_(std::move(socket)),
      fd_(socket_->native_handle()),
      last_io_ms_(coarse_ms()),
      read_bytes_hint_(BufferPool::kSmallBytes) {
  peer_ = socket_address(fd_, AddressOf::kPeer);
  local_ = socket_address(fd_, AddressOf::kLocal);
}

TcpConnection::~TcpConnection() {
  TENON_CHECK(!is_open() || !registration_, "connection {} destroyed while open", id());
}

void TcpConnection::open() {
  registration_ = thread_->add(self());
  const auto idle = group_->limits().idle_timeout;
  if (idle.count() > 0) {
    idle_timer_ = thread_->after(idle, [this] { on_idle_timer(); });
  }
  log_debug("net", "connection open id={} peer={}", id(), proto::to_string(peer_));
  handler_->on_open(self());
  arm_read();
}

void TcpConnection::arm_read() {
  if (read_armed_ || !socket_) {
    return;
  }
  read_armed_ = true;
  socket_->async_wait(boost::asio::ip::tcp::socket::wait_read,
                      [me = self()](const boost::system::error_code& error) {
                        const IoThreadImpl::Scope scope(*me->thread_);
                        me->read_armed_ = false;
                        if (!error && me->is_open()) {
                          me->on_readable();
                        }
                      });
}

void TcpConnection::on_readable() {
  in_read_ = true;
  bool drained = false;
  bool no_room = false;
  bool stop = false;
  if (frames_left_) {
    if (!answer_received()) {
      return;
    }
    stop = must_stop_reading();
  }
  for (int round = 0; round < kReadRoundsMax && !drained && !stop; ++round) {
    const std::span<std::byte> space = read_space();
    if (space.empty()) {
      no_room = true;
      break;
    }
    const ssize_t n = ::recv(fd_, space.data(), space.size(), 0);
    if (n <= 0) {
      if (!handle_read_error(n == 0 ? 0 : errno)) {
        in_read_ = false;
        return;
      }
      break;
    }
    stamp();
    end_ += static_cast<std::size_t>(n);
    drained = static_cast<std::size_t>(n) < space.size();
    if (drained) {
      if (static_cast<std::size_t>(n) < read_bytes_hint_ / 8) {
        read_bytes_hint_ = std::max(read_bytes_hint_ / 4, BufferPool::kSmallBytes);
      }
    } else {
      read_bytes_hint_ = std::min(read_bytes_hint_ * 4, BufferPool::kLargeBytes);
    }
    if (!answer_received()) {
      return;
    }
    stop = must_stop_reading();
  }
  in_read_ = false;
  leave_buffer();
  if (paused_.load(std::memory_order_seq_cst) || close_request_.load() >= 0) {
    return;
  }
  if (!no_room) {
    read_on();
  } else if (room_timer_ == 0) {
    room_timer_ = thread_->after(kRoomRetry, [this] {
      room_timer_ = 0;
      if (is_open()) {
        on_readable();
      }
    });
  }
}

/// Hands on what was received and writes what came of it. False if the connection is being closed.
bool TcpConnection::answer_received() {
  if (!consume()) {
    in_read_ = false;
    return false;
  }
  flush();
  return true;
}

bool TcpConnection::must_stop_reading() {
  return close_request_.load(std::memory_order_acquire) >= 0 || pause_if_full() || turn_over_;
}

/// After what waits on the other connections of the thread.
void TcpConnection::read_on() {
  if (!frames_left_) {
    arm_read();
    return;
  }
  thread_->post([me = self()] {
    if (me->is_open() && !me->paused_.load(std::memory_order_seq_cst)) {
      me->on_readable();
    }
  });
}

/// Nothing is kept between reads but the begin of a frame, that in a small buffer: the large one goes
/// to the next connection, still in the cache, instead of one of its own for each.
void TcpConnection::leave_buffer() {
  const std::size_t tail = end_ - begin_;
  if (tail == 0) {
    buffer_.reset();
    begin_ = end_ = 0;
    return;
  }
  const bool small = std::max(tail, frame_bytes_) <= BufferPool::kSmallBytes / 2;
  if (!small || buffer_->capacity <= BufferPool::kSmallBytes) {
    return;
  }
  std::shared_ptr<ReadBuffer> keep = thread_->buffers().take(BufferPool::kSmallBytes);
  std::memcpy(keep->data.get(), buffer_->data.get() + begin_, tail);
  buffer_ = std::move(keep);
  begin_ = 0;
  end_ = tail;
}

/// Room for an unfinished frame that is large. A frame that began is finished: it has its room.
bool TcpConnection::reserve_frame() {
  SharedMemory* const shared = group_->limits().shared.get();
  if (shared == nullptr || frame_bytes_ <= SharedMemory::kReceiveFreeBytes ||
      reserved_bytes_ != 0) {
    return true;
  }
  if (!shared->reserve(frame_bytes_)) {
    return false;
  }
  reserved_bytes_ = frame_bytes_;
  return true;
}

void TcpConnection::release_frame() noexcept {
  if (reserved_bytes_ != 0) {
    group_->limits().shared->receiving.fetch_sub(reserved_bytes_, std::memory_order_relaxed);
    reserved_bytes_ = 0;
  }
}

/// True: go on waiting. False: the connection is being closed.
bool TcpConnection::handle_read_error(int error) {
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) {
    return true;
  }
  if (error != 0 && error != ECONNRESET) {
    log_debug("net",
              "read failed id={} peer={} error=\"{}\"",
              id(),
              proto::to_string(peer_),
              std::strerror(error));
  }
  close(error == 0 || error == ECONNRESET ? CloseReason::kPeer : CloseReason::kIoError);
  return false;
}

/// Empty: no room for a large frame now.
/// Room for the next read: at least kReadSpaceMin bytes, or what an unfinished frame still lacks.
/// Bytes that were handed on are never overwritten in a buffer that others may still look into.
std::span<std::byte> TcpConnection::read_space() {
  if (!reserve_frame()) {
    return {};
  }
  const std::size_t tail = end_ - begin_;
  if (buffer_) {
    const std::size_t space = buffer_->capacity - end_;
    const bool fits =
        frame_bytes_ > 0 ? begin_ + frame_bytes_ <= buffer_->capacity : space >= kReadSpaceMin;
    const bool large_enough = begin_ > 0 || buffer_->capacity >= read_bytes_hint_;
    if (space > 0 && fits && large_enough) {
      return {buffer_->data.get() + end_, space};
    }
  }
  std::size_t bytes = std::max(read_bytes_hint_, frame_bytes_);
  if (frame_bytes_ == 0 && bytes < tail + kReadSpaceMin) {
    bytes = tail + kReadSpaceMin;
  }
  std::shared_ptr<ReadBuffer> next = thread_->buffers().take(bytes);
  if (tail > 0) {
    std::memcpy(next->data.get(), buffer_->data.get() + begin_, tail);
  }
  buffer_ = std::move(next);
  begin_ = 0;
  end_ = tail;
  return {buffer_->data.get() + end_, buffer_->capacity - end_};
}

/// Hands the complete frames of the buffer on, all of them unless their answers fill the turn. False
/// if the connection is being closed because of a bad one.
bool TcpConnection::consume() {
  turn_over_ = frames_left_ = false;
  if (end_ - begin_ < frame_bytes_) {
    return true;
  }
  const BufferRef keep = buffer_;
  const std::size_t before = unsent_bytes();
  const std::size_t per_call = large_answers_ ? 1 : kCommandsPerCall;
  std::size_t decoded = 0;
  std::size_t handed_on = 0;
  auto& commands = thread_->commands();
  frame_bytes_ = 0;
  release_frame();
  const std::shared_ptr<TcpConnection> me = self();
  const bool screened = handler_->screens(me);
  while (end_ - begin_ >= 4) {
    const std::span<std::byte> rest{buffer_->data.get() + begin_, end_ - begin_};
    const std::uint32_t length = load_be<std::uint32_t>(rest.data());
    if (length < 4 || length > group_->limits().frame_max_bytes - 4) {
      deliver(decoded, keep);
      bad_frame({Errc::kLimit, fmt::format("frame length {}", static_cast<std::int32_t>(length))});
      return false;
    }
    const std::size_t total = std::size_t{4} + length;
    if (rest.size() < total) {
      if (rest.size() >= proto::kFramePrefixBytes && !check_prefix(rest, decoded, keep)) {
        return false;
      }
      frame_bytes_ = total;
      break;
    }
    if (screened && handler_->take(me, rest.first(total))) {
      begin_ += total;
      continue;
    }
    if (decoded == commands.size()) {
      commands.emplace_back();
    }
    const Result<> result = proto::decode_command(rest.first(total), commands[decoded]);
    if (!result) {
      deliver(decoded, keep);
      bad_frame(result.error());
      return false;
    }
    begin_ += total;
    ++handed_on;
    if (++decoded == per_call) {
      deliver(decoded, keep);
      if (close_request_.load(std::memory_order_acquire) >= 0) {
        return false;
      }
      if (unsent_bytes() >= before + kTurnBytes) {
        frames_left_ = begin_ < end_;
        break;
      }
    }
  }
  deliver(decoded, keep);
  const std::size_t answered = std::max(unsent_bytes(), before) - before;
  turn_over_ = answered >= kTurnBytes;
  if (handed_on > 0) {
    large_answers_ = answered / handed_on >= kLargeAnswerBytes;
  }
  return true;
}

/// Finds out early that an unfinished frame will never be a good one.
bool TcpConnection::check_prefix(std::span<const std::byte> rest,
                                 std::size_t& decoded,
                                 const BufferRef& keep) {
  const auto prefix = proto::decode_frame_prefix(rest, group_->limits().frame_max_bytes);
  if (!prefix) {
    deliver(decoded, keep);
    bad_frame(prefix.error());
    return false;
  }
  return true;
}

void TcpConnection::deliver(std::size_t& decoded, const BufferRef& keep) {
  if (decoded > 0) {
    handler_->on_commands(self(), std::span(thread_->commands().data(), decoded), keep);
    decoded = 0;
  }
}

void TcpConnection::bad_frame(const Error& error) {
  if (const auto left_out = group_->bad_frame_log().may_write(peer_, coarse_ms())) {
    log_warn("net",
             "bad frame, connection closed peer={} reason=\"{}\" left_out={}",
             proto::to_string(peer_),
             error.detail,
             *left_out);
  }
  close(CloseReason::kBadFrame);
}

/// Stops reading while too much is unsent. True if so. Never on the side that asks: if both sides
/// waited for the other to read, nothing would ever move again.
bool TcpConnection::pause_if_full() {
  const std::size_t limit = pause_limit();
  if (kind_ == Kind::kClient || queued_bytes() < limit) {
    return false;
  }
  paused_.store(true, std::memory_order_seq_cst);
  // A writer on another thread may have finished just before it could see `paused_`.
  if (queued_bytes() < limit) {
    paused_.store(false, std::memory_order_seq_cst);
    return false;
  }
  return true;
}

/// Less when all connections together have too much unsent.
std::size_t TcpConnection::pause_limit() const noexcept {
  const ConnectionLimits& limits = group_->limits();
  return limits.shared != nullptr && limits.shared->unsent_full()
             ? std::min(limits.out_pause_bytes, SharedMemory::kUnsentShareBytes)
             : limits.out_pause_bytes;
}

void TcpConnection::resume_if_drained() {
  if (!in_read_ && paused_.load(std::memory_order_seq_cst) &&
      queued_bytes() < std::max<std::size_t>(pause_limit() / 2, 1)) {
    paused_.store(false, std::memory_order_seq_cst);
    if (is_open()) {
      read_on();
    }
  }
}

void TcpConnection::on_idle_timer() {
  const std::int64_t limit = group_->limits().idle_timeout.count();
  const std::int64_t idle = coarse_ms() - last_io_ms_.load(std::memory_order_relaxed);
  if (idle >= limit) {
    idle_timer_ = 0;
    log_debug("net", "idle connection closed id={} peer={}", id(), proto::to_string(peer_));
    close(CloseReason::kIdle);
    return;
  }
  idle_timer_ =
      thread_->after(std::chrono::milliseconds{limit - idle + 1}, [this] { on_idle_timer(); });
}

void TcpConnection::close(CloseReason reason) {
  int none = -1;
  if (!close_request_.compare_exchange_strong(none, static_cast<int>(reason))) {
    return;
  }
  if (thread_->is_current() && thread_->in_scope()) {
    thread_->write_later(self());
  } else {
    thread_->serve(self());
  }
}

void TcpConnection::close_on_thread() {
  int none = -1;
  close_request_.compare_exchange_strong(none, static_cast<int>(CloseReason::kShutdown));
  flush();
  do_close();
}

void TcpConnection::serve() {
  if (IoThreadImpl* here = IoThreadImpl::current()) {
    IoThreadImpl* expected = here;
    marked_by_.compare_exchange_strong(expected, nullptr);
  }
  if (!thread_->is_current()) {  // an I/O thread that queued something for a connection of another
    write_queued(Writer::kCaller);
    return;
  }
  if (in_read_) {
    return;  // served at the end of the event
  }
  if (!is_open()) {
    const std::scoped_lock lock(out_mutex_);
    if (socket_ && writer_ != Writer::kCaller) {
      release_socket();
    }
    return;
  }
  flush();
  if (arm_write_requested_.exchange(false, std::memory_order_acq_rel)) {
    arm_write();
  }
  if (close_request_.load(std::memory_order_acquire) >= 0) {
    do_close();
    return;
  }
  resume_if_drained();
}

void TcpConnection::do_close() {
  if (!is_open()) {
    return;
  }
  open_.store(false, std::memory_order_release);
  std::vector<QueuedFrame> dropped;
  bool other_writer = false;
  {
    const std::scoped_lock lock(out_mutex_);
    out_closed_ = true;
    dropped.swap(queued_);
    other_writer = writer_ == Writer::kCaller;
  }
  if (other_writer) {
    // It is inside a system call on our descriptor; it reports back through serve().
    ::shutdown(fd_, SHUT_RDWR);
  } else {
    active_.clear();
    release_socket();
  }
  dropped.clear();
  if (!other_writer) {  // else it counts what it leaves
    removed(queued_bytes_.load(std::memory_order_seq_cst));
  }
  release_frame();
  thread_->cancel(room_timer_);
  thread_->cancel(idle_timer_);
  thread_->cancel(slow_timer_);
  buffer_.reset();
  std::string().swap(out_);
  const auto reason = static_cast<CloseReason>(close_request_.load(std::memory_order_acquire));
  log_debug("net",
            "connection closed id={} peer={} reason={}",
            id(),
            proto::to_string(peer_),
            to_string(reason));
  const std::shared_ptr<TcpConnection> me = self();
  if (registration_) {
    thread_->remove(*registration_);
    registration_.reset();
    handler_->on_close(me, reason);
  }
  user_state.reset();
  handler_.reset();
  thread_->connection_count.fetch_sub(1, std::memory_order_relaxed);
  group_->leave();
}

void TcpConnection::release_socket() {
  boost::system::error_code ignored;
  socket_->close(ignored);
  socket_.reset();
}

}  // namespace tenon::net
