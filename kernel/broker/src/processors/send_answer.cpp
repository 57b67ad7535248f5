// The second half of a send: append the batch, answer each request (spec: broker §6).
#include "processors/send.h"
#include "remarks.h"
#include "util/message_id.h"

#include "tenon/base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace tenon::broker {
namespace {

using Code = proto::ResponseCode;

/// Counts neighbouring sends to one topic together.
class TopicRun {
 public:
  explicit TopicRun(StatsView& items)
      : items_(items) {}
  void add(const tenon_record& record, const tenon_append_result& result) {
    const std::string_view topic = host::text(record.topic);
    if (topic != topic_) {
      end();
      topic_ = topic;
    }
    messages_ += record.count;
    bytes_ += result.bytes;
  }
  void end() {
    if (messages_ > 0) {
      items_.put(topic_, messages_, bytes_);
    }
    messages_ = 0;
    bytes_ = 0;
  }

 private:
  StatsView& items_;
  std::string_view topic_{};
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

PutFailure put_failure(tenon_status status, const Services& services) {
  switch (static_cast<Errc>(status)) {
    case Errc::kInvalid:
    case Errc::kLimit:
      return {Code::kMessageIllegal,
              fmt::format(remark::kMessageIllegal, services.config.message_max_bytes),
              "MESSAGE_ILLEGAL"};
    case Errc::kBusy:
      return {Code::kSystemError, std::string(remark::kPageCacheBusy), "OS_PAGECACHE_BUSY"};
    case Errc::kFull:
    case Errc::kNotLeader:
    case Errc::kNotReady:
    case Errc::kClosed:
      return {Code::kServiceNotAvailable,
              fmt::format(remark::kServiceNotAvailable, services.log.disk_ratios()),
              "SERVICE_NOT_AVAILABLE"};
    case Errc::kIo:
    case Errc::kNoMemory:
      return {
          Code::kSystemError, std::string(remark::kCreateFileFailed), "CREATE_MAPEDFILE_FAILED"};
    default:
      return {Code::kSystemError, std::string(remark::kUnknownError), "UNKNOWN_ERROR"};
  }
}

/// Answers what was appended, results in the batch.
void SendProcessor::answer_batch(IoState& io,
                                 const net::ConnectionPtr& connection,
                                 SendBatch& batch) {
  const std::size_t n = batch.records.size();
  const std::uint64_t took_ms = (s_.clock.mono_ns() - batch.since_ns) / 1'000'000u;
  std::uint64_t flush_upto = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  TopicRun of_topic(io.items);
  for (std::size_t i = 0; i < n; ++i) {
    const PendingSend& send = batch.pending[i];
    tenon_append_result& result = batch.results[i];
    if (result.status == static_cast<tenon_status>(Errc::kStale)) {
      // The topic was deleted and created anew since its handle was taken.
      batch.records[i].queue = 0;
      s_.log.append({&batch.records[i], 1}, {&result, 1});
    }
    if (result.status < 0) {
      answer_failed(connection, send, result.status);
      ThreadStats::add(io.stats.put_failed, 1);
      continue;
    }
    messages += batch.records[i].count;
    bytes += result.bytes;
    of_topic.add(batch.records[i], result);
    if (host::text(batch.records[i].topic) == kScheduleTopic) {
      io.items.delayed(static_cast<std::int32_t>(batch.records[i].queue_id), result.bytes);
    }
    if (send.wait_durable) {
      flush_upto = std::max(flush_upto, result.phys + result.bytes);
    }
    answer_put(connection, send, batch.records[i], result);
  }
  of_topic.end();
  io.stats.put_took(took_ms, messages);
  ThreadStats::add(io.stats.put_count, messages);
  ThreadStats::add(io.stats.put_bytes, bytes);
  if (flush_upto != 0) {
    s_.log.request_flush(flush_upto);
  }
}

void SendProcessor::answer_put(const net::ConnectionPtr& connection,
                               const PendingSend& send,
                               const tenon_record& record,
                               const tenon_append_result& result) {
  if (send.oneway) {
    return;
  }
  const proto::HostAddr& host = s_.advertised.store_host;
  const MessageIdText first(host, result.phys);
  std::string joined;
  std::string_view message_id = first.view();
  if ((record.flags & TENON_RECORD_BATCH) != 0) {
    for (std::uint32_t i = 0; i < record.count; ++i) {
      if (i > 0) {
        joined.push_back(',');
      }
      joined.append(MessageIdText(host, record.inner_phys[i]).view());
    }
    message_id = joined;
  }
  if (send.wait_durable) {
    answer_when_durable(
        connection, send, result.phys + result.bytes, message_id, result.queue_offset);
    return;
  }
  SendAnswer answer;
  answer.opaque = send.opaque;
  answer.kind = send.kind;
  answer.queue_id = send.answer_queue_id;
  answer.queue_offset = result.queue_offset;
  answer.recall_handle = send.recall_handle;
  write_answer(connection->out(), answer, message_id, Code::kSuccess);
}

void SendProcessor::answer_when_durable(const net::ConnectionPtr& connection,
                                        const PendingSend& send,
                                        std::uint64_t end,
                                        std::string_view message_id,
                                        std::int64_t queue_offset) {
  SendAnswer answer;
  answer.opaque = send.opaque;
  answer.kind = send.kind;
  answer.queue_id = send.answer_queue_id;
  answer.queue_offset = queue_offset;
  answer.message_id = message_id;
  answer.recall_handle = send.recall_handle;
  const std::uint64_t deadline =
      s_.clock.mono_ns() + static_cast<std::uint64_t>(s_.config.sync_flush_timeout_ms) * 1'000'000u;
  s_.flush_waiters.add(end, deadline, [this, connection, answer = std::move(answer)](bool durable) {
    std::string frame;
    write_answer(frame,
                 answer,
                 answer.message_id,
                 durable ? std::int32_t{Code::kSuccess} : std::int32_t{Code::kFlushDiskTimeout});
    connection->send(std::move(frame));
  });
}

void SendProcessor::write_answer(std::string& out,
                                 const SendAnswer& answer,
                                 std::string_view message_id,
                                 std::int32_t code) const {
  proto::FrameWriter::Head head;
  head.code = code;
  head.opaque = answer.opaque;
  head.flag = proto::kFlagResponse;
  head.kind = answer.kind;
  proto::FrameWriter writer(out, head);
  writer.field("MSG_REGION", s_.config.region_id);
  writer.field_bool("TRACE_ON", s_.config.trace_on);
  writer.field("msgId", message_id);
  writer.field("queueId", answer.queue_id);
  writer.field("queueOffset", answer.queue_offset);
  if (!answer.recall_handle.empty()) {
    writer.field("recallHandle", std::string_view(answer.recall_handle));
  }
  writer.finish();
}

void SendProcessor::answer_failed(const net::ConnectionPtr& connection,
                                  const PendingSend& send,
                                  tenon_status status) const {
  if (send.oneway) {
    return;
  }
  const PutFailure failure = put_failure(status, s_);
  proto::FrameWriter::Head head;
  head.code = failure.code;
  head.opaque = send.opaque;
  head.flag = proto::kFlagResponse;
  head.kind = send.kind;
  head.remark = failure.remark;
  proto::FrameWriter writer(connection->out(), head);
  writer.field("MSG_REGION", s_.config.region_id);
  writer.field_bool("TRACE_ON", s_.config.trace_on);
  writer.finish();
}

void SendProcessor::create_topic_then_again(const Request& request,
                                            const SendHeader& header,
                                            int attempt) {
  std::int32_t sys_flag = 0;
  if (header.unit_mode) {
    sys_flag = header.topic.starts_with(kRetryPrefix) ? 2 : 1;
  }
  auto held = std::make_shared<const HeldRequest>(request);
  const bool taken =
      s_.workers.post(Workers::Lane::kAdmin, [this, held, header, sys_flag, attempt] {
        // The views of the header live in the held buffer.
        s_.topics.create_for_send(
            header.topic, header.default_topic, header.default_queue_count, sys_flag);
        again_(held, attempt + 1);
      });
  if (!taken) {
    refuse(request, Code::kSystemBusy, remark::kOverload);
  }
}

void SendProcessor::create_dlq_then_again(const Request& request, std::string topic, int attempt) {
  auto held = std::make_shared<const HeldRequest>(request);
  const bool taken =
      s_.workers.post(Workers::Lane::kAdmin, [this, held, topic = std::move(topic), attempt] {
        proto::TopicConfig config;
        config.name = topic;
        config.read_queue_count = 1;
        config.write_queue_count = 1;
        s_.topics.add_if_absent(std::move(config));
        if (auto written = s_.topics.persist(); written.has_error()) {
          log_error("broker", "topics not written reason=\"{}\"", written.error().detail);
        }
        again_(held, attempt + 1);
      });
  if (!taken) {
    refuse(request, Code::kSystemBusy, remark::kOverload);
  }
}

}  // namespace tenon::broker
