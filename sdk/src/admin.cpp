// Administration (spec: client §8; remoting §6.4 to §6.6, §7.1, §8).
#include "tenon/sdk/admin.h"

#include "admin_calls.h"
#include "client_core.h"
#include "errors.h"
#include "message_block.h"
#include "validate.h"

#include "tenon/base/endian.h"
#include "tenon/proto/bodies_admin.h"
#include "tenon/proto/properties.h"

#include <algorithm>
#include <thread>

namespace tenon::sdk {
namespace {

using detail::ClientCore;
using detail::cluster_info;
using detail::masters_of;

constexpr std::chrono::milliseconds kTimeout{5'000};
constexpr std::chrono::milliseconds kQueryTimeout{6'000};

proto::Command queue_request(const ClientCore& client,
                             proto::RequestCode::Value code,
                             const Queue& queue) {
  proto::Command c = make_request(code);
  c.set("topic", client.names().wrap(queue.topic));
  c.set("queueId", static_cast<std::int64_t>(queue.id));
  c.set("bname", queue.broker);
  return c;
}

/// Address of a queue's master; asks for the topic's route if it is not known.
Result<std::string> master_of(ClientCore& client, const Queue& queue) {
  std::string address = client.routes().address(queue.broker, 0, true);
  if (address.empty()) {
    if (auto r = client.routes().fetch_blocking(client.names().wrap(queue.topic)); !r) {
      return std::move(r).error();
    }
    address = client.routes().address(queue.broker, 0, true);
  }
  if (address.empty()) {
    return make_error(
        Errc::kBrokerNotExist, "The broker[" + queue.broker + "] not exist", queue.broker);
  }
  return address;
}

Result<std::int64_t> ask_offset(ClientCore& client, const Queue& queue, proto::Command command) {
  auto address = master_of(client, queue);
  if (!address) {
    return std::move(address).error();
  }
  auto answer = client.calls().ask_ok(*address, std::move(command), kQueryTimeout);
  if (!answer) {
    if (answer.error().response == proto::ResponseCode::kQueryNotFound) {
      answer.error().code = make_error_code(Errc::kNotFound);
    }
    return std::move(answer).error();
  }
  const auto offset = answer->field_long("offset");
  if (!offset) {
    return make_error(Errc::kBadAnswer, "the answer has no offset", queue.broker);
  }
  return *offset;
}

std::vector<MessageView> decode_body(const ClientCore& client,
                                     proto::Command&& answer,
                                     std::string_view broker) {
  auto keep = std::make_shared<std::string>(std::move(answer.body));
  const std::span<const std::byte> bytes = as_bytes(*keep);
  return detail::decode_messages(bytes, keep, broker, client.names());
}

bool has_key(const MessageView& m, std::string_view key) {
  std::string_view rest = m.keys();
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == key) {
      return true;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

std::int64_t to_ms(std::chrono::system_clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(t.time_since_epoch()).count();
}

struct KeyQuery {
  std::string_view topic{};
  std::string_view key{};
  bool unique = false;
  int max = 32;
  std::int64_t begin_ms = 0;
  std::int64_t end_ms = 0;
};

/// Asks every broker of the topic; the index works by hash, so what does not match is dropped.
Result<std::vector<MessageView>> query(ClientCore& client, const KeyQuery& q) {
  const std::string topic = client.names().wrap(q.topic);
  auto info = client.routes().fetch_blocking(topic);
  if (!info) {
    return std::move(info).error();
  }
  std::vector<MessageView> found;
  Result<void> failure;
  std::size_t answered = 0;
  for (const TopicInfo::Broker& b : (*info)->brokers) {
    const std::string address = client.routes().address(b.name, 0, false);
    if (address.empty()) {
      continue;
    }
    proto::Command c = make_request(proto::RequestCode::kQueryMessage);
    c.set("topic", topic);
    c.set("key", q.key);
    c.set("maxNum", static_cast<std::int64_t>(q.max));
    c.set("beginTimestamp", q.begin_ms);
    c.set("endTimestamp", q.end_ms);
    c.set("_UNIQUE_KEY_QUERY", std::string_view(q.unique ? "true" : "false"));
    auto answer = client.calls().ask(address, std::move(c), kQueryTimeout);
    if (!answer) {
      failure = std::move(answer).error();
      continue;
    }
    if (answer->code != proto::ResponseCode::kSuccess &&
        answer->code != proto::ResponseCode::kQueryNotFound) {
      failure = from_answer(answer->code, answer->remark, b.name);
      continue;
    }
    ++answered;
    for (MessageView& m : decode_body(client, std::move(*answer), b.name)) {
      const bool matches = q.unique ? m.id() == q.key : has_key(m, q.key);
      if (m.topic() == client.names().unwrap(topic) && matches) {
        found.push_back(std::move(m));
      }
    }
  }
  if (found.empty()) {
    if (!failure && answered == 0) {
      return std::move(failure).error();
    }
    return make_error(Errc::kNotFound,
                      "query message by key finished, but no message: " + std::string(q.key));
  }
  std::stable_sort(found.begin(), found.end(), [](const MessageView& a, const MessageView& b) {
    return a.store_time() > b.store_time();
  });
  if (found.size() > static_cast<std::size_t>(q.max)) {
    found.resize(static_cast<std::size_t>(q.max));
  }
  return found;
}

Result<void> not_on_io_thread(const ClientCore& client) {
  if (client.on_own_thread()) {
    return make_error(Errc::kInvalidArgument, "Admin blocks and must not be used on an I/O thread");
  }
  return {};
}

}  // namespace

Result<Admin> Admin::open(Client& client) {
  if (auto r = not_on_io_thread(*client.core_); !r) {
    return std::move(r).error();
  }
  return Admin(client.core_);
}

Admin::Admin(std::shared_ptr<detail::ClientCore> client) noexcept
    : client_(std::move(client)) {}
Admin::Admin(Admin&&) noexcept = default;
Admin& Admin::operator=(Admin&&) noexcept = default;
Admin::~Admin() = default;

Result<void> Admin::create_topic(std::string_view cluster,
                                 std::string_view name,
                                 int queues,
                                 int permission) {
  const std::string topic = client_->names().wrap(name);
  if (auto r = check_topic(topic); !r) {
    return r;
  }
  if (queues < 1) {
    return make_error(Errc::kInvalidArgument, "a topic needs at least one queue");
  }
  auto masters = masters_of(*client_, cluster);
  if (!masters) {
    return std::move(masters).error();
  }
  proto::Command c = make_request(proto::RequestCode::kUpdateAndCreateTopic);
  c.set("topic", topic);
  c.set("defaultTopic", std::string_view("TBW102"));
  c.set("readQueueNums", static_cast<std::int64_t>(queues));
  c.set("writeQueueNums", static_cast<std::int64_t>(queues));
  c.set("perm", static_cast<std::int64_t>(permission));
  c.set("topicFilterType", std::string_view("SINGLE_TAG"));
  c.set("topicSysFlag", std::int64_t{0});
  c.set("order", std::string_view("false"));
  for (const std::string& address : *masters) {
    if (auto r = client_->calls().ask_ok(address, c, kTimeout); !r) {
      return std::move(r).error();
    }
  }
  // The brokers register the topic by themselves; wait until a route can be had.
  const auto end = std::chrono::steady_clock::now() + kTimeout;
  for (;;) {
    auto info = client_->routes().fetch_blocking(topic);
    if (info && (*info)->route.brokers.size() >= masters->size()) {
      return {};
    }
    if (std::chrono::steady_clock::now() >= end) {
      return make_error(Errc::kTimeout, "created, but the name server does not know it yet");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Result<void> Admin::delete_topic(std::string_view cluster, std::string_view name) {
  const std::string topic = client_->names().wrap(name);
  if (auto r = check_topic(topic); !r) {
    return r;
  }
  auto masters = masters_of(*client_, cluster);
  if (!masters) {
    return std::move(masters).error();
  }
  proto::Command c = make_request(proto::RequestCode::kDeleteTopicInBroker);
  c.set("topic", topic);
  for (const std::string& address : *masters) {
    if (auto r = client_->calls().ask_ok(address, c, kTimeout); !r) {
      return std::move(r).error();
    }
  }
  // Trap: name servers do not know each other, and a broker does not tell them (remoting §7.1).
  c = make_request(proto::RequestCode::kDeleteTopicInNamesrv);
  c.set("topic", topic);
  for (const std::string& address : client_->routes().name_servers()) {
    if (auto r = client_->calls().ask_ok(address, c, kTimeout); !r) {
      return std::move(r).error();
    }
  }
  return {};
}

Result<std::vector<std::string>> Admin::topics() {
  auto answer = client_->routes().ask_name_server_ok(
      make_request(proto::RequestCode::kGetAllTopicListFromNameserver));
  if (!answer) {
    return std::move(answer).error();
  }
  auto list = proto::decode_topic_list(answer->body);
  if (list.has_error()) {
    return from_base(list.error(), Errc::kBadAnswer);
  }
  std::vector<std::string> out;
  for (const std::string& topic : list.value().topics) {
    if (client_->names().holds(topic)) {
      out.push_back(client_->names().unwrap(topic));
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<RouteInfo> Admin::route(std::string_view topic) {
  auto info = client_->routes().fetch_blocking(client_->names().wrap(topic));
  if (!info) {
    if (info.error().response == proto::ResponseCode::kTopicNotExist) {
      info.error().code = make_error_code(Errc::kNotFound);
    }
    return std::move(info).error();
  }
  RouteInfo out;
  for (const proto::QueueData& q : (*info)->route.queues) {
    out.queues.push_back({q.broker_name, q.read_queue_count, q.write_queue_count, q.perm});
  }
  for (const proto::BrokerData& b : (*info)->route.brokers) {
    out.brokers.push_back({b.cluster, b.broker_name, b.addrs});
  }
  return out;
}

Result<std::vector<BrokerInfo>> Admin::brokers() {
  auto info = cluster_info(*client_);
  if (!info) {
    return std::move(info).error();
  }
  std::vector<BrokerInfo> out;
  for (const auto& [name, b] : info->brokers) {
    out.push_back({b.cluster, b.broker_name.empty() ? name : b.broker_name, b.addrs});
  }
  return out;
}

Result<std::int64_t> Admin::min_offset(const Queue& queue) {
  return ask_offset(
      *client_, queue, queue_request(*client_, proto::RequestCode::kGetMinOffset, queue));
}

Result<std::int64_t> Admin::max_offset(const Queue& queue) {
  return ask_offset(
      *client_, queue, queue_request(*client_, proto::RequestCode::kGetMaxOffset, queue));
}

Result<std::int64_t> Admin::offset_at(const Queue& queue,
                                      std::chrono::system_clock::time_point when) {
  proto::Command c = queue_request(*client_, proto::RequestCode::kSearchOffsetByTimestamp, queue);
  c.set("timestamp", to_ms(when));
  return ask_offset(*client_, queue, std::move(c));
}

Result<std::int64_t> Admin::committed_offset(std::string_view group, const Queue& queue) {
  proto::Command c = queue_request(*client_, proto::RequestCode::kQueryConsumerOffset, queue);
  c.set("consumerGroup", client_->names().wrap(group));
  return ask_offset(*client_, queue, std::move(c));
}

Result<MessageView> Admin::message_by_id(std::string_view id, std::string_view topic) {
  // Trap: both kinds of id have 32 digits; Java tries the offset id first (client §4.3). With a
  // topic given we ask the index first, which cannot lead to a foreign address.
  if (!topic.empty()) {
    KeyQuery q;
    q.topic = topic;
    q.key = id;
    q.unique = true;
    q.end_ms = std::numeric_limits<std::int64_t>::max();
    auto found = query(*client_, q);
    if (found) {
      return std::move(found->back());
    }
    if (!found.error().is(Errc::kNotFound)) {
      return std::move(found).error();
    }
  }
  const auto parsed = proto::parse_offset_message_id(id);
  if (parsed.has_error()) {
    return make_error(topic.empty() ? Errc::kInvalidArgument : Errc::kNotFound,
                      "not an offset id: " + std::string(id));
  }
  proto::Command c = make_request(proto::RequestCode::kViewMessageById);
  c.set("offset", parsed.value().phys_offset);
  const std::string address = proto::to_string(parsed.value().store_host);
  auto answer = client_->calls().ask_ok(address, std::move(c), kQueryTimeout);
  if (!answer) {
    if (answer.error().response >= 0 || !topic.empty()) {
      answer.error().code = make_error_code(Errc::kNotFound);
    }
    return std::move(answer).error();
  }
  std::vector<MessageView> messages = decode_body(*client_, std::move(*answer), address);
  if (messages.empty()) {
    return make_error(Errc::kBadAnswer, "the record cannot be decoded", address);
  }
  return std::move(messages.front());
}

Result<std::vector<MessageView>> Admin::messages_by_key(std::string_view topic,
                                                        std::string_view key,
                                                        int max,
                                                        std::chrono::system_clock::time_point begin,
                                                        std::chrono::system_clock::time_point end) {
  KeyQuery q;
  q.topic = topic;
  q.key = key;
  q.max = max;
  q.begin_ms = to_ms(begin);
  q.end_ms = to_ms(end);
  return query(*client_, q);
}

Result<std::vector<QueueProgress>> Admin::progress(std::string_view group) {
  auto info = cluster_info(*client_);
  if (!info) {
    return std::move(info).error();
  }
  std::vector<QueueProgress> out;
  for (const auto& [name, broker] : info->brokers) {
    const auto master = broker.addrs.find(0);
    if (master == broker.addrs.end()) {
      continue;
    }
    proto::Command c = make_request(proto::RequestCode::kGetConsumeStats);
    c.set("consumerGroup", client_->names().wrap(group));
    auto answer = client_->calls().ask_ok(master->second, std::move(c), kTimeout * 3);
    if (!answer) {
      return std::move(answer).error();
    }
    auto stats = proto::decode_consume_stats(answer->body);
    if (stats.has_error()) {
      return from_base(stats.error(), Errc::kBadAnswer);
    }
    for (const auto& [mq, offsets] : stats.value().offsets) {
      QueueProgress p;
      p.queue = {client_->names().unwrap(mq.topic), mq.broker_name, mq.queue_id};
      p.broker_offset = offsets.broker_offset;
      p.consumer_offset = offsets.consumer_offset;
      p.last_ms = offsets.last_ms;
      out.push_back(std::move(p));
    }
  }
  return out;
}

Result<std::vector<std::string>> Admin::group_members(std::string_view group) {
  auto info = cluster_info(*client_);
  if (!info) {
    return std::move(info).error();
  }
  Result<std::vector<std::string>> out = std::vector<std::string>();
  for (const auto& [name, broker] : info->brokers) {
    if (broker.addrs.empty()) {
      continue;
    }
    proto::Command c = make_request(proto::RequestCode::kGetConsumerListByGroup);
    c.set("consumerGroup", client_->names().wrap(group));
    auto answer = client_->calls().ask(broker.addrs.begin()->second, std::move(c), kTimeout);
    if (!answer) {
      out = std::move(answer).error();
      continue;
    }
    if (answer->code != proto::ResponseCode::kSuccess) {
      continue;  // nobody of the group is online at this broker
    }
    auto ids = proto::decode_consumer_ids(answer->body);
    if (ids.has_value()) {
      return std::move(ids).value();
    }
  }
  return out;
}

}  // namespace tenon::sdk
