// Requests that wait for a reply, replies, and taking back delayed messages (spec: client §4.12,
// §4.14).
#include "errors.h"
#include "message_text.h"
#include "producer_core.h"
#include "trace.h"
#include "validate.h"

#include "tenon/base/log.h"
#include "tenon/proto/properties.h"

#include <array>
#include <condition_variable>
#include <random>

namespace tenon::sdk::detail {
namespace {

constexpr std::chrono::milliseconds kAnnounceAgain{20};
constexpr std::chrono::milliseconds kRecallTimeout{3'000};

/// A random UUID.
std::string new_correlation_id() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  std::array<std::uint64_t, 2> bits{random(), random()};
  bits[0] = (bits[0] & 0xffff'ffff'ffff'0fffu) | 0x4000u;
  bits[1] = (bits[1] & 0x3fff'ffff'ffff'ffffu) | 0x8000'0000'0000'0000u;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (unsigned i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) {
      out += '-';
    }
    out += kHex[bits[i / 16] >> (60 - 4 * (i % 16)) & 15];
  }
  return out;
}

/// Text of base64url, padding optional; empty if it is none.
std::string from_base64url(std::string_view text) {
  while (!text.empty() && text.back() == '=') {
    text.remove_suffix(1);
  }
  std::string out;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    std::uint32_t v = 0;
    if (c >= 'A' && c <= 'Z') {
      v = static_cast<std::uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      v = static_cast<std::uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      v = static_cast<std::uint32_t>(c - '0') + 52;
    } else if (c == '-' || c == '_') {
      v = c == '-' ? 62 : 63;
    } else {
      return {};
    }
    bits = bits << 6 | v;
    if (++count % 4 != 1) {
      out += static_cast<char>(bits >> (6 - 2 * ((count - 1) % 4)) & 0xff);
    }
  }
  return out;
}

/// Third word of "v1 topic broker timestamp id"; empty if the handle has another form.
std::string broker_of_handle(std::string_view handle) {
  const std::string text = from_base64url(handle);
  std::array<std::string_view, 5> words{};
  std::string_view rest(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t end = i + 1 < words.size() ? rest.find(' ') : rest.size();
    if (end == std::string_view::npos || end == 0) {
      return {};
    }
    words[i] = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words[0] == "v1" ? std::string(words[2]) : std::string();
}

}  // namespace

struct ProducerCore::PendingRequest {
  std::string id{};
  Producer::ReplyCallback done{};
  Message message{};
  std::uint64_t deadline_ns = 0;
  Scheduler::Id timer = 0;
  // What SendOptions pointed to, for a send that starts later.
  std::optional<Queue> queue{};
  std::optional<Selector> select{};
  std::string sharding_key{};
  SendExtras extras{};
};

void ProducerCore::start_request(Message message,
                                 Producer::ReplyCallback done,
                                 const SendOptions& how) {
  Result<void> checked = check_message(message, options_.max_body_bytes);
  if (checked) {
    checked = check_options(message, how);
  }
  if (checked && stopped_.load()) {
    checked = make_error(Errc::kCancelled, "the producer is closed");
  }
  if (!checked) {
    done(std::move(checked).error());
    return;
  }
  const auto timeout = how.timeout.count() > 0 ? how.timeout : options_.send_timeout;
  auto request = std::make_shared<PendingRequest>();
  request->id = new_correlation_id();
  request->done = std::move(done);
  request->message = std::move(message);
  request->deadline_ns =
      client_.clock().mono_ns() + static_cast<std::uint64_t>(timeout.count()) * 1'000'000;
  if (how.queue != nullptr) {
    request->queue = *how.queue;
  }
  if (how.select != nullptr) {
    request->select = *how.select;
  }
  request->sharding_key = std::string(how.sharding_key);
  std::string& extra = request->extras.properties;
  put_property(extra, proto::prop::kCorrelationId, request->id);
  put_property(extra, proto::prop::kReplyToClient, client_.id());
  put_property(extra, proto::prop::kTtl, std::to_string(timeout.count()));  // Trap: milliseconds
  const std::string topic = names_.wrap(request->message.topic);
  {
    const std::scoped_lock lock(requests_mutex_);
    requests_[request->id] = request;
  }
  request->timer =
      client_.timers().add(timeout, [weak = weak_from_this(), id = request->id, topic] {
        if (const auto self = weak.lock()) {
          Error e = make_error(Errc::kRequestTimeout, "no reply to a request to topic " + topic);
          e.outcome_unknown = true;
          self->end_request(id, std::move(e));
        }
      });
  bool announced = false;
  {
    const std::scoped_lock lock(requests_mutex_);
    announced = announced_.count(topic) != 0;
  }
  if (announced) {
    send_request(request);
    return;
  }
  // Trap: the brokers push the reply over a connection of a producer that they know, so they have to
  // know us before it comes (client §4.14).
  client_.routes().resolve(topic,
                           options_.create_topic_key,
                           options_.default_topic_queues,
                           [self = shared_from_this(), request](Result<TopicInfoPtr> info) {
                             if (!info) {
                               self->end_request(request->id, std::move(info).error());
                               return;
                             }
                             self->announce_then_send(request);
                           });
}

void ProducerCore::announce_then_send(const std::shared_ptr<PendingRequest>& request) {
  const bool started = client_.heartbeat([self = shared_from_this(), request] {
    {
      const std::scoped_lock lock(self->requests_mutex_);
      self->announced_.insert(self->names_.wrap(request->message.topic));
    }
    self->send_request(request);
  });
  if (!started && stopped_.load()) {
    end_request(request->id, make_error(Errc::kCancelled, "the producer is closed"));
  } else if (!started) {
    // One that was built before may not name us.
    client_.timers().add(kAnnounceAgain, [self = shared_from_this(), request] {
      self->announce_then_send(request);
    });
  }
}

void ProducerCore::send_request(const std::shared_ptr<PendingRequest>& request) {
  const std::uint64_t now = client_.clock().mono_ns();
  if (now >= request->deadline_ns) {
    return;  // its timer ends it
  }
  SendOptions how;
  how.timeout = std::chrono::milliseconds(std::max<std::int64_t>(
      static_cast<std::int64_t>((request->deadline_ns - now) / 1'000'000), 1));
  how.queue = request->queue ? &*request->queue : nullptr;
  how.select = request->select ? &*request->select : nullptr;
  how.sharding_key = request->sharding_key;
  start(
      std::move(request->message),
      [self = shared_from_this(), id = request->id](Result<Receipt> r) {
        if (!r) {
          self->end_request(id, std::move(r).error());
        }
      },
      how,
      SendForm::kAsync,
      &request->extras);
}

void ProducerCore::end_request(const std::string& id, Result<MessageView> result) {
  std::shared_ptr<PendingRequest> request;
  {
    const std::scoped_lock lock(requests_mutex_);
    const auto it = requests_.find(id);
    if (it == requests_.end()) {
      return;
    }
    request = std::move(it->second);
    requests_.erase(it);
  }
  client_.timers().cancel(request->timer);
  struct Posted {
    Producer::ReplyCallback done;
    Result<MessageView> result;
  };
  auto posted = std::make_shared<Posted>(Posted{std::move(request->done), std::move(result)});
  running_.fetch_add(1);
  auto run = [self = shared_from_this(), posted] {
    self->run_callback([posted](Result<Receipt>) { posted->done(std::move(posted->result)); },
                       Receipt());
  };
  if (const Executor& executor = client_.options().executor; executor && !stopped_.load()) {
    executor(std::move(run));
  } else {
    run();
  }
}

void ProducerCore::cancel_requests() {
  std::vector<std::string> ids;
  {
    const std::scoped_lock lock(requests_mutex_);
    for (const auto& [id, request] : requests_) {
      ids.push_back(id);
    }
  }
  for (const std::string& id : ids) {
    Error e = make_error(Errc::kCancelled, "the producer was closed");
    e.outcome_unknown = true;
    end_request(id, std::move(e));
  }
}

Result<MessageView> ProducerCore::request(Message message, const SendOptions& how) {
  if (client_.on_own_thread()) {
    return make_error(Errc::kInvalidArgument,
                      "a blocking request on an I/O thread would wait for itself");
  }
  struct Wait {
    std::mutex mutex;
    std::condition_variable ready;
    std::optional<Result<MessageView>> result;
  };
  auto wait = std::make_shared<Wait>();
  start_request(
      std::move(message),
      [wait](Result<MessageView> r) {
        const std::scoped_lock lock(wait->mutex);
        wait->result.emplace(std::move(r));
        wait->ready.notify_all();
      },
      how);
  std::unique_lock lock(wait->mutex);
  wait->ready.wait(lock, [&] { return wait->result.has_value(); });
  return std::move(*wait->result);
}

bool ProducerCore::on_reply(std::string_view correlation_id, const MessageView& reply) {
  {
    const std::scoped_lock lock(requests_mutex_);
    if (requests_.find(correlation_id) == requests_.end()) {
      return false;
    }
  }
  end_request(std::string(correlation_id), reply);
  return true;
}

Result<Receipt> ProducerCore::reply(const MessageView& request,
                                    Message answer,
                                    const SendOptions& how) {
  const auto cluster = request ? request.property(proto::prop::kCluster) : std::nullopt;
  const auto id = request ? request.property(proto::prop::kCorrelationId) : std::nullopt;
  if (!cluster || !id) {
    return make_error(Errc::kCreateReply,
                      std::string("create reply message fail, requestMessage error, property[") +
                          (cluster ? "CORRELATION_ID" : "CLUSTER") + "] is null.");
  }
  answer.topic = std::string(*cluster) + "_REPLY_TOPIC";
  SendExtras extras;
  extras.reply = true;
  put_property(extras.properties, proto::prop::kMsgType, "reply");
  put_property(extras.properties, proto::prop::kCorrelationId, *id);
  put_property(extras.properties,
               proto::prop::kReplyToClient,
               request.property(proto::prop::kReplyToClient).value_or(""));
  put_property(
      extras.properties, proto::prop::kTtl, request.property(proto::prop::kTtl).value_or(""));
  return send(std::move(answer), how, &extras);
}

Result<std::string> ProducerCore::recall(std::string_view topic, std::string_view handle) {
  const auto wire = wire_topic(topic);
  if (!wire) {
    return wire.error();
  }
  if (topic.starts_with("%RETRY%") || topic.starts_with("%DLQ%")) {
    return make_error(Errc::kInvalidArgument, "messages of this topic cannot be recalled");
  }
  const std::string broker = broker_of_handle(handle);
  if (broker.empty()) {
    return make_error(Errc::kInvalidArgument, "recall handle is invalid");
  }
  auto info = client_.routes().resolve_blocking(
      *wire, options_.create_topic_key, options_.default_topic_queues);
  if (!info) {
    return std::move(info).error();
  }
  const std::string address = client_.routes().address(broker, 0, true);
  if (address.empty()) {
    return make_error(Errc::kBrokerNotExist, "The broker[" + broker + "] not exist", broker);
  }
  proto::Command c = make_request(proto::RequestCode::kRecallMessage);
  c.set("producerGroup", options_.group);
  c.set("topic", *wire);
  c.set("recallHandle", handle);
  c.set("bname", broker);
  auto answer = client_.calls().ask_ok(address, std::move(c), kRecallTimeout);
  if (!answer) {
    return std::move(answer).error();
  }
  std::string id(answer->field("msgId").value_or(""));
  if (tracer_ != nullptr && tracer_->log->traces(topic)) {
    tracer_->log->recalled(shown_group_, topic, id, true, {});
  }
  return id;
}

}  // namespace tenon::sdk::detail
