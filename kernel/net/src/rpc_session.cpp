#include "rpc_session.h"

#include "tenon/base/check.h"
#include "tenon/base/log.h"
#include "tenon/proto/codes.h"

#include <algorithm>
#include <utility>

namespace tenon::net {
namespace {

/// A refusal that comes sooner than this is waited for again by the next call.
constexpr std::int64_t kQuickRefusalMs = 100;
/// A connection on which a call that has waited so long heard nothing at all is taken for lost.
constexpr std::int64_t kSilenceMaxMs = 1'000;

}  // namespace

RpcSession::RpcSession(std::shared_ptr<RpcShared> shared,
                       std::shared_ptr<IoThreadImpl> thread,
                       std::string address,
                       std::int64_t unconnected_ms)
    : shared_(std::move(shared)),
      thread_(std::move(thread)),
      address_(std::move(address)),
      begin_ms_(steady_ms()),
      since_ms_(unconnected_ms > 0 ? unconnected_ms : begin_ms_) {}

RpcSession::~RpcSession() {
  TENON_DCHECK(pending_.size() == 0, "{} calls to {} are forgotten", pending_.size(), address_);
}

bool RpcSession::is_dead() const {
  const std::scoped_lock lock(mutex_);
  return state_ == State::kDead;
}

std::int64_t RpcSession::unconnected_ms() const {
  const std::scoped_lock lock(mutex_);
  return unconnected_ms_;
}

Taken RpcSession::call(const RpcEncoder& encode, const RpcTimes& times, RpcCallback& done) {
  std::shared_ptr<TcpConnection> to_pump;
  {
    const std::scoped_lock lock(mutex_);
    if (state_ == State::kDead) {
      return Taken::kEnded;
    }
    if (state_ == State::kConnecting) {
      return wait_for_connection_locked(encode, times, done, false);
    }
    const std::int32_t opaque = pending_.add(times.deadline_ms, std::move(done), times.now_ms);
    switch (connection_->append(encode, opaque)) {
      case TcpConnection::Append::kClosed:
        pending_.take(opaque, done);  // its end has not got through to us yet
        return Taken::kEnded;
      case TcpConnection::Append::kQueued:
        break;
      case TcpConnection::Append::kPump:
        to_pump = connection_;
        break;
    }
    shared_->in_flight.fetch_add(1, std::memory_order_relaxed);
    arm_deadline_locked(times.deadline_ms);
  }
  if (to_pump) {
    to_pump->pump_appended();
  }
  return Taken::kYes;
}

/// Until there is one the deadline of the call is that of its patience.
Taken RpcSession::wait_for_connection_locked(const RpcEncoder& encode,
                                             const RpcTimes& times,
                                             RpcCallback& done,
                                             bool told) {
  std::int64_t limit_ms = times.deadline_ms;
  if (times.connect_wait_ms > 0) {
    limit_ms = std::min(limit_ms, since_ms_ + times.connect_wait_ms);
    if (limit_ms <= times.now_ms) {
      return Taken::kTooLate;
    }
  }
  Waiting& waiting = waiting_.emplace_back();
  waiting.opaque = pending_.add(limit_ms, std::move(done), times.now_ms);
  waiting.told = told;
  waiting.deadline_ms = times.deadline_ms;
  encode(waiting.bytes, waiting.opaque);
  shared_->in_flight.fetch_add(1, std::memory_order_relaxed);
  arm_deadline_locked(limit_ms);
  return Taken::kYes;
}

Taken RpcSession::oneway_within(const RpcEncoder& encode,
                                const RpcTimes& times,
                                RpcCallback& done) {
  {
    const std::scoped_lock lock(mutex_);
    if (state_ == State::kConnecting) {
      return wait_for_connection_locked(encode, times, done, true);
    }
  }
  if (!oneway(encode)) {
    return Taken::kEnded;
  }
  done(RpcAnswer{});
  return Taken::kYes;
}

bool RpcSession::oneway(const RpcEncoder& encode) {
  std::shared_ptr<TcpConnection> to_pump;
  {
    const std::scoped_lock lock(mutex_);
    if (state_ == State::kDead) {
      return false;
    }
    const std::int32_t opaque = pending_.skip();
    if (state_ == State::kConnecting) {
      if (waiting_.size() >= shared_->options.in_flight_max) {
        log_warn("net", "one-way request dropped, too many wait for {}", address_);
        return true;
      }
      Waiting& waiting = waiting_.emplace_back();
      waiting.oneway = true;
      encode(waiting.bytes, opaque);
      return true;
    }
    switch (connection_->append(encode, opaque)) {
      case TcpConnection::Append::kClosed:
        return false;
      case TcpConnection::Append::kQueued:
        return true;
      case TcpConnection::Append::kPump:
        to_pump = connection_;
        break;
    }
  }
  to_pump->pump_appended();
  return true;
}

void RpcSession::on_open(const ConnectionPtr& connection) {
  if (shared_->requests != nullptr) {
    shared_->requests->on_open(connection);
  }
}

void RpcSession::on_commands(const ConnectionPtr& connection,
                             std::span<const proto::CommandView> commands,
                             const BufferRef& keep) {
  std::size_t requests = 0;
  {
    const std::scoped_lock lock(mutex_);
    heard_ms_ = steady_ms();
    for (const proto::CommandView& command : commands) {
      if (!command.is_response()) {
        ++requests;
        continue;
      }
      answered_.emplace_back(RpcCallback{}, &command);
      if (!pending_.take(command.opaque, answered_.back().first)) {
        answered_.pop_back();  // late: its call has timed out
      }
    }
  }
  shared_->in_flight.fetch_sub(answered_.size(), std::memory_order_relaxed);
  for (auto& [done, command] : answered_) {
    done(RpcAnswer{command, keep});
    done = nullptr;
  }
  answered_.clear();
  if (requests == commands.size()) {
    forward_requests(connection, commands, keep);
  } else if (requests > 0) {
    std::vector<proto::CommandView> only;
    for (const proto::CommandView& command : commands) {
      if (!command.is_response()) {
        only.push_back(command);
      }
    }
    forward_requests(connection, only, keep);
  }
}

void RpcSession::forward_requests(const ConnectionPtr& connection,
                                  std::span<const proto::CommandView> commands,
                                  const BufferRef& keep) {
  if (shared_->requests != nullptr) {
    shared_->requests->on_commands(connection, commands, keep);
    return;
  }
  for (const proto::CommandView& command : commands) {
    if (!command.is_oneway()) {
      const std::string remark = fmt::format(" request type {} not supported", command.code);
      proto::FrameWriter(connection->out(),
                         {.code = proto::ResponseCode::kRequestCodeNotSupported,
                          .opaque = command.opaque,
                          .flag = proto::kFlagResponse,
                          .kind = command.kind,
                          .remark = remark})
          .finish();
    }
  }
}

void RpcSession::on_close(const ConnectionPtr& connection, CloseReason reason) {
  if (shared_->requests != nullptr) {
    shared_->requests->on_close(connection, reason);
  }
  end(Errc::kClosed, to_string(reason));
}

void RpcSession::end(Errc code, std::string_view reason) {
  std::vector<RpcCallback> calls;
  std::shared_ptr<TcpConnection> connection;
  std::size_t oneways = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (state_ == State::kDead) {
      return;
    }
    if (state_ == State::kConnecting && steady_ms() - begin_ms_ >= kQuickRefusalMs) {
      unconnected_ms_ = since_ms_;
    }
    state_ = State::kDead;
    pending_.take_all(calls);
    connection = std::move(connection_);
    connection_.reset();
    for (const Waiting& w : waiting_) {
      oneways += w.oneway ? 1 : 0;
    }
    waiting_ = {};
    thread_->cancel(deadline_timer_);
    deadline_timer_ = 0;
  }
  const auto me = shared_from_this();
  if (std::exchange(counted_, false)) {
    thread_->connection_count.fetch_sub(1, std::memory_order_relaxed);
  }
  abandon_connect();
  if (oneways > 0) {
    log_warn("net",
             "one-way requests dropped address={} count={} reason=\"{}\"",
             address_,
             oneways,
             reason);
  }
  if (connection) {
    connection->close(CloseReason::kLocal);
  }
  finish(calls, code, reason);
}

void RpcSession::finish(std::vector<RpcCallback>& calls, Errc code, std::string_view reason) {
  shared_->in_flight.fetch_sub(calls.size(), std::memory_order_relaxed);
  for (RpcCallback& done : calls) {
    done(Error{code, fmt::format("call to {}: {}", address_, reason)});
    done = nullptr;
  }
}

/// One timer for the earliest deadline; when it fires, the table is looked through. Calls that are
/// answered in time, as nearly all are, never touch the wheel.
void RpcSession::arm_deadline_locked(std::int64_t deadline_ms) {
  if (deadline_ms >= armed_ms_) {
    return;
  }
  thread_->cancel(deadline_timer_);
  armed_ms_ = deadline_ms;
  const std::int64_t delay = std::max<std::int64_t>(deadline_ms - steady_ms(), 1);
  deadline_timer_ = thread_->after(std::chrono::milliseconds{delay}, [weak = weak_from_this()] {
    if (const auto me = weak.lock()) {
      me->on_deadline();
    }
  });
}

void RpcSession::on_deadline() {
  std::vector<RpcCallback> expired;
  std::int64_t unheard_ms = 0;
  bool sent = false;
  {
    const std::scoped_lock lock(mutex_);
    deadline_timer_ = 0;
    armed_ms_ = PendingTable::kNever;
    const std::int64_t next = pending_.take_expired(steady_ms(), expired, heard_ms_, unheard_ms);
    if (next != PendingTable::kNever) {
      arm_deadline_locked(next);
    }
    sent = state_ == State::kOpen;
    if (!sent) {
      std::erase_if(waiting_,
                    [this](const Waiting& w) { return !w.oneway && !pending_.contains(w.opaque); });
    }
  }
  if (sent) {
    // Who is gone without a word would let every call wait for its time-out, so the next ones get a
    // new connection (spec: client §3.1, closeSocketIfTimeout).
    if (unheard_ms >= kSilenceMaxMs) {
      log_warn(
          "net", "connection given up, the peer is silent address={} ms={}", address_, unheard_ms);
      end(Errc::kClosed, "the peer is silent");
    }
    finish(expired, Errc::kTimeout, "no answer in time");
  } else {
    finish(expired, Errc::kNotReady, "not connected in time");
  }
}

}  // namespace tenon::net
