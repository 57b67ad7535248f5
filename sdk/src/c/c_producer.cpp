// C interface: producer of single messages.
#include "c/c_message.h"

#include <chrono>
#include <utility>

using namespace tenon::sdk;

int32_t tenon_producer_open(tenon_client* client,
                            const tenon_producer_options* options,
                            tenon_producer** out) noexcept {
  return c::guarded([&] {
    tenon_producer_options in;
    if (client == nullptr || out == nullptr || !c::adopt(options, in)) {
      return c::failed(Errc::kInvalidArgument,
                       "tenon_producer_open: options.size, client or out is wrong");
    }
    auto settings = c::producer_options(in);
    if (!settings) {
      return c::failed(settings.error());
    }
    auto producer = Producer::open(client->client, std::move(*settings));
    if (!producer) {
      return c::failed(producer.error());
    }
    *out = new tenon_producer{std::move(*producer)};
    return 0;
  });
}

int32_t tenon_producer_send(tenon_producer* producer,
                            const tenon_message* message,
                            tenon_receipt* receipt) noexcept {
  return c::guarded([&] {
    c::Outgoing outgoing;
    if (!c::sized(receipt)) {
      return c::failed(Errc::kInvalidArgument, "receipt.size is wrong");
    }
    if (const std::int32_t wrong = c::convert(message, outgoing); wrong != 0) {
      return wrong;
    }
    const auto r = producer->producer.send(std::move(outgoing.message), outgoing.options);
    if (!r) {
      return c::failed(r.error());
    }
    if (receipt != nullptr) {
      c::give(*r, receipt);
    }
    return 0;
  });
}

int32_t tenon_producer_send_async(tenon_producer* producer,
                                  const tenon_message* message,
                                  tenon_send_fn done,
                                  void* arg) noexcept {
  return c::guarded([&] {
    c::Outgoing outgoing;
    if (done == nullptr) {
      return c::failed(Errc::kInvalidArgument, "tenon_producer_send_async: done is NULL");
    }
    if (const std::int32_t wrong = c::convert(message, outgoing); wrong != 0) {
      return wrong;
    }
    producer->producer.async_send(
        std::move(outgoing.message),
        [done, arg](Result<Receipt> r) {
          if (!r) {
            done(arg, c::failed(r.error()), nullptr);
            return;
          }
          const tenon_receipt receipt = c::receipt_of(*r);
          done(arg, TENON_CLIENT_OK, &receipt);
        },
        outgoing.options);
    return 0;
  });
}

int32_t tenon_producer_send_oneway(tenon_producer* producer,
                                   const tenon_message* message) noexcept {
  return c::guarded([&] {
    c::Outgoing outgoing;
    if (const std::int32_t wrong = c::convert(message, outgoing); wrong != 0) {
      return wrong;
    }
    const auto r = producer->producer.send_oneway(std::move(outgoing.message), outgoing.options);
    return r ? 0 : c::failed(r.error());
  });
}

int32_t tenon_producer_close(tenon_producer* producer, int64_t deadline_ms) noexcept {
  return c::guarded([&] {
    const auto r = producer->producer.close(std::chrono::milliseconds(deadline_ms));
    return r ? 0 : c::failed(r.error());
  });
}

void tenon_producer_destroy(tenon_producer* producer) noexcept {
  delete producer;
}
