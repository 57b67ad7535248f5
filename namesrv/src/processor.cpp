#include "processor.h"

#include "answer.h"

#include "tenon/base/crc32.h"
#include "tenon/base/log.h"
#include "tenon/proto/json.h"

#include <fmt/format.h>

#include <utility>

namespace tenon::namesrv {
namespace {

using proto::RequestCode;
using proto::ResponseCode;

/// From this version on the requester reads standard JSON (spec: remoting §8.4).
constexpr std::int32_t kStandardJsonVersion = 401;
/// What the Node client says it is, and Java clients of that time.
constexpr std::int32_t kNodeClientVersion = 121;
constexpr std::string_view kFaq = "See http://rocketmq.apache.org/docs/faq/ for further details.";

std::string text_of(const proto::CommandView& request, std::string_view key) {
  return std::string(request.field(key).value_or(std::string_view{}));
}

BrokerKey broker_of(const proto::CommandView& request) {
  return {text_of(request, "clusterName"),
          text_of(request, "brokerName"),
          text_of(request, "brokerAddr"),
          request.field_long("brokerId").value_or(0)};
}

}  // namespace

Processor::Processor(const NamesrvConfig& config, const Clock& clock)
    : config_(config),
      order_enabled_(config.order_message_enable),
      kv_(config.kv_config_path),
      table_(clock, config.broker_timeout_ms) {}

std::size_t Processor::broker_count() const {
  const std::shared_lock lock(mutex_);
  return table_.live_count();
}

void Processor::on_commands(const net::ConnectionPtr& connection,
                            std::span<const proto::CommandView> commands,
                            const net::BufferRef&) {
  for (const proto::CommandView& request : commands) {
    if (request.is_response()) {
      continue;
    }
    Answer answer;
    handle(connection, request, answer);
    if (!request.is_oneway()) {
      answer.encode(request, connection->out());
    }
  }
}

void Processor::on_close(const net::ConnectionPtr& connection, net::CloseReason reason) {
  std::vector<std::string> dropped;
  {
    const std::unique_lock lock(mutex_);
    if (broker_connections_.erase(connection->id()) == 0) {
      return;
    }
    dropped = table_.connection_closed(connection->id());
  }
  for (const std::string& address : dropped) {
    log_info("ns", "broker gone broker={} reason={}", address, net::to_string(reason));
  }
}

void Processor::scan() {
  std::vector<net::ConnectionPtr> to_close;
  {
    const std::unique_lock lock(mutex_);
    for (const ConnectionId id : table_.drop_silent()) {
      log_warn("ns", "broker silent for too long, dropped connection={}", id);
      const auto found = broker_connections_.find(id);
      if (found != broker_connections_.end()) {
        if (auto connection = found->second.lock()) {
          to_close.push_back(std::move(connection));
        }
      }
    }
  }
  for (const net::ConnectionPtr& connection : to_close) {
    connection->close(net::CloseReason::kIdle);
  }
}

void Processor::handle(const net::ConnectionPtr& connection, Request request, Answer& answer) {
  if (!handle_broker(connection, request, answer) && !handle_query(request, answer) &&
      !handle_admin(request, answer)) {
    // Java 4.9 does not answer at all and lets the requester run into its timeout; 5.x does this.
    answer.fail(ResponseCode::kRequestCodeNotSupported,
                fmt::format(" request type {} not supported", request.code));
  }
}

bool Processor::handle_broker(const net::ConnectionPtr& connection,
                              Request request,
                              Answer& answer) {
  switch (request.code) {
    case RequestCode::kRegisterBroker:
      register_broker(connection, request, answer);
      return true;
    case RequestCode::kUnregisterBroker:
      unregister_broker(request, answer);
      return true;
    case RequestCode::kQueryDataVersion:
      query_data_version(request, answer);
      return true;
    case RequestCode::kBrokerHeartbeat: {
      const std::unique_lock lock(mutex_);
      table_.refresh(request.field("brokerAddr").value_or(std::string_view{}));
      return true;
    }
    case RequestCode::kGetBrokerMemberGroup:
      member_group(request, answer);
      return true;
    case RequestCode::kRegisterTopicInNamesrv:
      register_topic(request, answer);
      return true;
    default:
      return false;
  }
}

bool Processor::handle_query(Request request, Answer& answer) {
  if (request.code == RequestCode::kGetRouteinfoByTopic) {
    route(request, answer);
    return true;
  }
  const std::shared_lock lock(mutex_);
  switch (request.code) {
    case RequestCode::kGetBrokerClusterInfo:
      answer.body = proto::encode(table_.cluster_info());
      return true;
    case RequestCode::kGetAllTopicListFromNameserver:
      answer.body = proto::encode(table_.all_topics());
      return true;
    case RequestCode::kGetTopicsByCluster:
      answer.body = proto::encode(
          table_.topics_of_cluster(request.field("cluster").value_or(std::string_view{})));
      return true;
    case RequestCode::kGetSystemTopicListFromNs:
      answer.body = proto::encode(table_.system_topics());
      return true;
    case RequestCode::kGetUnitTopicList:
      answer.body = proto::encode(table_.unit_topics(UnitFilter::kUnit));
      return true;
    case RequestCode::kGetHasUnitSubTopicList:
      answer.body = proto::encode(table_.unit_topics(UnitFilter::kUnitSub));
      return true;
    case RequestCode::kGetHasUnitSubUnunitTopicList:
      answer.body = proto::encode(table_.unit_topics(UnitFilter::kUnitSubNotUnit));
      return true;
    default:
      return false;
  }
}

void Processor::register_broker(const net::ConnectionPtr& connection,
                                Request request,
                                Answer& answer) {
  answer.has_header = true;
  const std::int32_t crc = request.field_int("bodyCrc32").value_or(0);
  if (crc != 0 && crc != crc32_java(request.body)) {
    answer.fail(ResponseCode::kSystemError, "crc32 not match");
    return;
  }
  const auto body = proto::decode_register_broker_body(
      as_text(request.body), request.field_bool("compressed").value_or(false), request.version);
  Registration r;
  r.broker = broker_of(request);
  if (!body) {
    log_warn("ns",
             "registration refused broker={} reason=\"{}\"",
             r.broker.address,
             body.error().detail);
    answer.fail(ResponseCode::kSystemError, body.error().detail);
    return;
  }
  if (r.broker.name.empty() || r.broker.address.empty() || r.broker.cluster.empty()) {
    answer.fail(ResponseCode::kSystemError, "brokerName, brokerAddr or clusterName is missing");
    return;
  }
  r.ha_address = text_of(request, "haServerAddr");
  r.topics = &body.value().topics;
  r.connection = connection->id();
  r.timeout_ms = request.field_long("heartbeatTimeoutMillis").value_or(0);
  MasterInfo master;
  bool is_new = false;
  {
    const std::unique_lock lock(mutex_);
    is_new = !table_.version_of(r.broker.address).has_value();
    master = table_.register_broker(r);
    broker_connections_[connection->id()] = connection;
  }
  if (is_new) {
    log_info("ns",
             "broker registered broker={} name={} id={} cluster={} topics={}",
             r.broker.address,
             r.broker.name,
             r.broker.id,
             r.broker.cluster,
             r.topics->topics.size());
  }
  if (!master.address.empty()) {
    answer.fields.emplace_back("haServerAddr", std::move(master.ha_address));
    answer.fields.emplace_back("masterAddr", std::move(master.address));
  }
  if (const auto order = kv_.list(kOrderTopicConfig)) {
    answer.body = proto::encode_kv_table(*order);
  }
}

void Processor::unregister_broker(Request request, Answer&) {
  const BrokerKey broker = broker_of(request);
  {
    const std::unique_lock lock(mutex_);
    table_.unregister_broker(broker);
  }
  log_info("ns", "broker unregistered broker={} name={}", broker.address, broker.name);
}

void Processor::query_data_version(Request request, Answer& answer) {
  const auto given = proto::decode_data_version(as_text(request.body));
  if (!given) {
    answer.fail(ResponseCode::kSystemError, given.error().detail);
    return;
  }
  const std::string address = text_of(request, "brokerAddr");
  const std::unique_lock lock(mutex_);
  const bool changed = table_.is_changed(address, given.value());
  answer.fields.emplace_back("changed", changed ? "true" : "false");
  if (const auto stored = table_.version_of(address)) {
    answer.body = proto::encode(*stored);
  }
}

void Processor::route(Request request, Answer& answer) {
  const std::string_view topic = request.field("topic").value_or(std::string_view{});
  std::optional<proto::TopicRoute> found;
  {
    const std::shared_lock lock(mutex_);
    found = table_.route(topic);
  }
  if (!found && request.version == kNodeClientVersion) {
    // Trap: the Node client (ali-ons) takes 17 for a failure of the send and never asks for the default
    // topic; success without a body makes it do so, and its producers can create topics. To a Java
    // client of this version both mean that there is no route.
    return;
  }
  if (!found) {
    // Trap: exactly 17, every other code makes a producer give up (spec: remoting §8.4).
    answer.fail(
        ResponseCode::kTopicNotExist,
        fmt::format("No topic route info in name server for the topic: {}\n{}", topic, kFaq));
    return;
  }
  if (order_enabled_.load(std::memory_order_relaxed)) {
    found->order_topic_conf = kv_.get(kOrderTopicConfig, topic);
  }
  const bool standard = request.version >= kStandardJsonVersion ||
                        request.field_bool("acceptStandardJsonOnly").value_or(false);
  answer.body = proto::encode(*found, standard);
}

void Processor::member_group(Request request, Answer& answer) {
  proto::BrokerData group;
  {
    const std::shared_lock lock(mutex_);
    group = table_.member_group(request.field("clusterName").value_or(std::string_view{}),
                                request.field("brokerName").value_or(std::string_view{}));
  }
  proto::JsonWriter json(answer.body, {.quote_integer_keys = false});
  json.begin_object().key("brokerMemberGroup").begin_object().key("brokerAddrs").begin_object();
  for (const auto& [id, address] : group.addrs) {
    json.key(id).value(address);
  }
  json.end_object().member("brokerName", group.broker_name).member("cluster", group.cluster);
  json.end_object().end_object();
}

void Processor::register_topic(Request request, Answer& answer) {
  if (request.body.empty()) {
    return;
  }
  const auto route = proto::decode_topic_route(as_text(request.body));
  if (!route) {
    answer.fail(ResponseCode::kSystemError, route.error().detail);
    return;
  }
  const std::unique_lock lock(mutex_);
  table_.register_topic(request.field("topic").value_or(std::string_view{}), route.value().queues);
}

}  // namespace tenon::namesrv
