// Sends that wait for the append lock: what Java's send queue is for us. Normally a batch of sends is
// appended by the I/O thread that read it. If others hold the lock for long (a stalled disk), the
// batch waits here and the thread goes on with heartbeats and pulls; every ten milliseconds the head
// is tried again, or refused by the rules of BrokerFastFailure (spec: broker §3.2, §3.3).
#include "processors/send.h"
#include "remarks.h"

#include "tenon/base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

constexpr std::chrono::milliseconds kRetry{10};
/// How long an I/O thread waits for the lock itself before its sends wait without it.
constexpr std::chrono::microseconds kPatience{3'000};
/// Of a receive buffer and the rest that a waiting batch keeps.
constexpr std::size_t kBatchBytes = 64u * 1024;

std::size_t bytes_of(const tenon_record& r) {
  return r.body.len + r.properties.len;
}

}  // namespace

void SendProcessor::flush(IoState& io,
                          const net::ConnectionPtr& connection,
                          const net::BufferRef& keep) {
  SendBatch& batch = io.batch;
  if (batch.records.empty()) {
    batch.arena.reset();
    return;
  }
  if (!io.waiting.empty()) {
    try_waiting(io);
  }
  batch.results.resize(batch.records.size());
  batch.since_ns = s_.clock.mono_ns();
  const bool behind_others = !io.waiting.empty();
  if (!behind_others && s_.log.try_append(batch.records, batch.results, kPatience)) {
    answer_batch(io, connection, batch);
    batch.clear();
    return;
  }
  wait(io, connection, keep);
}

void SendProcessor::wait(IoState& io,
                         const net::ConnectionPtr& connection,
                         const net::BufferRef& keep) {
  SendBatch& batch = io.batch;
  const std::size_t waiting = waiting_count_.load(std::memory_order_relaxed);
  const std::size_t waiting_bytes = waiting_bytes_.load(std::memory_order_relaxed);
  std::size_t bytes = kBatchBytes;
  std::size_t count = 0;
  while (count < batch.records.size() && waiting + count < s_.config.send_queue_max &&
         waiting_bytes + bytes + bytes_of(batch.records[count]) <= s_.config.send_queue_bytes_max) {
    bytes += bytes_of(batch.records[count++]);
  }
  refuse(connection, std::span(batch.pending).subspan(count), remark::kOverload);
  if (count == 0) {
    batch.clear();
    return;
  }
  batch.pending.resize(count);
  batch.records.resize(count);
  batch.results.resize(count);
  waiting_count_.fetch_add(count, std::memory_order_relaxed);
  waiting_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  io.waiting.push_back(
      {connection, keep, io.topics.hold(), s_.clock.mono_ns(), bytes, std::move(batch)});
  batch = SendBatch{};
  if (!io.retry_armed) {
    io.retry_armed = true;
    arm_retry(io, connection->io_thread());
  }
}

void SendProcessor::arm_retry(IoState& io, net::IoThread& thread) {
  thread.after(kRetry, [this, &io, &thread] {
    clean_waiting(io);
    try_waiting(io);
    io.retry_armed = !io.waiting.empty();
    if (io.retry_armed) {
      arm_retry(io, thread);
    }
  });
}

/// Appends from the head as long as the lock is free.
void SendProcessor::try_waiting(IoState& io) {
  while (!io.waiting.empty()) {
    WaitingSends& head = io.waiting.front();
    if (!s_.log.try_append(head.batch.records, head.batch.results, {})) {
      return;
    }
    answer_batch(io, head.connection, head.batch);
    head.connection->flush();
    leave(io);
  }
}

/// The scan of BrokerFastFailure.
void SendProcessor::clean_waiting(IoState& io) {
  if (!s_.config.fast_failure) {
    return;
  }
  const std::uint64_t now_ns = s_.clock.mono_ns();
  const bool busy = s_.log.page_cache_busy();
  while (!io.waiting.empty()) {
    const WaitingSends& head = io.waiting.front();
    const auto age_ms = static_cast<std::int64_t>((now_ns - head.since_ns) / 1'000'000u);
    if (!busy && age_ms < s_.config.wait_in_send_queue_ms) {
      return;
    }
    refuse(
        head.connection,
        head.batch.pending,
        fmt::format(fmt::runtime(busy ? remark::kPageCacheCleanQueue : remark::kTimeoutCleanQueue),
                    age_ms,
                    waiting_count_.load(std::memory_order_relaxed)));
    head.connection->flush();
    leave(io);
  }
}

void SendProcessor::leave(IoState& io) {
  const WaitingSends& head = io.waiting.front();
  waiting_count_.fetch_sub(head.batch.pending.size(), std::memory_order_relaxed);
  waiting_bytes_.fetch_sub(head.bytes, std::memory_order_relaxed);
  io.waiting.pop_front();
}

void SendProcessor::refuse(const net::ConnectionPtr& connection,
                           std::span<const PendingSend> sends,
                           std::string_view remark) const {
  for (const PendingSend& send : sends) {
    if (send.oneway) {
      continue;
    }
    proto::FrameWriter::Head head;
    head.code = Code::kSystemBusy;
    head.opaque = send.opaque;
    head.flag = proto::kFlagResponse;
    head.kind = send.kind;
    head.remark = remark;
    proto::FrameWriter(connection->out(), head).finish();
  }
}

void SendProcessor::refuse_late(IoState& io,
                                net::Connection& connection,
                                const proto::CommandPeek& send) const {
  if (send.is_oneway()) {
    return;
  }
  if (io.late_text_ms != io.late_ms) {  // one text for as long as the age is the same
    io.late_text_ms = io.late_ms;
    proto::FrameWriter::Head head;
    head.code = Code::kSystemBusy;
    head.flag = proto::kFlagResponse;
    const std::string remark = fmt::format(
        remark::kTimeoutCleanQueue, io.late_ms, waiting_count_.load() + io.lag.lap_requests());
    head.remark = remark;
    for (proto::AnswerTemplate& refusal : io.refusals) {
      refusal = proto::AnswerTemplate(head);
      head.kind = proto::HeaderKind::kRocketMq;
    }
  }
  io.refusals[send.kind == proto::HeaderKind::kJson ? 0 : 1].append(connection.out(), send.opaque);
}

}  // namespace tenon::broker
