#include "tenon/sdk/pull_consumer.h"

#include "consumer_core.h"
#include "errors.h"
#include "handles.h"
#include "poller.h"

namespace tenon::sdk {
namespace {

/// As servers call it.
Queue wire(const detail::ClientCore& client, const Queue& queue) {
  return client.names().wrap(queue);
}

std::vector<Queue> wire(const detail::ClientCore& client, std::span<const Queue> queues) {
  std::vector<Queue> out;
  for (const Queue& q : queues) {
    out.push_back(client.names().wrap(q));
  }
  return out;
}

std::int64_t epoch_ms(std::chrono::system_clock::time_point when) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count();
}

}  // namespace

Result<PullConsumer> PullConsumer::open(Client& client, PullConsumerOptions options) {
  if (client.core_->on_own_thread()) {
    return make_error(Errc::kInvalidArgument, "a consumer cannot be opened on an I/O thread");
  }
  auto core = detail::ConsumerCore::create_pull(*client.core_, std::move(options));
  if (!core) {
    return std::move(core).error();
  }
  if (auto r = client.core_->add(*core); !r) {
    return std::move(r).error();
  }
  PullConsumer consumer(*core, client.core_);
  if (auto r = (*core)->start(); !r) {
    return std::move(r).error();
  }
  return consumer;
}

PullConsumer::PullConsumer(std::shared_ptr<detail::ConsumerCore> core,
                           std::shared_ptr<detail::ClientCore> client) noexcept
    : client_(std::move(client)),
      core_(std::move(core)) {}

PullConsumer::PullConsumer(PullConsumer&&) noexcept = default;

PullConsumer& PullConsumer::operator=(PullConsumer&& other) noexcept {
  detail::replace_handle(*this, core_, client_, other.core_, other.client_);
  return *this;
}

PullConsumer::~PullConsumer() {
  detail::leave_consumer(core_, client_);
}

std::vector<MessageView> PullConsumer::poll(std::chrono::milliseconds timeout,
                                            std::stop_token stop) {
  if (client_->on_own_thread()) {
    return {};
  }
  return core_->poller().poll(timeout, stop);
}

Result<void> PullConsumer::commit() {
  return core_->poller().commit();
}
Result<void> PullConsumer::commit(const Queue& queue, std::int64_t offset) {
  return core_->poller().commit(wire(*client_, queue), offset);
}
Result<void> PullConsumer::assign(std::span<const Queue> queues, const Subscription& wanted) {
  return core_->poller().assign(wire(*client_, queues), wanted);
}
Result<void> PullConsumer::subscribe(std::string_view topic, const Subscription& subscription) {
  return core_->subscribe(topic, subscription);
}
Result<void> PullConsumer::unsubscribe(std::string_view topic) {
  return core_->unsubscribe(topic);
}
std::vector<Queue> PullConsumer::owned() const {
  return core_->owned();
}

Result<std::vector<Queue>> PullConsumer::queues(std::string_view topic) {
  if (client_->on_own_thread()) {
    return make_error(Errc::kInvalidArgument, "queues() blocks: not on an I/O thread");
  }
  auto info = client_->routes().fetch_blocking(client_->names().wrap(topic));
  if (!info) {
    return std::move(info).error();
  }
  std::vector<Queue> out;
  for (const Queue& q : (*info)->subscribe) {
    out.push_back(client_->names().unwrap(q));
  }
  return out;
}

Result<void> PullConsumer::seek(const Queue& queue, std::int64_t offset) {
  return core_->poller().seek(wire(*client_, queue), offset);
}
Result<void> PullConsumer::seek_to_begin(const Queue& queue) {
  return core_->poller().seek_to(wire(*client_, queue), proto::RequestCode::kGetMinOffset);
}
Result<void> PullConsumer::seek_to_end(const Queue& queue) {
  return core_->poller().seek_to(wire(*client_, queue), proto::RequestCode::kGetMaxOffset);
}
Result<void> PullConsumer::seek_to_time(const Queue& queue,
                                        std::chrono::system_clock::time_point when) {
  return core_->poller().seek_to(
      wire(*client_, queue), proto::RequestCode::kSearchOffsetByTimestamp, epoch_ms(when));
}
Result<std::int64_t> PullConsumer::offset_at(const Queue& queue,
                                             std::chrono::system_clock::time_point when) {
  return core_->poller().ask(
      wire(*client_, queue), proto::RequestCode::kSearchOffsetByTimestamp, epoch_ms(when));
}

Result<std::int64_t> PullConsumer::position(const Queue& queue) const {
  return core_->poller().position(wire(*client_, queue));
}
Result<std::int64_t> PullConsumer::committed(const Queue& queue) {
  return core_->poller().committed(wire(*client_, queue));
}
void PullConsumer::pause(std::span<const Queue> queues) {
  core_->poller().pause(wire(*client_, queues), true);
}
void PullConsumer::resume(std::span<const Queue> queues) {
  core_->poller().pause(wire(*client_, queues), false);
}

Result<PullResult> PullConsumer::pull(const Queue& queue,
                                      std::int64_t offset,
                                      std::size_t max,
                                      std::chrono::milliseconds wait,
                                      const Subscription& wanted) {
  return core_->poller().pull(wire(*client_, queue), offset, max, wait, wanted);
}

Result<void> PullConsumer::close() {
  auto committed = core_->poller().before_stop();
  core_->stop();
  return committed;
}

}  // namespace tenon::sdk
