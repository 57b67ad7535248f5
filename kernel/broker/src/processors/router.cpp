#include "processors/router.h"

#include "remarks.h"

#include "tenon/base/log.h"
#include "tenon/proto/peek.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <utility>

namespace tenon::broker {
namespace {

using C = proto::RequestCode;
using Code = proto::ResponseCode;

constexpr std::uint64_t kLateLogNs = 60'000'000'000u;

bool is_send(std::int32_t code) noexcept {
  return code == C::kSendMessageV2 || code == C::kSendMessage || code == C::kSendBatchMessage;
}

bool is_reply(std::int32_t code) noexcept {
  return code == C::kSendReplyMessage || code == C::kSendReplyMessageV2;
}

bool is_pull(std::int32_t code) noexcept {
  return code == C::kPullMessage || code == C::kLitePullMessage;
}

Reply not_supported(std::int32_t code) {
  return Reply::error(Code::kRequestCodeNotSupported, fmt::format(remark::kNotSupported, code));
}

/// The answer of a handler; an exception becomes answer 1 (NettyRemotingAbstract).
Reply run(const HandlerEntry& entry, const Request& request) {
  try {
    return entry.handler(request);
  } catch (const std::exception& e) {
    log_warn("broker",
             "a request failed code={} peer={} reason=\"{}\"",
             request.command.code,
             proto::to_string(request.connection->peer()),
             e.what());
    return Reply::error(Code::kSystemError, e.what());
  }
}

}  // namespace

Router::Router(const Services& services, net::IoPool& pool)
    : s_(services),
      sends_(services,
             [this](std::shared_ptr<const HeldRequest> held, int attempt) {
               send_again(held, attempt);
             }),
      pulls_(services, [this](net::IoThread& thread) -> IoState& { return state_of(thread); }),
      replies_(services) {
  for (std::size_t i = 0; i < pool.size(); ++i) {
    states_.push_back(std::make_unique<IoState>(
        services, static_cast<std::uint64_t>(services.clock.wall_ms()) * (2 * i + 1), pool.size()));
  }
  add_client_handlers(handlers_, s_);
  add_lock_handlers(handlers_, s_);
  add_consumer_offset_handlers(handlers_, s_);
  add_queue_offset_handlers(handlers_, s_);
  add_query_handlers(handlers_, s_);
  add_send_back_handlers(handlers_, s_);
  add_transaction_handlers(handlers_, s_);
  add_recall_handlers(handlers_, s_);
  add_topic_handlers(handlers_, s_);
  add_group_handlers(handlers_, s_);
  add_stats_handlers(handlers_, s_);
  add_info_handlers(handlers_, s_);
  add_config_handlers(handlers_, s_);
  add_consumer_relay_handlers(handlers_, s_);
  add_group_offset_handlers(handlers_, s_);
  add_queue_admin_handlers(handlers_, s_);
}

void Router::on_commands(const net::ConnectionPtr& connection,
                         std::span<const proto::CommandView> commands,
                         const net::BufferRef& keep,
                         bool pulls_served) {
  IoState& io = state_of(connection->io_thread());
  io.refresh();
  io.thread = &connection->io_thread();
  count_input(io, commands.size());
  for (const proto::CommandView& command : commands) {
    if (command.is_response()) {
      s_.calls.on_response(connection, command, keep);
      continue;
    }
    const Request request{connection, command, keep};
    if (!is_send(command.code) && !io.batch.records.empty()) {
      sends_.flush(io, connection, keep);  // keeps the order of a client's own requests
      io.refresh();
    }
    one(io, request, pulls_served);
  }
  sends_.flush(io, connection, keep);
}

void Router::count_input(IoState& io, std::size_t requests) {
  if (s_.config.fast_failure && io.lag.input(requests)) {
    io.lag.begin(system_clock().mono_ns());  // what a loop really took
    arm_mark(io);
  }
}

bool Router::screens(const net::ConnectionPtr& connection) {
  IoState& io = state_of(connection->io_thread());
  if (!io.lag.crowded()) {
    io.late_ms = 0;
    return false;
  }
  const std::uint64_t now_ns = system_clock().mono_ns();
  io.late_ms = io.lag.refused_age_ms(now_ns, io.next_random());
  if (io.late_ms != 0 && now_ns >= io.late_log_ns) {
    io.late_log_ns = now_ns + kLateLogNs;
    log_warn("broker",
             "more sends than can be stored, some are refused waited_ms={} io_thread={}",
             io.late_ms,
             connection->io_thread().index());
  }
  return io.late_ms != 0;
}

bool Router::take(const net::ConnectionPtr& connection, std::span<const std::byte> frame) {
  const auto peek = proto::peek_command(frame);
  if (!peek || !is_send(peek->code) || peek->is_response()) {
    return false;
  }
  IoState& io = state_of(connection->io_thread());
  count_input(io, 1);
  sends_.refuse_late(io, *connection, *peek);
  return true;
}

void Router::arm_mark(IoState& io) {
  io.thread->after(std::chrono::milliseconds(InputLag::kMarkMs), [this, &io] {
    if (io.lag.mark(system_clock().mono_ns())) {
      arm_mark(io);
    }
  });
}

void Router::one(IoState& io, const Request& request, bool pulls_served) {
  try {
    if (is_send(request.command.code)) {
      sends_.add(io, request, 0);
    } else if (is_pull(request.command.code) && pulls_served) {
      pulls_.handle(io, request);
    } else if (is_reply(request.command.code)) {
      replies_.handle(io, request);
    } else {
      other(request, pulls_served);
    }
  } catch (const std::exception& e) {
    log_warn("broker",
             "a request failed code={} peer={} reason=\"{}\"",
             request.command.code,
             proto::to_string(request.connection->peer()),
             e.what());
    write_reply(
        request.connection->out(), request.command, Reply::error(Code::kSystemError, e.what()));
  }
}

void Router::other(const Request& request, bool) {
  const auto it = handlers_.find(request.command.code);
  if (it == handlers_.end()) {
    write_reply(request.connection->out(), request.command, not_supported(request.command.code));
    return;
  }
  if (it->second.run != Run::kInline) {
    to_worker(it->second, request);
    return;
  }
  const Reply reply = run(it->second, request);
  write_reply(request.connection->out(), request.command, reply);
}

void Router::to_worker(const HandlerEntry& entry, const Request& request) {
  const auto lane = entry.run == Run::kQuery         ? Workers::Lane::kQuery
                    : entry.run == Run::kTransaction ? Workers::Lane::kTransaction
                                                     : Workers::Lane::kAdmin;
  const auto answer = [held = std::make_shared<const HeldRequest>(request),
                       &entry](const WorkerPool::Overdue* overdue) {
    send_reply(held->connection,
               held->command,
               overdue == nullptr ? run(entry, held->view())
                                  : Reply::error(Code::kSystemBusy, overdue_remark(*overdue)));
  };
  const bool taken = entry.run == Run::kTransaction
                         ? s_.workers.post_ageing(lane, answer, s_.clock.mono_ns())
                         : s_.workers.post(lane, [answer] { answer(nullptr); });
  if (!taken) {
    write_reply(request.connection->out(),
                request.command,
                Reply::error(Code::kSystemBusy, std::string(remark::kOverload)));
  }
}

void Router::send_again(const std::shared_ptr<const HeldRequest>& held, int attempt) {
  held->connection->io_thread().post([this, held, attempt] {
    IoState& io = state_of(held->connection->io_thread());
    io.refresh();
    const Request request = held->view();
    sends_.add(io, request, attempt);
    sends_.flush(io, held->connection, held->keep);
    if (held->connection->is_open()) {
      held->connection->flush();
    }
  });
}

void Router::on_close(const net::ConnectionPtr& connection) {
  s_.calls.on_close(connection);
  pulls_.connection_closed(connection);
  s_.consumers.connection_closed(connection, s_.config.notify_consumer_ids_changed);
  s_.producers.connection_closed(connection);
}

}  // namespace tenon::broker
