// C interface: producer.
#include "c/c_support.h"

#include <algorithm>
#include <chrono>
#include <string_view>

namespace tenon::sdk::c {
namespace {

using std::chrono::milliseconds;

struct Outgoing {
  Message message{};
  SendOptions options{};
};

std::vector<std::string> split_keys(const char* keys) {
  std::vector<std::string> out;
  std::string_view rest = keys == nullptr ? std::string_view() : std::string_view(keys);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (end > 0) {
      out.emplace_back(rest.substr(0, end));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

/// `out.options` points into `in`. @return 0 or the failure
std::int32_t convert(const tenon_message* from, tenon_message& in, Outgoing& out) {
  if (from == nullptr || !adopt(from, in)) {
    return failed(Errc::kInvalidArgument, "message.size is wrong");
  }
  if ((in.body == nullptr && in.body_length != 0) ||
      (in.properties == nullptr && in.property_count != 0)) {
    return failed(Errc::kInvalidArgument, "message: a length without a pointer");
  }
  out.message.topic = text(in.topic);
  if (in.body_length != 0) {
    out.message.body.assign(static_cast<const char*>(in.body), in.body_length);
  }
  out.message.tag = text(in.tag);
  out.message.keys = split_keys(in.keys);
  out.message.delay_level = in.delay_level;
  out.message.delay = milliseconds(in.delay_ms);
  if (in.deliver_at_ms != 0) {
    out.message.deliver_at = std::chrono::system_clock::time_point(milliseconds(in.deliver_at_ms));
  }
  for (std::size_t i = 0; i < in.property_count; ++i) {
    if (in.properties[i].name == nullptr || in.properties[i].value == nullptr) {
      return failed(Errc::kInvalidArgument, "message: a property without name or value");
    }
    out.message.properties[in.properties[i].name] = in.properties[i].value;
  }
  out.message.flag = in.flag;
  out.options.timeout = milliseconds(in.timeout_ms);
  if (in.sharding_key != nullptr) {
    out.options.sharding_key = in.sharding_key;
  }
  return 0;
}

template <std::size_t N>
void put(char (&out)[N], std::string_view text) noexcept {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(out, text.data(), n);
  out[n] = '\0';
}

tenon_receipt receipt_of(const Receipt& from) noexcept {
  tenon_receipt out{};
  out.size = sizeof out;
  out.status = static_cast<std::int32_t>(from.status);
  out.queue_id = from.queue.id;
  out.queue_offset = from.queue_offset;
  put(out.id, from.id);
  put(out.offset_id, from.offset_id);
  put(out.broker, from.queue.broker);
  put(out.recall_handle, from.recall_handle);
  return out;
}

/// Fills as much as the caller has room for.
void give(const Receipt& from, tenon_receipt* to) noexcept {
  const std::size_t room = to->size;
  const tenon_receipt full = receipt_of(from);
  std::memcpy(to, &full, std::min(room, sizeof full));
  to->size = room;
}

Result<ProducerOptions> producer_options(const tenon_producer_options& in) {
  ProducerOptions out;
  out.group = text(in.group);
  out.selector = text(in.selector);
  if (in.send_timeout_ms != 0) {
    out.send_timeout = milliseconds(in.send_timeout_ms);
  }
  if (in.retries != 0) {
    out.retries = in.retries == -1 ? 0 : in.retries;
    out.retries_async = out.retries;
  }
  constexpr Compression kKinds[] = {
      Compression::kZlib, Compression::kNone, Compression::kLz4, Compression::kZstd};
  if (in.compression < 0 || in.compression > 3) {
    return Error{Errc::kInvalidArgument, -1, "compression must be 0 to 3"};
  }
  out.compression = kKinds[in.compression];
  if (in.compress_from_bytes != 0) {
    out.compress_from_bytes = in.compress_from_bytes;
  }
  if (in.max_body_bytes != 0) {
    out.max_body_bytes = in.max_body_bytes;
  }
  return out;
}

}  // namespace
}  // namespace tenon::sdk::c

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
    tenon_message in;
    c::Outgoing outgoing;
    if (receipt != nullptr && receipt->size <= sizeof receipt->size) {
      return c::failed(Errc::kInvalidArgument, "receipt.size is wrong");
    }
    if (const std::int32_t wrong = c::convert(message, in, outgoing); wrong != 0) {
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
    tenon_message in;
    c::Outgoing outgoing;
    if (done == nullptr) {
      return c::failed(Errc::kInvalidArgument, "tenon_producer_send_async: done is NULL");
    }
    if (const std::int32_t wrong = c::convert(message, in, outgoing); wrong != 0) {
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
    tenon_message in;
    c::Outgoing outgoing;
    if (const std::int32_t wrong = c::convert(message, in, outgoing); wrong != 0) {
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
