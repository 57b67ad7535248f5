#include "tenon/sdk/push_consumer.h"

#include "consumer_core.h"
#include "errors.h"
#include "handles.h"

namespace tenon::sdk {

Result<PushConsumer> PushConsumer::open(Client& client,
                                        PushConsumerOptions options,
                                        Listener listener) {
  return started(
      client, detail::ConsumerCore::create(*client.core_, std::move(options), std::move(listener)));
}

Result<PushConsumer> PushConsumer::open(Client& client,
                                        PushConsumerOptions options,
                                        InOrder listener) {
  detail::Listeners listeners;
  listeners.orderly = std::move(listener);
  return started(
      client,
      detail::ConsumerCore::create(*client.core_, std::move(options), std::move(listeners)));
}

Result<PushConsumer> PushConsumer::started(Client& client,
                                           Result<std::shared_ptr<detail::ConsumerCore>> core) {
  if (client.core_->on_own_thread()) {
    return make_error(Errc::kInvalidArgument, "a consumer cannot be opened on an I/O thread");
  }
  if (!core) {
    return std::move(core).error();
  }
  if (auto r = client.core_->add(*core); !r) {
    return std::move(r).error();
  }
  PushConsumer consumer(*core, client.core_);
  if (auto r = (*core)->start(); !r) {
    return std::move(r).error();
  }
  return consumer;
}

PushConsumer::PushConsumer(std::shared_ptr<detail::ConsumerCore> core,
                           std::shared_ptr<detail::ClientCore> client) noexcept
    : client_(std::move(client)),
      core_(std::move(core)) {}

PushConsumer::PushConsumer(PushConsumer&&) noexcept = default;

PushConsumer& PushConsumer::operator=(PushConsumer&& other) noexcept {
  detail::replace_handle(*this, core_, client_, other.core_, other.client_);
  return *this;
}

PushConsumer::~PushConsumer() {
  detail::leave_consumer(core_, client_);
}

void PushConsumer::pause() {
  core_->pause();
}

void PushConsumer::resume() {
  core_->resume();
}

std::vector<Queue> PushConsumer::owned() const {
  return core_->owned();
}

Result<void> PushConsumer::subscribe(std::string_view topic, Subscription subscription) {
  return core_->subscribe(topic, subscription);
}

Result<void> PushConsumer::unsubscribe(std::string_view topic) {
  return core_->unsubscribe(topic);
}

Result<void> PushConsumer::close() {
  const bool drained = core_->drain(core_->drain_limit());
  core_->stop();
  if (!drained) {
    return make_error(Errc::kTimeout, "messages were left when the time of close() was over");
  }
  return {};
}

}  // namespace tenon::sdk
