// C interface: producer of transactional messages.
#include "c/c_message.h"

#include <chrono>

struct tenon_transaction {
  tenon::sdk::TransactionProducer producer;
};

namespace tenon::sdk::c {
namespace {

TxState state_of(std::int32_t answer) noexcept {
  switch (answer) {
    case TENON_TRANSACTION_COMMIT:
      return TxState::kCommit;
    case TENON_TRANSACTION_ROLLBACK:
      return TxState::kRollback;
    default:
      return TxState::kUnknown;
  }
}

/// The caller's functions as the C++ interface wants them.
struct Listener {
  tenon_transaction_listener to{};

  TxState execute(const Message& message, const Receipt& half) {
    const Shown view(message);
    const tenon_receipt receipt = receipt_of(half);
    return state_of(to.execute(to.arg, view.get(), &receipt));
  }
  TxState check(const MessageView& stored) { return state_of(to.check(to.arg, delivery(stored))); }
};

Result<TransactionOptions> transaction_options(const tenon_transaction_options& in) {
  TransactionOptions out;
  tenon_producer_options producer;
  if (!adopt(in.producer, producer)) {
    return Error{Errc::kInvalidArgument, -1, "options.producer.size is wrong"};
  }
  auto of_producer = producer_options(producer);
  if (!of_producer) {
    return std::move(of_producer).error();
  }
  out.producer = std::move(*of_producer);
  set(out.threads, in.threads);
  set(out.waiting_max, in.waiting_max);
  out.first_check_after =
      std::chrono::ceil<std::chrono::seconds>(std::chrono::milliseconds(in.first_check_after_ms));
  return out;
}

}  // namespace
}  // namespace tenon::sdk::c

using namespace tenon::sdk;

int32_t tenon_transaction_open(tenon_client* client,
                               const tenon_transaction_options* options,
                               const tenon_transaction_listener* listener,
                               tenon_transaction** out) noexcept {
  return c::guarded([&] {
    tenon_transaction_options in;
    c::Listener to;
    if (client == nullptr || out == nullptr || !c::adopt(options, in) ||
        !c::adopt(listener, to.to) || to.to.execute == nullptr || to.to.check == nullptr) {
      return c::failed(Errc::kInvalidArgument,
                       "tenon_transaction_open: a size, client, listener or out is wrong");
    }
    auto settings = c::transaction_options(in);
    if (!settings) {
      return c::failed(settings.error());
    }
    auto producer = TransactionProducer::open(client->client, std::move(*settings), to);
    if (!producer) {
      return c::failed(producer.error());
    }
    *out = new tenon_transaction{std::move(*producer)};
    return 0;
  });
}

int32_t tenon_transaction_send(tenon_transaction* transaction,
                               const tenon_message* message,
                               tenon_receipt* half,
                               int32_t* state) noexcept {
  return c::guarded([&] {
    c::Outgoing outgoing;
    if (!c::sized(half)) {
      return c::failed(Errc::kInvalidArgument, "half.size is wrong");
    }
    if (const std::int32_t wrong = c::convert(message, outgoing); wrong != 0) {
      return wrong;
    }
    const auto r = transaction->producer.send(std::move(outgoing.message), outgoing.options);
    if (!r) {
      return c::failed(r.error());
    }
    if (half != nullptr) {
      c::give(r->send, half);
    }
    if (state != nullptr) {
      *state = static_cast<std::int32_t>(r->local);
    }
    return 0;
  });
}

int32_t tenon_transaction_send_async(tenon_transaction* transaction,
                                     const tenon_message* message,
                                     tenon_transaction_fn done,
                                     void* arg) noexcept {
  return c::guarded([&] {
    c::Outgoing outgoing;
    if (done == nullptr) {
      return c::failed(Errc::kInvalidArgument, "tenon_transaction_send_async: done is NULL");
    }
    if (const std::int32_t wrong = c::convert(message, outgoing); wrong != 0) {
      return wrong;
    }
    transaction->producer.async_send(
        std::move(outgoing.message),
        [done, arg](Result<TransactionReceipt> r) {
          if (!r) {
            done(arg, c::failed(r.error()), nullptr, TENON_TRANSACTION_UNKNOWN);
            return;
          }
          const tenon_receipt half = c::receipt_of(r->send);
          done(arg, TENON_CLIENT_OK, &half, static_cast<std::int32_t>(r->local));
        },
        outgoing.options);
    return 0;
  });
}

void tenon_transaction_destroy(tenon_transaction* transaction) noexcept {
  delete transaction;
}
