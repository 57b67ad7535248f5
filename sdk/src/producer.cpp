#include "tenon/sdk/producer.h"

#include "errors.h"
#include "handles.h"
#include "producer_core.h"

#include "tenon/proto/properties.h"

namespace tenon::sdk {

int hash_queue(std::string_view key, std::size_t queue_count) noexcept {
  if (queue_count == 0) {
    return -1;
  }
  // Java: value = arg.hashCode() % n; if (value < 0) value = Math.abs(value)
  const int rest = proto::java_hash(key) % static_cast<int>(queue_count);
  return rest < 0 ? -rest : rest;
}

Result<Producer> Producer::open(Client& client, ProducerOptions options) {
  auto core = detail::ProducerCore::create(*client.core_, std::move(options));
  if (!core) {
    return std::move(core).error();
  }
  if (auto r = client.core_->add(*core); !r) {
    return std::move(r).error();
  }
  return Producer(std::move(*core), client.core_);
}

Producer::Producer(std::shared_ptr<detail::ProducerCore> core,
                   std::shared_ptr<detail::ClientCore> client) noexcept
    : client_(std::move(client)),
      core_(std::move(core)) {}

Producer::Producer(Producer&&) noexcept = default;

Producer& Producer::operator=(Producer&& other) noexcept {
  detail::replace_handle(*this, core_, client_, other.core_, other.client_);
  return *this;
}

Producer::~Producer() {
  detail::leave_producer(core_, client_.get());
}

Result<Receipt> Producer::send(Message message, SendOptions options) {
  return core_->send(std::move(message), options);
}

void Producer::start(Message message, Callback done, const SendOptions& options) {
  core_->start(std::move(message), std::move(done), options, SendForm::kAsync);
}

Result<void> Producer::send_oneway(Message message, SendOptions options) {
  return core_->send_oneway(std::move(message), options);
}

Result<std::vector<Receipt>> Producer::send_batch(std::span<Message> messages,
                                                  SendOptions options,
                                                  std::vector<Receipt>* sent) {
  return core_->send_batch(messages, options, sent);
}

Result<MessageView> Producer::request(Message message, SendOptions options) {
  return core_->request(std::move(message), options);
}

void Producer::start_request(Message message, ReplyCallback done, const SendOptions& options) {
  core_->start_request(std::move(message), std::move(done), options);
}

Result<Receipt> Producer::reply(const MessageView& request, Message answer, SendOptions options) {
  return core_->reply(request, std::move(answer), options);
}

Result<std::string> Producer::recall(std::string_view topic, std::string_view recall_handle) {
  return core_->recall(topic, recall_handle);
}

Result<std::vector<Queue>> Producer::queues(std::string_view topic) {
  return core_->queues(topic);
}

Result<void> Producer::close(std::chrono::milliseconds deadline) {
  const bool drained = core_->drain(deadline);
  core_->stop();
  if (!drained) {
    return make_error(Errc::kTimeout, "sends were in flight at the deadline of close()");
  }
  return {};
}

}  // namespace tenon::sdk
