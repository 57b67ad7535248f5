#include "tenon/sdk/transaction.h"

#include "errors.h"
#include "handles.h"
#include "transaction_core.h"

#include <string>

namespace tenon::sdk {

Result<TransactionProducer> TransactionProducer::start(
    Client& client,
    TransactionOptions options,
    std::function<TxState(const Message&, const Receipt&)> execute,
    std::function<TxState(const MessageView&)> check) {
  auto core = detail::TransactionCore::create(
      *client.core_, std::move(options), std::move(execute), std::move(check));
  if (!core) {
    return std::move(core).error();
  }
  if (auto r = client.core_->add((*core)->producer()); !r) {
    return std::move(r).error();
  }
  client.core_->add(*core);
  return TransactionProducer(std::move(*core), client.core_);
}

TransactionProducer::TransactionProducer(std::shared_ptr<detail::TransactionCore> core,
                                         std::shared_ptr<detail::ClientCore> client) noexcept
    : client_(std::move(client)),
      core_(std::move(core)) {}

TransactionProducer::TransactionProducer(TransactionProducer&&) noexcept = default;

TransactionProducer& TransactionProducer::operator=(TransactionProducer&& other) noexcept {
  detail::replace_handle(*this, core_, client_, other.core_, other.client_);
  return *this;
}

TransactionProducer::~TransactionProducer() {
  detail::leave_producer(core_, client_.get());
}

Result<TransactionReceipt> TransactionProducer::send(Message message, SendOptions options) {
  return core_->send(std::move(message), options);
}

void TransactionProducer::begin(Message message, Callback done, const SendOptions& options) {
  core_->start(std::move(message), std::move(done), options);
}

}  // namespace tenon::sdk
