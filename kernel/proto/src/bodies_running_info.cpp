// GET_CONSUMER_RUNNING_INFO (spec: remoting §5.1).
#include "body_codec.h"

#include "tenon/proto/bodies_admin.h"

namespace tenon::proto {

using detail::BodyReader;

namespace {

void write_queue_info(JsonWriter& w, const ProcessQueueInfo& p) {
  w.begin_object().member("cachedMsgCount", p.cached_count);
  w.member("cachedMsgMaxOffset", p.cached_max_offset);
  w.member("cachedMsgMinOffset", p.cached_min_offset);
  w.member("cachedMsgSizeInMiB", p.cached_mib);
  w.member("commitOffset", p.commit_offset);
  w.member("droped", p.dropped);  // The spelling of the protocol.
  w.member("lastConsumeTimestamp", p.last_consume_ms);
  w.member("lastLockTimestamp", p.last_lock_ms);
  w.member("lastPullTimestamp", p.last_pull_ms);
  w.member("locked", p.locked);
  w.member("transactionMsgCount", p.transaction_count);
  w.member("transactionMsgMaxOffset", p.transaction_max_offset);
  w.member("transactionMsgMinOffset", p.transaction_min_offset);
  w.member("tryUnlockTimes", p.try_unlock_times).end_object();
}

ProcessQueueInfo read_queue_info(BodyReader& in, JsonNode node) {
  ProcessQueueInfo p;
  in.get(node, "cachedMsgCount", p.cached_count);
  in.get(node, "cachedMsgMaxOffset", p.cached_max_offset);
  in.get(node, "cachedMsgMinOffset", p.cached_min_offset);
  in.get(node, "cachedMsgSizeInMiB", p.cached_mib);
  in.get(node, "commitOffset", p.commit_offset);
  in.get(node, "droped", p.dropped);
  in.get(node, "lastConsumeTimestamp", p.last_consume_ms);
  in.get(node, "lastLockTimestamp", p.last_lock_ms);
  in.get(node, "lastPullTimestamp", p.last_pull_ms);
  in.get(node, "locked", p.locked);
  in.get(node, "transactionMsgCount", p.transaction_count);
  in.get(node, "transactionMsgMaxOffset", p.transaction_max_offset);
  in.get(node, "transactionMsgMinOffset", p.transaction_min_offset);
  in.get(node, "tryUnlockTimes", p.try_unlock_times);
  return p;
}

void write_status(JsonWriter& w, const ConsumeStatus& s) {
  w.begin_object().member("consumeFailedMsgs", s.consume_failed_msgs);
  w.member("consumeFailedTPS", s.consume_failed_tps).member("consumeOKTPS", s.consume_ok_tps);
  w.member("consumeRT", s.consume_rt).member("pullRT", s.pull_rt);
  w.member("pullTPS", s.pull_tps).end_object();
}

ConsumeStatus read_status(BodyReader& in, JsonNode node) {
  ConsumeStatus s;
  in.get(node, "consumeFailedMsgs", s.consume_failed_msgs);
  in.get(node, "consumeFailedTPS", s.consume_failed_tps);
  in.get(node, "consumeOKTPS", s.consume_ok_tps);
  in.get(node, "consumeRT", s.consume_rt);
  in.get(node, "pullRT", s.pull_rt);
  in.get(node, "pullTPS", s.pull_tps);
  return s;
}

}  // namespace

std::string encode(const ConsumerRunningInfo& r) {
  std::string out;
  JsonWriter w(out, detail::fastjson_style());
  w.begin_object();
  if (r.jstack) {
    w.member("jstack", *r.jstack);
  }
  w.key("mqTable").begin_object();
  for (const auto& [queue, info] : r.queues) {
    detail::write_key(w, queue);
    write_queue_info(w, info);
  }
  w.end_object().key("properties").begin_object();
  for (const auto& [key, value] : r.properties) {
    w.member(key, value);
  }
  w.end_object().key("statusTable").begin_object();
  for (const auto& [topic, status] : r.status) {
    write_status(w.key(topic), status);
  }
  w.end_object().key("subscriptionSet").begin_array();
  for (const SubscriptionData& s : r.subscriptions) {
    detail::write(w, s);
  }
  w.end_array().end_object();
  return out;
}

Result<ConsumerRunningInfo> decode_consumer_running_info(std::string_view json) {
  TENON_TRY(const JsonDocument document, detail::parse_object(json, "running info"));
  BodyReader in("running info");
  const JsonNode root = document.root();
  ConsumerRunningInfo r;
  in.get(root, "jstack", r.jstack);
  const JsonNode queues = in.object(root, "mqTable");
  for (std::size_t i = 0; i < queues.size() && !in.failed(); ++i) {
    const auto [key, node] = queues.member(i);
    r.queues.insert_or_assign(in.queue_key(key), read_queue_info(in, node));
  }
  const JsonNode properties = in.object(root, "properties");
  for (std::size_t i = 0; i < properties.size(); ++i) {
    const auto [key, node] = properties.member(i);
    r.properties.insert_or_assign(std::string(key), node.text().value_or(std::string()));
  }
  const JsonNode status = in.object(root, "statusTable");
  for (std::size_t i = 0; i < status.size(); ++i) {
    const auto [topic, node] = status.member(i);
    r.status.insert_or_assign(std::string(topic), read_status(in, node));
  }
  const JsonNode subscriptions = in.array(root, "subscriptionSet");
  for (std::size_t i = 0; i < subscriptions.size(); ++i) {
    r.subscriptions.push_back(in.subscription(subscriptions.at(i)));
  }
  if (in.failed()) {
    return in.error();
  }
  return r;
}

}  // namespace tenon::proto
