// Requests that brokers send to us (spec: client §2.8, §5.15; remoting §5.1).
#include "client_core.h"
#include "consumer_core.h"
#include "message_block.h"
#include "message_text.h"
#include "orderly.h"
#include "producer_core.h"
#include "transaction_core.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"
#include "tenon/proto/bodies_admin.h"
#include "tenon/proto/message.h"
#include "tenon/proto/properties.h"

namespace tenon::sdk::detail {
namespace {

void reply(const net::ConnectionPtr& connection,
           std::int32_t opaque,
           proto::HeaderKind kind,
           std::int32_t code,
           std::string_view remark,
           std::string_view body) {
  std::string out;
  proto::FrameWriter::Head head;
  head.code = code;
  head.opaque = opaque;
  head.flag = proto::kFlagResponse;
  head.kind = kind;
  head.language = proto::Language::kCpp;
  head.remark = remark;
  proto::FrameWriter w(out, head);
  w.finish(as_bytes(body));
  connection->send(std::move(out));
}

}  // namespace

void ClientCore::on_commands(const net::ConnectionPtr& connection,
                             std::span<const proto::CommandView> commands,
                             const net::BufferRef& keep) {
  for (const proto::CommandView& c : commands) {
    if (!c.is_response()) {
      answer_request(connection, c, keep);
    }
  }
}

void ClientCore::answer_request(const net::ConnectionPtr& connection,
                                const proto::CommandView& request,
                                const net::BufferRef& keep) {
  using Request = proto::RequestCode;
  const auto answer = [&](std::int32_t code, std::string_view remark, std::string_view body = {}) {
    if (!request.is_oneway()) {
      reply(connection, request.opaque, request.kind, code, remark, body);
    }
  };
  const auto group_of = [&](std::string_view field) {
    return consumer(request.field(field).value_or(std::string_view()));
  };
  const auto unknown_group = [&](std::string_view field) {
    return "The Consumer Group <" + std::string(request.field(field).value_or("")) +
           "> not exist in this consumer";
  };
  switch (request.code) {
    case Request::kNotifyConsumerIdsChanged:
      wake_rebalance();
      return;
    case Request::kCheckTransactionState:
      on_transaction_check(connection, request, keep);
      return;
    case Request::kResetConsumerClientOffset: {
      auto offsets = proto::decode_reset_offset(as_text(request.body));
      if (const auto c = group_of("group"); c && offsets.has_value()) {
        c->on_reset_offset(std::move(offsets).value());
      }
      return;
    }
    case Request::kGetConsumerStatusFromClient: {
      const auto c = group_of("group");
      answer(proto::ResponseCode::kSuccess,
             {},
             c ? c->status_body(request.field("topic").value_or(""))
               : proto::encode(proto::ConsumerStatus()));
      return;
    }
    case Request::kGetConsumerRunningInfo: {
      const auto c = group_of("consumerGroup");
      if (c) {
        answer(proto::ResponseCode::kSuccess, {}, c->running_info_body());
      } else {
        answer(proto::ResponseCode::kSystemError, unknown_group("consumerGroup"));
      }
      return;
    }
    case Request::kConsumeMessageDirectly: {
      const auto c = group_of("consumerGroup");
      auto messages =
          decode_messages(request.body, keep, request.field("brokerName").value_or(""), names_);
      if (!c || messages.empty() || !c->has_listener()) {
        answer(proto::ResponseCode::kSystemError,
               c && !c->has_listener() ? "the consumer pulls, it has no listener"
               : c                     ? "message cannot be decoded"
                                       : unknown_group("consumerGroup"));
        return;
      }
      c->consume_directly(
          std::move(messages.front()),
          [connection, opaque = request.opaque, kind = request.kind](const std::string& body) {
            reply(connection, opaque, kind, proto::ResponseCode::kSuccess, {}, body);
          });
      return;
    }
    case Request::kPushReplyMessageToClient:
      if (on_reply(request)) {
        answer(proto::ResponseCode::kSuccess, {});
      } else {
        answer(proto::ResponseCode::kSystemError, "no correlation id in this reply");
      }
      return;
    default:
      answer(proto::ResponseCode::kRequestCodeNotSupported,
             "request type " + std::to_string(request.code) + " not supported");
  }
}

/// A broker asks what became of a half message; the answer goes to the broker that asked.
void ClientCore::on_transaction_check(const net::ConnectionPtr& connection,
                                      const proto::CommandView& request,
                                      const net::BufferRef& keep) {
  auto messages = decode_messages(request.body, keep, request.field("bname").value_or(""), names_);
  if (messages.empty()) {
    return;
  }
  // Trap: by the group that sent it, not by the one that was opened first (client §4.13).
  const auto group = messages.front().property(proto::prop::kProducerGroup);
  std::shared_ptr<TransactionCore> transactions;
  if (group) {
    const std::scoped_lock lock(mutex_);
    const auto it = transactions_.find(*group);
    transactions = it == transactions_.end() ? nullptr : it->second.lock();
  }
  if (!transactions) {
    log_warn("sdk", "transaction check for an unknown group id={}", messages.front().id());
    return;
  }
  TransactionCore::Check check;
  check.message = std::move(messages.front());
  check.table_offset = request.field_long("tranStateTableOffset").value_or(0);
  check.log_offset = request.field_long("commitLogOffset").value_or(0);
  check.transaction_id = std::string(request.field("transactionId").value_or(""));
  check.message_id = std::string(request.field("msgId").value_or(""));
  transactions->on_check(std::move(check), [connection](proto::Command end) {
    end.flag |= proto::kFlagOneway;
    std::string out;
    end.encode(out);
    connection->send(std::move(out));
  });
}

/// @return false if it is no reply
bool ClientCore::on_reply(const proto::CommandView& request) {
  std::string properties(request.field("properties").value_or(""));
  const auto id = proto::find_property(properties, proto::prop::kCorrelationId);
  if (!id) {
    return false;
  }
  const std::string correlation_id(*id);
  put_property(properties, "ARRIVE_TIME", std::to_string(now_ms()));
  proto::MessageRecord r;
  r.topic = request.field("topic").value_or("");
  r.queue_id = request.field_int("queueId").value_or(0);
  r.flag = request.field_int("flag").value_or(0);
  r.sys_flag = request.field_int("sysFlag").value_or(0) &
               ~(proto::sys_flag::kBornHostV6 | proto::sys_flag::kStoreHostV6);
  r.born_ms = request.field_long("bornTimestamp").value_or(0);
  r.store_ms = request.field_long("storeTimestamp").value_or(0);
  r.reconsume_times = request.field_int("reconsumeTimes").value_or(0);
  const auto host = [&](std::string_view field) {
    std::string_view text = request.field(field).value_or("");
    text.remove_prefix(text.starts_with('/') ? 1 : 0);
    auto parsed = proto::parse_host_addr(text);
    return parsed.has_value() ? parsed.value() : proto::HostAddr();
  };
  r.born_host = host("bornHost");
  r.store_host = host("storeHost");
  r.body = request.body;
  r.properties = properties;
  auto bytes = std::make_shared<std::string>(proto::encoded_message_bytes(r), '\0');
  proto::encode_message(r, reinterpret_cast<std::byte*>(bytes->data()));
  const auto messages = decode_messages(tenon::as_bytes(*bytes), bytes, "", names_);
  if (messages.empty()) {
    return false;
  }
  for (const auto& p : producers()) {
    if (p->on_reply(correlation_id, messages.front())) {
      return true;
    }
  }
  log_info("sdk", "a reply came too late correlation_id={}", correlation_id);
  return true;
}

std::string ConsumerCore::status_body(std::string_view topic) const {
  proto::ConsumerStatus status;
  for (const QueueStatePtr& s : states()) {
    const std::int64_t offset = s->memory_offset.load();
    if (s->queue.topic == topic && offset >= 0) {
      status.queues[{s->queue.topic, s->queue.broker, s->queue.id}] = offset;
    }
  }
  return proto::encode(status);
}

std::string ConsumerCore::running_info_body() const {
  proto::ConsumerRunningInfo info;
  for (const QueueStatePtr& s : states()) {
    proto::ProcessQueueInfo& q = info.queues[{s->queue.topic, s->queue.broker, s->queue.id}];
    q.commit_offset = s->memory_offset.load();
    q.cached_min_offset = s->cache.min_offset();
    q.cached_max_offset = s->cache.max_offset();
    q.cached_count = static_cast<std::int32_t>(s->cache.count());
    q.cached_mib = static_cast<std::int32_t>(s->cache.bytes() / (1024 * 1024));
    q.locked = s->locked.load();
    q.last_lock_ms = s->locked_ms.load();
    q.dropped = s->dropped.load();
    q.last_pull_ms = s->last_pull_ms.load();
    q.last_consume_ms = s->last_consume_ms.load();
  }
  info.subscriptions = heartbeat_data().subscriptions;
  for (const SubscriptionPtr& s : subscriptions()) {
    info.status[s->data.topic].consume_failed_msgs =
        static_cast<std::int64_t>(counters_.failed.load());
  }
  info.properties = {
      {"PROP_CLIENT_VERSION", "V4_9_8"},
      {"PROP_CONSUMEORDERLY", orderly_ ? "true" : "false"},
      {"PROP_CONSUMER_START_TIMESTAMP", std::to_string(started_ms_)},
      {"PROP_CONSUME_TYPE", poller_ ? "CONSUME_ACTIVELY" : "CONSUME_PASSIVELY"},
      {"PROP_NAMESERVER_ADDR", client_.options().name_servers},
      {"PROP_THREADPOOL_CORE_SIZE", std::to_string(options_.threads)},
      {"consumerGroup", options_.group},
      {"messageModel", clustering() ? "CLUSTERING" : "BROADCASTING"},
      {"allocateMessageQueueStrategy", std::string(allocator_->wire_name())},
      {"consumeMessageBatchMaxSize", std::to_string(options_.batch_max)},
      {"pullBatchSize", std::to_string(options_.pull_batch)},
  };
  return proto::encode(info);
}

}  // namespace tenon::sdk::detail
