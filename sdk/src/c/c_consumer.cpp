// C interface: received messages and push consumer.
#include "c/c_message.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <span>
#include <string_view>
#include <vector>

namespace tenon::sdk::c {
namespace {

using std::chrono::milliseconds;

const char* expose(std::string_view text, std::size_t* length) noexcept {
  if (length != nullptr) {
    *length = text.size();
  }
  return text.data() == nullptr ? "" : text.data();
}

std::int64_t ms(std::chrono::system_clock::time_point when) noexcept {
  return std::chrono::duration_cast<milliseconds>(when.time_since_epoch()).count();
}

struct Verdict {
  std::int32_t ack = TENON_ACK_RETRY;
  tenon_ack_details details{};
};

Verdict ask(tenon_listener_fn listener, void* arg, std::span<const MessageView> batch) {
  std::array<const tenon_delivery*, 32> few;
  std::vector<const tenon_delivery*> many(batch.size() > few.size() ? batch.size() : 0);
  const tenon_delivery** pointers = many.empty() ? few.data() : many.data();
  std::transform(batch.begin(), batch.end(), pointers, delivery);
  Verdict verdict;
  verdict.details.size = sizeof verdict.details;
  verdict.ack = listener(arg, pointers, batch.size(), &verdict.details);
  return verdict;
}

Result<PushConsumerOptions> push_options(const tenon_consumer_options& in) {
  PushConsumerOptions out;
  if (auto r = consumer_options(in, out); !r) {
    return std::move(r).error();
  }
  set(out.max_attempts, in.max_attempts);
  set(out.threads, in.threads);
  set(out.batch_max, in.batch_max);
  set(out.cached_max_span, in.cached_max_span);
  set(out.pull_interval, in.pull_interval_ms);
  set(out.suspend_delay, in.suspend_delay_ms);
  set(out.consume_timeout, in.consume_timeout_ms);
  set(out.offset_interval, in.offset_interval_ms);
  set(out.drain_on_close, in.drain_on_close_ms);
  return out;
}

OrderAck order_ack(const Verdict& v) noexcept {
  switch (v.ack) {
    case TENON_ACK_SUCCESS:
      return OrderAck::success();
    case TENON_ACK_HOLD:
      return OrderAck::hold();
    case TENON_ACK_COMMIT:
      return OrderAck::commit();
    case TENON_ACK_ROLLBACK:
      return OrderAck::rollback(milliseconds(v.details.pause_ms));
    default:
      return OrderAck::suspend(milliseconds(v.details.pause_ms));
  }
}

Result<PushConsumer> open(Client& client,
                          PushConsumerOptions options,
                          bool orderly,
                          tenon_listener_fn listener,
                          void* arg) {
  if (orderly) {
    return PushConsumer::orderly(
        client, std::move(options), [listener, arg](std::span<const MessageView> batch) {
          return order_ack(ask(listener, arg, batch));
        });
  }
  return PushConsumer::concurrent(
      client, std::move(options), [listener, arg](std::span<const MessageView> batch) {
        const Verdict v = ask(listener, arg, batch);
        if (v.ack == TENON_ACK_SUCCESS) {
          return Ack::success();
        }
        return v.ack == TENON_ACK_DEAD_LETTER
                   ? Ack::dead_letter()
                   : Ack::partial(v.details.done, std::max(v.details.delay_level, 0));
      });
}

}  // namespace

Subscription subscription(const tenon_subscription& in) {
  Subscription out;
  if (in.expression != nullptr) {
    out.expression = in.expression;
  }
  out.kind = in.sql != 0 ? FilterKind::kSql92 : FilterKind::kTag;
  return out;
}

Result<std::map<std::string, Subscription>> subscriptions(const tenon_subscription* first,
                                                          std::size_t count) {
  if (first == nullptr && count != 0) {
    return Error{Errc::kInvalidArgument, -1, "subscriptions is NULL"};
  }
  std::map<std::string, Subscription> out;
  for (std::size_t i = 0; i < count; ++i) {
    out[text(first[i].topic)] = subscription(first[i]);
  }
  return out;
}

Result<StartPosition> start_position(std::int32_t start, std::int64_t start_ms) {
  switch (start) {
    case TENON_START_LAST:
      return StartPosition(FromLast{});
    case TENON_START_FIRST:
      return StartPosition(FromFirst{});
    case TENON_START_TIME:
      return StartPosition(FromTime{std::chrono::system_clock::time_point(milliseconds(start_ms))});
    default:
      return Error{Errc::kInvalidArgument, -1, "start must be 0 to 2"};
  }
}

}  // namespace tenon::sdk::c

using namespace tenon::sdk;

const void* tenon_delivery_body(const tenon_delivery* d, size_t* length) noexcept {
  try {
    return c::expose(c::view(d).body(), length);
  } catch (...) {  // no memory to inflate it
    return c::expose({}, length);
  }
}
const char* tenon_delivery_topic(const tenon_delivery* d, size_t* length) noexcept {
  return c::expose(c::view(d).topic(), length);
}
const char* tenon_delivery_tag(const tenon_delivery* d, size_t* length) noexcept {
  return c::expose(c::view(d).tag(), length);
}
const char* tenon_delivery_keys(const tenon_delivery* d, size_t* length) noexcept {
  return c::expose(c::view(d).keys(), length);
}
const char* tenon_delivery_broker(const tenon_delivery* d, size_t* length) noexcept {
  return c::expose(c::view(d).broker(), length);
}
const char* tenon_delivery_property(const tenon_delivery* d,
                                    const char* name,
                                    size_t* length) noexcept {
  const auto value = c::view(d).property(name == nullptr ? "" : name);
  return value ? c::expose(*value, length) : nullptr;
}
size_t tenon_delivery_id(const tenon_delivery* d, char* out, size_t room) noexcept {
  try {
    return c::copy(c::view(d).id(), out, room);
  } catch (...) {
    return 0;
  }
}
int32_t tenon_delivery_queue_id(const tenon_delivery* d) noexcept {
  return c::view(d).queue_id();
}
int64_t tenon_delivery_queue_offset(const tenon_delivery* d) noexcept {
  return c::view(d).queue_offset();
}
int32_t tenon_delivery_reconsume_times(const tenon_delivery* d) noexcept {
  return c::view(d).reconsume_times();
}
int64_t tenon_delivery_born_ms(const tenon_delivery* d) noexcept {
  return c::ms(c::view(d).born_time());
}
int64_t tenon_delivery_store_ms(const tenon_delivery* d) noexcept {
  return c::ms(c::view(d).store_time());
}
int32_t tenon_delivery_flag(const tenon_delivery* d) noexcept {
  return c::view(d).flag();
}
tenon_delivery* tenon_delivery_copy(const tenon_delivery* d) noexcept {
  return reinterpret_cast<tenon_delivery*>(new (std::nothrow) MessageView(c::view(d)));
}
void tenon_delivery_free(tenon_delivery* copy) noexcept {
  delete reinterpret_cast<MessageView*>(copy);
}

int32_t tenon_consumer_open(tenon_client* client,
                            const tenon_consumer_options* options,
                            tenon_listener_fn listener,
                            void* arg,
                            tenon_consumer** out) noexcept {
  return c::guarded([&] {
    tenon_consumer_options in;
    if (client == nullptr || listener == nullptr || out == nullptr || !c::adopt(options, in)) {
      return c::failed(Errc::kInvalidArgument,
                       "tenon_consumer_open: options.size, client, listener or out is wrong");
    }
    auto settings = c::push_options(in);
    if (!settings) {
      return c::failed(settings.error());
    }
    auto consumer = c::open(client->client, std::move(*settings), in.orderly != 0, listener, arg);
    if (!consumer) {
      return c::failed(consumer.error());
    }
    *out = new tenon_consumer{std::move(*consumer)};
    return 0;
  });
}

void tenon_consumer_pause(tenon_consumer* consumer) noexcept {
  c::guarded([&] {
    consumer->consumer.pause();
    return 0;
  });
}
void tenon_consumer_resume(tenon_consumer* consumer) noexcept {
  c::guarded([&] {
    consumer->consumer.resume();
    return 0;
  });
}
int32_t tenon_consumer_subscribe(tenon_consumer* consumer,
                                 const tenon_subscription* wanted) noexcept {
  return c::guarded([&] {
    if (wanted == nullptr) {
      return c::failed(Errc::kInvalidArgument, "tenon_consumer_subscribe: subscription is NULL");
    }
    const auto r = consumer->consumer.subscribe(c::text(wanted->topic), c::subscription(*wanted));
    return r ? 0 : c::failed(r.error());
  });
}
int32_t tenon_consumer_unsubscribe(tenon_consumer* consumer, const char* topic) noexcept {
  return c::guarded([&] {
    const auto r = consumer->consumer.unsubscribe(c::text(topic));
    return r ? 0 : c::failed(r.error());
  });
}
int32_t tenon_consumer_owned(const tenon_consumer* consumer,
                             tenon_queue_fn each,
                             void* arg) noexcept {
  return c::guarded([&] {
    if (each == nullptr) {
      return c::failed(Errc::kInvalidArgument, "tenon_consumer_owned: each is NULL");
    }
    for (const Queue& q : consumer->consumer.owned()) {
      const tenon_message_queue queue = c::shown(q);
      each(arg, &queue);
    }
    return 0;
  });
}
int32_t tenon_consumer_close(tenon_consumer* consumer) noexcept {
  return c::guarded([&] {
    const auto r = consumer->consumer.close();
    return r ? 0 : c::failed(r.error());
  });
}
void tenon_consumer_destroy(tenon_consumer* consumer) noexcept {
  delete consumer;
}
